"""Which way is open to a pod, by the kind of its owner; else why none is. Pure.

Source: KubeRay v1 (a RayCluster makes its pods itself).
"""

from collections.abc import Mapping
from typing import Final

from specon_manager.backends.kube.objects.annotations import Options
from specon_manager.backends.kube.objects.capability import no_gang
from specon_manager.backends.kube.objects.coupling import Coupling
from specon_manager.backends.kube.objects.job_patch import SWITCHES
from specon_manager.backends.kube.objects.leader_worker_set import KIND, SET_NAME
from specon_manager.backends.kube.objects.owner import OWNER_RESOURCES, OwnerInfo
from specon_manager.backends.kube.objects.pod import PodInfo

_WHY_OBSERVED: Final[Mapping[str, str]] = {
    "RayCluster": "Ray plans its work itself, and a RayCluster creates a lost pod again without a checkpoint",
}
"""Of kinds that are only observed, why."""


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
        if identity.owner_kind in OWNER_RESOURCES:  # its watch may be a moment behind that of the pods
            return f"nothing is known yet of {identity.owner_kind} {identity.owner_name}, which owns it"
        why = _WHY_OBSERVED.get(identity.owner_kind, "")
        return f"{identity.owner_kind} {identity.owner_name} owns it: such pods are observed, not moved" + (
            f" ({why})" if why else ""
        )
    if owner.kind in {"JobSet", "TrainJob"} and owner.job and detail.identity.job != owner.job:
        return f"its labels do not name its Job among the {owner.jobs} of {owner}: those of JobSet 0.7 do"
    if owner.kind == KIND and detail.identity.job != owner.name:
        return f"it is of a further group of {owner}, or says so: only a group that is alone is moved"
    return _of_owner(owner, options, in_kueue=owner.kueue or detail.kueue)


def owner_immovable_because(owner: OwnerInfo) -> str:
    """Return why no pod of this owner could be moved if there were one; empty where it could."""
    return _of_owner(owner, owner.options, in_kueue=owner.kueue)


def suspends(owner: OwnerInfo) -> bool:
    """Whether the owner is suspended for a move: all of its pods go, and nothing is counted."""
    if owner.workload:
        return True
    return owner.kind in SWITCHES and (owner.kind != "Job" or owner.at_once <= 1 or owner.coupling().coupled)


def _of_owner(owner: OwnerInfo, options: Options, *, in_kueue: bool) -> str:
    if in_kueue and (against := _of_kueue(owner, options)):
        return f"Kueue manages {owner}: {against}"
    if owner.managed_by:
        return f"{owner.managed_by} manages {owner}"
    if owner.deleting:
        return f"{owner} is being deleted"
    as_one = owner.coupling(options)
    if owner.kind == "StatefulSet" and (group := _of_a_group(owner)):
        return group
    if owner.kind not in SWITCHES:
        if not as_one.coupled:
            return ""
        return f"{owner} cannot be suspended, and its {owner.at_once} pods train as one: {as_one.why}"
    return _switch_taken(owner) or _of_several(owner, as_one)


def _of_a_group(owner: OwnerInfo) -> str:
    """Return why a pod is not moved that a StatefulSet of a LeaderWorkerSet made; empty where it is of none.

    Such a pod names its set by a label, and is a member of its group by that: this one has lost it.
    """
    kind = owner.controller.partition(" ")[0]
    if kind not in {KIND, "Pod"}:
        return ""
    whole = owner.controller if kind == KIND else f"the group of its leader, {owner.controller}"
    return (
        f"{owner} belongs to {whole}: a leader and its workers train as one, and this pod does not name them"
        f" ({SET_NAME})"
    )


def _of_kueue(owner: OwnerInfo, options: Options) -> str:
    """Return why a job of Kueue's cannot be told to leave and to come by its Workload; empty where it can."""
    if owner.kueue_against:
        return owner.kueue_against
    if owner.kind not in SWITCHES or owner.kind == KIND:
        return f"a {owner.kind} is not suspended by Kueue"
    if owner.at_once > 1 and not owner.coupling(options).coupled:
        return f"it suspends all of its {owner.at_once} pods, though each trains by itself"
    return ""


def _switch_taken(owner: OwnerInfo) -> str:
    """Return why the suspension of this owner is not ours; empty where it is."""
    if owner.controller:
        return f"{owner} belongs to {owner.controller}, which would undo a suspension of it"
    if owner.suspended and not owner.suspended_for:
        return f"{owner} is suspended, and not by a move"
    return ""


def _of_several(owner: OwnerInfo, as_one: Coupling) -> str:
    """Return why its pods can neither be moved as a whole nor each by itself; empty where one way is open."""
    if owner.apart and owner.kind == KIND:
        return no_gang(owner)  # also of one pod: another group may be beside it
    if owner.at_once <= 1:
        return ""
    if as_one.coupled:
        return no_gang(owner)
    if owner.kind != "Job":
        return (
            f"{owner} has {owner.at_once} pods, and a suspension ends all of them,"
            f" though each trains by itself: {as_one.why}"
        )
    if owner.ignores_disruptions:
        return ""
    return (
        f"{owner} runs {owner.at_once} pods at once, and would count the eviction of one as a failure:"
        " give it a podFailurePolicy that ignores the condition DisruptionTarget"
    )
