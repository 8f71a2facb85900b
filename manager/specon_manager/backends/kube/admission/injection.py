"""The pod with its sidecar: missing parts are added, present ones are left alone. Pure."""

import math
from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from specon_manager.backends.kube.admission.instrumentation import (
    HELPER_NAME,
    check_instrumented,
    instrument,
)
from specon_manager.backends.kube.admission.sidecar_container import (
    IDENTITY_VOLUME,
    InjectionSettings,
    helper_containers,
    identity_volume,
    sidecar_container,
    user_of,
)
from specon_manager.backends.kube.admission.status_protocol import is_reported, report_status
from specon_manager.backends.kube.admission.trainer_container import (
    TRAINER_MARK,
    PodRefusedError,
    items,
    paths_of,
    trainer_of,
)
from specon_manager.backends.kube.objects.annotation_keys import (
    CA,
    EVICT_ONLY,
    IN_PROGRESS,
    INJECTED,
    OURS,
    PINNED,
    PREFIX,
    REPLICA,
    SHARE,
    SIDECAR_LABEL,
    SIDECAR_NAME,
    STDOUT,
)
from specon_manager.backends.kube.objects.annotations import Options
from specon_manager.backends.kube.objects.identity import controller_of, identity_of
from specon_manager.backends.kube.objects.scheduling import HOSTNAME
from specon_manager.backends.kube.objects.time_share import why_no_turns
from specon_manager.backends.kube.transport.resources import Object

__all__ = ["HOSTNAME", "Injection", "InjectionSettings", "inject"]

_UNBUFFERED: Final = "PYTHONUNBUFFERED"
"""Else Python keeps what it prints to itself until there are 8 KiB of it."""
_USUAL_GRACE: Final = 30  # seconds, where a pod says nothing


class Injection(Struct, frozen=True):
    """The pod as it is to be created, and what its owner should know."""

    pod: Object
    warnings: tuple[str, ...] = ()


def inject(
    pod: Object, namespace: str, options: Options, settings: InjectionSettings, pins: Mapping[str, str]
) -> Injection:
    """Return the pod with sidecar, volume, label, annotations and, where its replica is pinned, its node.

    `pins` says on which node, by the value of its hostname label, the next incarnation of a replica is to be.
    Raises PodRefusedError where a sidecar could not do its work.
    """
    pod = {**pod}
    metadata, spec = _within(pod, "metadata"), _within(pod, "spec")
    replica = _replica(pod, namespace)
    trainer = _own(spec, trainer_of(pod, options))
    warnings = _check(pod, trainer, options)
    others = _within_list(spec, "initContainers")
    there = {one.get("name") for one in others}
    if options.instrument and HELPER_NAME not in there:
        others += helper_containers(pod, trainer, settings)
    if SIDECAR_NAME not in there:
        paths = paths_of(pod, trainer, options)
        others.append(sidecar_container(pod, trainer, paths, options, settings, replica=replica))
    volumes = _within_list(spec, "volumes")
    if not any(one.get("name") == IDENTITY_VOLUME for one in volumes):
        volumes.append(identity_volume(settings))
    environment = _within_list(trainer, "env")
    there = {one.get("name") for one in environment}
    wanted = [TRAINER_MARK, *([_UNBUFFERED] if options.log_path == STDOUT else [])]
    environment += [{"name": name, "value": "1"} for name in wanted if name not in there]
    _share_processes(pod, trainer, spec, options)
    if options.grace_period is not None:
        # An eviction could ask for more than the pod has, but not the suspension of its owner.
        given = spec.get("terminationGracePeriodSeconds", _USUAL_GRACE)
        spec["terminationGracePeriodSeconds"] = max(given, math.ceil(options.grace_period))
    _within(metadata, "labels")[SIDECAR_LABEL] = INJECTED
    annotations = _within(metadata, "annotations")
    if is_reported(spec, trainer, settings.status_port):
        job = (replica or namespace).partition("/worker/")[0].partition("/ps/")[0]
        report_status(spec, trainer, job, settings.status_port, authority=bool(settings.ca_bundle))
    if options.instrument:
        instrument(spec, annotations, trainer, options, settings.helper)
    if settings.ca_bundle:
        annotations[CA] = settings.ca_bundle
    if settings.evictions:
        annotations.setdefault(EVICT_ONLY, OURS)
        annotations.pop(IN_PROGRESS, None)
    annotations.pop(REPLICA, None)  # a copy of a manifest may bring that of another pod
    if replica is not None:
        annotations[REPLICA] = replica
    warnings += _pin(spec, annotations, replica, pins)
    return Injection(pod, tuple(warnings))


def _share_processes(pod: Object, trainer: Object, spec: Object, options: Options) -> None:
    """Let the sidecar see the trainer's processes where it has to."""
    if options.checkpoint is not None and options.checkpoint.kind == "signal":
        spec["shareProcessNamespace"] = True
    elif options.on_hang == "restart" and user_of(pod, trainer) and not spec.get("hostPID"):
        # Only who sees the processes can tell a hang from an evaluation that takes long.
        spec.setdefault("shareProcessNamespace", True)


def _replica(pod: Object, namespace: str) -> str | None:
    """Return the name of the replica; None for a bare pod that gets its own name only after admission.

    Raises PodRefusedError for a pod that can have none at all.
    """
    identity = identity_of({**pod, "metadata": {**pod["metadata"], "namespace": namespace}})
    if identity is not None:
        return identity.replica
    if controller_of(pod) is None and not pod["metadata"].get("name") and pod["metadata"].get("generateName"):
        return None
    raise PodRefusedError(
        "the pod cannot be named as a replica: neither its own name nor its owner's labels and indices tell "
        "which of its job's replicas it is"
    )


def _check(pod: Object, trainer: Object, options: Options) -> list[str]:
    """Return what may go wrong; raises PodRefusedError for a pod that is bound to fail."""
    spec, mode = pod["spec"], options.checkpoint
    if (spec.get("os") or {}).get("name") == "windows":
        raise PodRefusedError("the sidecar runs on Linux only, and the pod asks for windows")
    user = user_of(pod, trainer)
    sidecar = next((one for one in items(spec, "initContainers") if one.get("name") == SIDECAR_NAME), {})
    if options.share is not None and (why := why_no_turns(spec, trainer, sidecar)):
        raise PodRefusedError(f"{SHARE}: {options.share!r} is not possible: {why}")
    if mode is not None and mode.kind == "signal":
        if not user:
            raise PodRefusedError(
                f"{PREFIX}checkpoint: {str(mode)!r} needs the sidecar to run as the trainer's user, never "
                f"as root: set securityContext.runAsUser, not 0 (it is {user})"
            )
        if spec.get("hostPID"):
            raise PodRefusedError(
                f"{PREFIX}checkpoint: {str(mode)!r} needs shareProcessNamespace, which hostPID excludes"
            )
        if spec.get("shareProcessNamespace") is False:
            raise PodRefusedError(
                f"{PREFIX}checkpoint: {str(mode)!r} needs shareProcessNamespace, and the pod says false"
            )
    warnings = check_instrumented(spec, trainer) if options.instrument else []
    grouped = (spec.get("securityContext") or {}).get("fsGroup") is not None
    if mode is not None and mode.kind == "file" and not user and not grouped:
        warning = (
            f"{PREFIX}checkpoint: the sidecar, which never runs as root, may not be able to create "
            f"{mode.target}: set securityContext.runAsUser or fsGroup"
        )
        warnings.append(warning)
    return warnings


def _pin(spec: Object, annotations: Object, replica: str | None, pins: Mapping[str, str]) -> list[str]:
    """Pin the pod to its node; the annotation says that the node is our choice, and not its owner's."""
    node = pins.get(replica or "")
    selected = (spec.get("nodeSelector") or {}).get(HOSTNAME)
    if annotations.get(PINNED) != selected:
        annotations.pop(PINNED, None)
    if node is None or spec.get("nodeName") or selected == node:
        return []
    if selected is not None:
        return [f"specon: {replica} was to be on {node}, but its nodeSelector asks for {selected}"]
    _within(spec, "nodeSelector")[HOSTNAME] = node
    annotations[PINNED] = node
    return []


def _own(spec: Object, trainer: Object) -> Object:
    """Return the trainer's container as one that may be changed, in its place among the others."""
    containers = _within_list(spec, "containers")
    place = next(index for index, each in enumerate(containers) if each is trainer)
    containers[place] = {**trainer}
    return containers[place]


def _within(holder: Object, key: str) -> Object:
    """Return a copy of the mapping under `key`, put into its place, and made where it is missing.

    What the copies hold is shared with the pod that came, which stays as it is: a whole copy takes long where
    somebody sends a thousand containers. Raises PodRefusedError where it is no mapping.
    """
    found = {} if holder.get(key) is None else holder[key]
    if not isinstance(found, dict):
        raise PodRefusedError(f"{key}: must be a mapping, not {type(found).__name__}")
    copied: Object = {**found}
    holder[key] = copied
    return copied


def _within_list(holder: Object, key: str) -> list[Object]:
    """Return a copy of the list under `key`, likewise; its objects are shared. Raises PodRefusedError."""
    found = [] if holder.get(key) is None else holder[key]
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise PodRefusedError(f"{key}: must be a list of objects")
    copied: list[Object] = [*found]
    holder[key] = copied
    return copied
