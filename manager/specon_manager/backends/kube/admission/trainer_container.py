"""Which container of a pod trains, and which of its volumes hold the log and the checkpoints. Pure."""

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

from msgspec import Struct

from specon_manager.backends.kube.objects.annotation_keys import PREFIX
from specon_manager.backends.kube.objects.annotations import Options
from specon_manager.backends.kube.transport.resources import Object

TRAINER_MARK: Final = "SPECON_TRAINER"
"""Variable of the container that trains: by it the sidecar finds the process, and we the container again."""
_DEFAULT_CONTAINER: Final = "kubectl.kubernetes.io/default-container"
# What the training operators call the container that they start the training in.
_WELL_KNOWN: Final = ("tensorflow", "pytorch", "jax", "xgboost", "paddle", "mpi", "node")
_VARIABLE: Final = re.compile(r"\$\$|\$\(([^()]+)\)")


class PodRefusedError(ValueError):
    """A pod whose sidecar could not do its work; the text says what to change."""


class Paths(Struct, frozen=True, kw_only=True):
    """Where the trainer writes, as its container sees it."""

    log: str | None
    """None where the helper in the trainer tells what a log would."""
    checkpoints: str | None
    """None where there is nothing to look for, or the helper says where it saved."""


def trainer_of(pod: Object, options: Options) -> Object:
    """Return the container that trains: the one named, the only one, the pod's default or a well-known name.

    Where it was found before it stays: what other webhooks add changes nothing.
    Raises PodRefusedError naming the containers there are.
    """
    containers = {one.get("name"): one for one in items(pod.get("spec"), "containers")}
    names = ", ".join(sorted(str(name) for name in containers))
    if options.container is not None:
        if options.container not in containers:
            raise PodRefusedError(
                f"{PREFIX}container: {options.container!r} is not a container of the pod; there are {names}"
            )
        return containers[options.container]
    for one in containers.values():
        if any(variable.get("name") == TRAINER_MARK for variable in items(one, "env")):
            return one
    if len(containers) == 1:
        return next(iter(containers.values()))
    annotations = (pod.get("metadata") or {}).get("annotations") or {}
    for name in (annotations.get(_DEFAULT_CONTAINER), *_WELL_KNOWN):
        if name in containers:
            return containers[name]
    raise PodRefusedError(
        f"which container trains? Name it with {PREFIX}container; there are {names or 'none'}"
    )


def paths_of(pod: Object, trainer: Object, options: Options) -> Paths:
    """Return where log and checkpoints are: as annotated, else on the trainer's only persistent volume claim.

    Neither has to be known of an instrumented trainer. Raises PodRefusedError naming the annotation to add.
    """
    log, checkpoints = options.log_path, options.checkpoint_path
    if options.instrument:
        return Paths(log=log, checkpoints=checkpoints)
    if log is None:
        log = f"{_claim_mount(pod, trainer, 'log-path', 'the training log')}/train.log"
    mode = options.checkpoint
    if checkpoints is None and (mode is None or mode.kind != "none"):
        hint = f", or {PREFIX}checkpoint: none where there are none"
        checkpoints = f"{_claim_mount(pod, trainer, 'checkpoint-path', 'checkpoints', hint)}/checkpoints"
    return Paths(log=log, checkpoints=checkpoints)


def mount_of(trainer: Object, path: str, annotation: str) -> Object:
    """Return the trainer's volume mount that holds `path`: that of the longest mount path.

    Raises PodRefusedError where `path` is on the container's own file system, which no sidecar can see.
    """
    mounts = [one for one in mounts_of(trainer) if _holds(one["mountPath"], path)]
    if not mounts:
        there = ", ".join(sorted(one["mountPath"] for one in mounts_of(trainer)))
        raise PodRefusedError(
            f"{PREFIX}{annotation}: {path!r} is on no volume of container {trainer.get('name')!r}, so the "
            f"sidecar cannot see it; its volumes are mounted at {there or 'nowhere'}"
        )
    return max(mounts, key=lambda one: len(one["mountPath"].rstrip("/")))


def mounts_of(trainer: Object) -> list[Object]:
    """Return the trainer's volume mounts that have a path: a text, which is all that an API server takes."""
    return [one for one in items(trainer, "volumeMounts") if isinstance(one.get("mountPath"), str)]


def environment_for(trainer: Object, expression: str) -> list[Object]:
    """Return the trainer's variables that a `subPathExpr` names, and those that they name in turn.

    They are in the trainer's order, for a variable may name those before it. Raises PodRefusedError for one
    that is not in its `env`.
    """
    known = {str(one.get("name")): one for one in items(trainer, "env")}
    wanted = set(_variables(expression))
    waiting = sorted(wanted)
    while waiting:
        name = waiting.pop()
        if name not in known:
            raise PodRefusedError(
                f"subPathExpr {expression!r} names the variable {name!r}, which is not in the env of "
                f"container {trainer.get('name')!r}"
            )
        new = {one for one in _variables(str(known[name].get("value") or "")) if one in known} - wanted
        wanted |= new
        waiting += sorted(new)
    return [one for name, one in known.items() if name in wanted]


def items(holder: Any, key: str) -> list[Object]:
    """Return the objects listed under `key`; none where manifests leave it out."""
    found = holder.get(key) if isinstance(holder, dict) else None
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def _claim_mount(pod: Object, trainer: Object, annotation: str, what: str, hint: str = "") -> str:
    claims = {
        one.get("name") for one in items(pod.get("spec"), "volumes") if one.get("persistentVolumeClaim")
    }
    mounts = [one for one in mounts_of(trainer) if one.get("name") in claims]
    if len(mounts) == 1:
        return str(mounts[0]["mountPath"]).rstrip("/")
    return _ambiguous(trainer, mounts, annotation, what, hint)


def _ambiguous(trainer: Object, mounts: Sequence[Object], annotation: str, what: str, hint: str) -> str:
    there = ", ".join(sorted(one["mountPath"] for one in mounts))
    many = (
        f"several persistent volume claims (mounted at {there})" if mounts else "no persistent volume claim"
    )
    raise PodRefusedError(
        f"where does container {trainer.get('name')!r} write {what}? It mounts {many}; add the annotation "
        f"{PREFIX}{annotation}{hint}"
    )


def _holds(mount: str, path: str) -> bool:
    root = mount.rstrip("/")
    return path == root or path.startswith(root + "/")


def _variables(expression: str) -> Iterator[str]:
    """Yield the names in `$(NAME)`; `$$` stands for a dollar sign."""
    for found in _VARIABLE.finditer(expression):
        if found[1]:
            yield found[1]
