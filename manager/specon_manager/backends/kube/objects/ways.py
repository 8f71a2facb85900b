"""Which way is open to a pod, by the kind of its owner; else why none is. Pure."""

from specon_manager.backends.kube.objects.annotations import Options
from specon_manager.backends.kube.objects.owner import OwnerInfo
from specon_manager.backends.kube.objects.pod import PodInfo


def immovable_because(pod: PodInfo, owner: OwnerInfo | None, options: Options) -> str:
    """Return why no pod of this owner can be moved, in words; empty where they can.

    `owner` is None for a bare pod, and while an owner was not seen or is of a kind that is only observed.
    """
    detail = pod.detail
    if detail is None or detail.identity is None:
        return "it is no replica of a job"
    if detail.owner is None:
        if detail.kueue:
            return "Kueue manages it: it decides when and where its pods run"
        if options.recreate is not True:
            return 'nobody creates a bare pod again: annotate it with specon.io/recreate: "true"'
        return ""
    if owner is None:
        identity = detail.identity
        return f"{identity.owner_kind} {identity.owner_name} owns it: such pods are observed, not moved"
    return _of_owner(owner, in_kueue=owner.kueue or detail.kueue)


def owner_immovable_because(owner: OwnerInfo) -> str:
    """Return why no pod of this owner could be moved if there were one; empty where it could."""
    return _of_owner(owner, in_kueue=owner.kueue)


def suspends(owner: OwnerInfo) -> bool:
    """Whether the owner is suspended for a move: its only pod goes, and nothing is counted."""
    kinds = {"TFJob", "PyTorchJob", "MPIJob", "JobSet", "TrainJob"}
    return owner.kind in kinds or (owner.kind == "Job" and owner.at_once <= 1)


def _of_owner(owner: OwnerInfo, *, in_kueue: bool) -> str:
    if in_kueue:
        return f"Kueue manages {owner}: it decides when and where its pods run"
    if owner.managed_by:
        return f"{owner.managed_by} manages {owner}"
    if owner.deleting:
        return f"{owner} is being deleted"
    if owner.kind == "StatefulSet":
        return ""
    if owner.controller:
        return f"{owner} belongs to {owner.controller}, which would undo a suspension of it"
    if owner.suspended and not owner.suspended_for:
        return f"{owner} is suspended, and not by a move"
    if owner.kind == "Job":
        if owner.at_once <= 1 or owner.ignores_disruptions:
            return ""
        return (
            f"{owner} runs {owner.at_once} pods at once, and would count the eviction of one as a failure:"
            " give it a podFailurePolicy that ignores the condition DisruptionTarget"
        )
    if owner.at_once > 1:
        return (
            f"{owner} has {owner.at_once} pods, and a suspension ends all of them:"
            " only those with one pod are moved"
        )
    return ""
