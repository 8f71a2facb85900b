"""Whether a pod's volumes let it move, and where to: known before the trainer is asked for anything. Pure."""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from specon_manager.backends.kube.objects.annotation_keys import STDOUT
from specon_manager.backends.kube.objects.annotations import Options
from specon_manager.backends.kube.objects.fields import mapping
from specon_manager.backends.kube.objects.pod import Detail, Mount
from specon_manager.backends.kube.objects.scheduling import terms_of
from specon_manager.backends.kube.transport.resources import Object
from specon_manager.model.constraints import Requirement, Terms

_ZONES: Final = (
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
)
LOST: Final = {
    "emptyDir": "an emptyDir volume, which is deleted with the pod",
    "ephemeral": "an ephemeral volume, which is deleted with the pod",
    "csi": "an inline CSI volume, which lives only as long as the pod",
    "hostPath": "a directory of the node (hostPath), which stays there",
    "image": "an image volume, which cannot be written",
    "configMap": "a configMap volume, which cannot be written",
    "secret": "a secret volume, which cannot be written",
    "projected": "a projected volume, which cannot be written",
    "downwardAPI": "a downwardAPI volume, which cannot be written",
}
"""Volumes of a pod whose content does not come along."""


class VolumeClaim(Struct, frozen=True, kw_only=True):
    """A persistent volume claim."""

    name: str
    bound: bool
    volume: str


class Volume(Struct, frozen=True, kw_only=True):
    """A persistent volume: from which nodes it can be reached."""

    name: str
    terms: Terms = ()
    """Its node affinity; none: all nodes reach it."""
    on_one_node: bool = False
    """Whether it is a directory of a node and does not name that node."""


class Movability(Struct, frozen=True, kw_only=True):
    """What the volumes of a pod mean for its moves."""

    immovable: str = ""
    """Why it cannot be moved, in words; empty where it can."""
    terms: tuple[Terms, ...] = ()
    """The node affinities of its volumes; all must hold."""


FREE: Final = Movability()


def slim_claim(claim: Object) -> VolumeClaim:
    """Return the needed fields of a PersistentVolumeClaim."""
    return VolumeClaim(
        name=str(mapping(claim.get("metadata")).get("name", "")),
        bound=mapping(claim.get("status")).get("phase") == "Bound",
        volume=str(mapping(claim.get("spec")).get("volumeName") or ""),
    )


def slim_volume(volume: Object) -> Volume:
    """Return the needed fields of a PersistentVolume; older ones tell their zone by labels."""
    metadata, spec = mapping(volume.get("metadata")), mapping(volume.get("spec"))
    required = mapping(mapping(spec.get("nodeAffinity")).get("required"))
    terms = terms_of(required.get("nodeSelectorTerms"))
    if not terms:
        labels = mapping(metadata.get("labels"))
        zones = tuple(
            Requirement(key=key, operator="In", values=tuple(str(labels[key]).split("__")))
            for key in _ZONES
            if key in labels
        )
        terms = (zones,) if zones else ()
    # An author who offers a directory of the node to many nodes has made it the same on all of them.
    shared = "ReadWriteMany" in (spec.get("accessModes") or ())
    return Volume(
        name=str(metadata.get("name", "")),
        terms=terms,
        on_one_node="hostPath" in spec and not terms and not shared,
    )


def judge_volumes(
    pod: Detail, options: Options, claims: Mapping[str, VolumeClaim], volumes: Mapping[str, Volume]
) -> Movability:
    """Return what the volumes of the pod mean for its moves; `claims` are those of its namespace.

    A volume that only one node may have at a time (ReadWriteOnce) is no obstacle: the next pod is created
    only when the former one's object is gone, and waits until the volume is detached.
    """
    log = None if options.log_path == STDOUT else options.log_path
    for what, path in (("checkpoints are", options.checkpoint_path), ("log is", log)):
        held = _holding(pod.mounts, path)
        if held is None and path is not None:
            return Movability(immovable=f"the {what} in the container's own file system ({path})")
        if held is not None and held.source in LOST:
            where = f" ({held.path})"
            return Movability(immovable=f"the {what} on {LOST[held.source]}{where}")
    terms: list[Terms] = []
    for name in sorted(set(pod.claims)):
        claim = claims.get(name)
        if claim is None:
            return Movability(immovable=f"its claim {name} is not there")
        if not claim.bound or claim.volume not in volumes:
            return Movability(immovable=f"its claim {name} is not bound to a volume")
        volume = volumes[claim.volume]
        if volume.on_one_node:
            return Movability(immovable=f"its volume {volume.name} is a directory of one node (hostPath)")
        if volume.terms and volume.terms not in terms:
            terms.append(volume.terms)
    return Movability(terms=tuple(terms))


def _holding(mounts: tuple[Mount, ...], path: str | None) -> Mount | None:
    """Return the mount that holds a path, or, where none is given, the only claim of the trainer."""
    if path is None:
        claims = [mount for mount in mounts if mount.source == "persistentVolumeClaim"]
        return claims[0] if len(claims) == 1 else None
    for mount in mounts:  # the longest paths first
        root = mount.path.rstrip("/")
        if path == root or path.startswith(f"{root}/"):
            return mount
    return None
