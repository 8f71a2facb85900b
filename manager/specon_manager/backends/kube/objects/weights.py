"""What the processors of a running pod mean for changing them in place. Pure.

Source: Kubernetes documentation, "Resize CPU and Memory Resources assigned to Containers".
"""

from collections.abc import Mapping
from typing import Any

from specon_manager.backends.kube.objects.fields import mapping, mappings
from specon_manager.backends.kube.objects.quantities import amounts_of


def requested_cpu(container: Mapping[str, Any]) -> float:
    """Return what a container requests of processors, cores."""
    return amounts_of(mapping(container.get("resources")).get("requests")).get("cpu", 0.0)


def bursts(container: Mapping[str, Any]) -> bool:
    """Whether a container that requests processors may use more of them: no limit stands at its request."""
    asked = requested_cpu(container)
    most = amounts_of(mapping(container.get("resources")).get("limits")).get("cpu")
    return asked > 0 and (most is None or most > asked)


def quantity(cores: float) -> str:
    """Return cores as Kubernetes writes them, to the thousandth."""
    return f"{max(1, round(cores * 1000))}m"


def read_whole_cpu(written: object) -> float | None:
    """Return what the annotation says that the trainer requested first, cores; None where it says nothing."""
    if not isinstance(written, str):
        return None
    found = amounts_of({"cpu": written}).get("cpu", 0.0)
    return found if found > 0 else None


def why_not(spec: Mapping[str, Any], status: Mapping[str, Any], trainer: Mapping[str, Any]) -> str:
    """Return why what a pod's trainer requests cannot be lowered in place, in words; empty where it can."""
    if status.get("qosClass") == "Guaranteed":
        return "its quality of service is Guaranteed, which a lower request would end"
    if requested_cpu(trainer) <= 0:
        return "its trainer requests no processors"
    for each in mappings(trainer.get("resizePolicy")):
        if each.get("resourceName") == "cpu" and each.get("restartPolicy") == "RestartContainer":
            return "its trainer is to be restarted when its processors change (resizePolicy)"
    if mapping(spec.get("os")).get("name") == "windows":
        return "pods on Windows cannot be resized"
    return ""
