"""Kubeflow Trainer's status protocol, on loopback: whoever reports to Trainer reports to this sidecar."""
