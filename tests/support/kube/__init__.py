"""Clusters of objects without kubelets: fake and real API servers, and what stands before them."""
