"""The object of a job, changed only as it was read: what somebody else wrote meanwhile is looked at again."""

from collections.abc import Callable, Sequence
from typing import Final

from msgspec import Struct

from specon_manager.backends.kube.objects.annotation_keys import SUSPENDED_FOR
from specon_manager.backends.kube.objects.fields import mapping
from specon_manager.backends.kube.objects.job_patch import JobPatch, JobWish, job_patch
from specon_manager.backends.kube.objects.owner import OWNER_RESOURCES, OwnerInfo
from specon_manager.backends.kube.objects.pod import PodInfo
from specon_manager.backends.kube.owners.budgets import disrupted_uids, objections, uid_of
from specon_manager.backends.kube.owners.context import BlockedError, EditedError, Hands, RefusedError
from specon_manager.backends.kube.owners.eviction import refuse_conflict
from specon_manager.backends.kube.transport.api import ApiError
from specon_manager.backends.kube.transport.resources import KUEUE_WORKLOADS, PDBS, PODS, Object, Resource

Decide = Callable[[Object], JobWish | None]
"""What an object is to say, from what it says; None: it stays as it is.

May raise RefusedError and EditedError.
"""

UNCHANGEABLE: Final = "its controller lets nobody change the number of its workers (the field is immutable)"
_LONGEST: Final = 200
_ATTEMPTS: Final = 8
"""Somebody else, first of all its controller, may write the object at the same time."""


class OwnerGoneError(RefusedError):
    """The object of the job is not there any more."""


class OwnerReplacedError(OwnerGoneError):
    """Another object has its name."""


async def patch_owner(
    hands: Hands,
    owner: OwnerInfo,
    decide: Decide,
    *,
    leaving: Sequence[PodInfo] = (),
    whole: bool = False,
) -> bool:
    """Have the object of a job say what `decide` wishes; return whether it had to be changed.

    `leaving` are the pods that end by the change: their disruption budgets are asked before it; `whole`: they
    are all that the job has. Raises OwnerGoneError, RefusedError where the object cannot say it, and
    BlockedError for a budget.
    """
    switch = switch_of(owner)
    asked = False
    for attempt in range(_ATTEMPTS):
        found = await _read(hands, owner)
        patch = _plan_patch(owner, switch.resource.kind, found, decide)
        if patch is None:
            return False
        if not asked:
            await may_go(hands, leaving, whole=whole)
            asked = True
        hands.fence()
        try:
            await hands.api.patch(switch.resource, switch.name, owner.namespace, patch.body, form=patch.form)
        except ApiError as error:
            if error.not_found:
                raise OwnerGoneError(f"{owner} is gone") from error
            if error.immutable and patch.resizes:
                hands.fixed(owner)
                raise RefusedError(f"{owner}: {UNCHANGEABLE}") from error
            if not error.conflict or attempt == _ATTEMPTS - 1:
                raise
        else:
            return True
    raise AssertionError("the last attempt returns or raises")


class Switch(Struct, frozen=True):
    """The object by which a job is told to leave and to come."""

    resource: Resource
    name: str
    uid: str


def switch_of(owner: OwnerInfo) -> Switch:
    """Return that object: of what Kueue manages its Workload, else the object of the job."""
    if owner.workload:
        return Switch(KUEUE_WORKLOADS, owner.workload, owner.workload_uid)
    resource, _ = OWNER_RESOURCES[owner.kind]
    return Switch(resource, owner.name, owner.uid)


async def _read(hands: Hands, owner: OwnerInfo) -> Object:
    switch = switch_of(owner)
    try:
        found = await hands.api.get(switch.resource, switch.name, owner.namespace)
    except ApiError as error:
        if error.not_found:
            raise OwnerGoneError(f"{owner} is gone") from error
        raise
    if mapping(found.get("metadata")).get("uid") != switch.uid:
        raise OwnerReplacedError(f"{owner} is gone, and another one has its name")
    return found


def _plan_patch(owner: OwnerInfo, kind: str, found: Object, decide: Decide) -> JobPatch | None:
    try:
        wish = decide(found)
        return None if wish is None else job_patch(kind, found, wish)
    except (RefusedError, EditedError):
        raise
    except ValueError as error:
        raise RefusedError(f"{owner}: {error}") from error
    except Exception as error:
        # Its user wrote it: what cannot be read cannot be changed, and breaks nothing else.
        raise RefusedError(
            f"{owner} cannot be read: {type(error).__name__}: {str(error)[:_LONGEST]}"
        ) from error


async def may_go(hands: Hands, pods: Sequence[PodInfo], *, whole: bool) -> None:
    """Ask the disruption budgets of pods that leave together what no change of their owner would ask.

    Each pod by a dry run of its eviction, which asks other people's webhooks too; then all of them together,
    as that run says yes to every single one of three pods where one may go. The budgets are read each time:
    it is asked once for each change of a job, and their status is what changes. `whole`: these are all the
    pods of the job. Raises BlockedError where something does not let them go at this moment, and ApiError.
    """
    for pod in pods:
        try:
            await hands.api.evict(pod.name, pod.namespace, uid=pod.uid, dry_run=True)
        except ApiError as error:
            if error.blocked or error.throttled:
                raise BlockedError(error.message) from error
            await refuse_conflict(hands, pod, error)
            if not (error.not_found or error.conflict):
                raise
    for namespace in sorted({pod.namespace for pod in pods}):
        budgets, _ = await hands.api.list(PDBS, namespace)
        if budgets:
            live = [each for pod in pods if pod.namespace == namespace for each in await _live(hands, pod)]
            _use(hands, budgets, live, whole=whole)


def _use(hands: Hands, budgets: Sequence[Object], pods: Sequence[Object], *, whole: bool) -> None:
    """Take what the pods need of each budget, or nothing of any; nobody else asks in between."""
    taken = hands.grants.count_taken(str(mapping(pod.get("metadata")).get("uid", "")) for pod in pods)
    if words := objections(budgets, pods, taken, whole=whole):
        raise BlockedError("; ".join(words))
    for budget in budgets:
        hands.grants.grant(uid_of(budget), disrupted_uids(budget, pods))


async def _live(hands: Hands, pod: PodInfo) -> list[Object]:
    """Return the pod as the API has it; of one that is gone, nothing."""
    try:
        found = await hands.api.get(PODS, pod.name, pod.namespace)
    except ApiError as error:
        if error.not_found:
            return []
        raise
    return [found] if mapping(found.get("metadata")).get("uid") == pod.uid else []


def mark_of(obj: Object) -> str:
    """Return for which move or change we suspended a job; empty where it was not us."""
    return str(mapping(mapping(obj.get("metadata")).get("annotations")).get(SUSPENDED_FOR, ""))


async def resume_owner(hands: Hands, owner: OwnerInfo) -> bool:
    """Resume a job that carries our mark; return whether it did."""
    return await patch_owner(
        hands, owner, lambda found: JobWish(suspended=False, mark=None) if mark_of(found) else None
    )
