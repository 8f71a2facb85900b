"""Whether a pod's trainer can take turns on its GPUs: one answer for admission and for what runs. Pure.

A sidecar stops what it can see and is allowed to signal: processes of its own user, in the namespace that the
containers of the pod share. NVIDIA's MPS is one process that serves all its clients, so one that is stopped
may keep the others waiting.
"""

from collections.abc import Mapping
from typing import Any, Final

from specon_manager.backends.kube.objects.fields import mapping, mappings
from specon_manager.backends.kube.objects.quantities import amounts_of, resources_of

_MPS: Final = "CUDA_MPS_PIPE_DIRECTORY"


def why_no_turns(spec: Mapping[str, Any], trainer: Mapping[str, Any], sidecar: Mapping[str, Any]) -> str:
    """Return why the trainer's container of a pod cannot be stopped and continued; empty where it can.

    `sidecar` is our container in it; {} where it is not there yet, and will run as the trainer's user.
    """
    user = _user(spec, trainer)
    ours = _user(spec, sidecar) if sidecar else user
    resources = mapping(trainer.get("resources"))
    if spec.get("hostPID"):
        return "the pod has hostPID, and so sees the processes of the whole node"
    if spec.get("shareProcessNamespace") is not True:
        return "the pod needs shareProcessNamespace: true, so that its sidecar sees the trainer's processes"
    if not user:
        return (
            f"securityContext.runAsUser must be set, and not 0 (it is {user}): its sidecar is that user too"
        )
    if user != ours:
        return f"its trainer runs as user {user} and its sidecar as {ours}, which may not signal it"
    if resources_of(amounts_of(resources.get("limits")) | amounts_of(resources.get("requests"))).gpu <= 0:
        return "its trainer requests no GPU; processors are lent by specon.io/min-cpu"
    if any(each.get("name") == _MPS for each in mappings(trainer.get("env"))):
        return f"its GPUs are shared by MPS ({_MPS} is set), under which no process may be stopped"
    return ""


def _user(spec: Mapping[str, Any], container: Mapping[str, Any]) -> int | None:
    """Return the user that a container runs as; None where its image decides."""
    for holder in (container, spec):
        user = mapping(holder.get("securityContext")).get("runAsUser")
        if isinstance(user, int) and not isinstance(user, bool):
            return user
    return None
