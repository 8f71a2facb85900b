"""A LeaderWorkerSet with what its StatefulSets tell of its only group. Pure."""

import msgspec

from specon_manager.backends.kube.objects.owner import OwnerInfo


def with_group(owner: OwnerInfo, leaders: OwnerInfo | None, workers: OwnerInfo | None) -> OwnerInfo:
    """Return the owner with what is left of it while it is suspended, and with what it is not yet otherwise.

    `leaders` and `workers` are the StatefulSets of those names, None where there is none. A StatefulSet that
    is there may create its pods again: a group that comes beside it would have two copies of a rank.
    """
    leads = leaders is not None and leaders.controller == str(owner)
    works = workers is not None and workers.controller == f"Pod {workers.name}"
    groups = leaders.at_once if leaders is not None and leads else 0
    members = 1 + (workers.at_once if workers is not None and works else 0)
    if owner.suspended:
        left = leaders if groups else workers if works else None
        return owner if left is None else msgspec.structs.replace(owner, remains=f"{left} is still there")
    against = ""
    if groups > 1:
        against = f"has {groups} groups while it is updated"
    elif works and members != owner.workers:
        against = f"has a group of {members} pods, and its size is {owner.workers} by now"
    return msgspec.structs.replace(owner, apart=against) if against and not owner.apart else owner
