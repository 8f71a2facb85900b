"""The model of a node's accelerators, as the labels say that clusters have. Pure."""

from collections.abc import Mapping
from typing import Final

OWN_LABEL: Final = "specon.io/accelerator"
"""Says the model whatever the other labels say; with an empty value: it is not known."""

LABELS: Final = (
    OWN_LABEL,
    "nvidia.com/gpu.product",  # NVIDIA's GPU feature discovery; names parts and sharing too
    "amd.com/gpu.product-name",  # AMD's node labeller
    "beta.amd.com/gpu.product-name",  # the same, of earlier versions
    "gpu.intel.com/product",  # rules of Intel's device plugin for node feature discovery
    "cloud.google.com/gke-accelerator",  # GKE, and cluster autoscalers there
    "cloud.google.com/gke-tpu-accelerator",
    "eks.amazonaws.com/instance-gpu-name",  # EKS Auto Mode
    "karpenter.k8s.aws/instance-gpu-name",  # Karpenter on AWS
    "karpenter.k8s.aws/instance-accelerator-name",  # the same: Trainium, Inferentia
    "karpenter.azure.com/sku-gpu-name",  # Karpenter on Azure
    "k8s.amazonaws.com/accelerator",  # AWS node groups with a cluster autoscaler
)
"""The first of these that a node has counts: one read from the device goes before one that was configured."""


def model_of(labels: Mapping[str, str]) -> str:
    """Return the model of the accelerators of a node with these labels, empty where they do not say it."""
    if not labels:
        return ""
    return next((labels[name] for name in LABELS if name in labels), "")
