"""A real cluster with kubelets: what is installed there, and what can be seen and done."""
