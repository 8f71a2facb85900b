"""Kubeflow Trainer's status protocol, on loopback: callbacks for Trainer report to this sidecar."""
