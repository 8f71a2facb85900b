"""The objects that create pods, as they are found: by key, by UID, and by the job that is theirs. Pure."""

from collections.abc import Callable

import msgspec

from specon_manager.backends.kube.objects.leader_group import with_group
from specon_manager.backends.kube.objects.leader_worker_set import KIND as LEADER_WORKER_SET
from specon_manager.backends.kube.objects.owner import OwnerInfo, carry_over
from specon_manager.backends.kube.watching.translate import is_told_by_owner

Change = Callable[[OwnerInfo], OwnerInfo]
OwnerKey = tuple[str, str, str]
"""Kind, namespace and name."""


class OwnerBook:
    """Takes changes of owners in.

    A TrainJob is given with what the JobSet of its name says of its pods, a LeaderWorkerSet with what its
    StatefulSets tell of its group.
    """

    def __init__(self) -> None:
        self.with_workload: Change = _as_it_is
        """Adds to what Kueue manages what its Workload says."""
        self._by_key: dict[OwnerKey, OwnerInfo] = {}
        self._by_uid: dict[str, OwnerInfo] = {}
        self._of_job: dict[str, dict[OwnerKey, OwnerInfo]] = {}
        """Those from which a job is told without any pod, by its name."""
        self._fixed: set[tuple[str, str]] = set()
        """Kinds whose numbers of workers nobody can change, with the namespace in which that was seen.

        A controller decides it for all; but what one tenant's odd object brings about is no other's business.
        """

    def fix(self, kind: str, namespace: str) -> bool:
        """Take note that numbers of workers cannot be changed there; whether that is news."""
        news = (kind, namespace) not in self._fixed
        self._fixed.add((kind, namespace))
        return news

    def changed(self, before: OwnerInfo | None, after: OwnerInfo | None) -> set[str]:
        """Take note of an owner that came, changed or went; return the jobs that it may describe again."""
        jobs: set[str] = set()
        for owner in (before, after):
            if owner is not None:
                jobs.add(self._with_pods(owner).job_name)
        if before is not None:
            if self._by_uid.pop(before.uid, None) is not None:
                known = self._by_key.get(before.key)
                if known is not None and known.uid == before.uid:
                    del self._by_key[before.key]
            named = self._of_job.get(before.job_name, {})
            named.pop(before.key, None)
            if not named:
                self._of_job.pop(before.job_name, None)
        if after is not None:
            self._by_key[after.key] = after
            self._by_uid[after.uid] = after
            if is_told_by_owner(after):
                self._of_job.setdefault(after.job_name, {})[after.key] = after
        return jobs - {""}

    def at(self, kind: str, namespace: str, name: str) -> OwnerInfo | None:
        """Return the owner with this key, None where there is none."""
        return self._whole(self._by_key.get((kind, namespace, name)))

    def found(self, uid: str) -> OwnerInfo | None:
        """Return the owner with this UID by itself, as its object says."""
        return self._by_uid.get(uid)

    def uid_at(self, kind: str, namespace: str, name: str) -> str:
        """Return the UID of the very object with this key, empty where there is none."""
        owner = self._by_key.get((kind, namespace, name))
        return "" if owner is None else owner.uid

    def owner_with_uid(self, uid: str) -> OwnerInfo | None:
        """Return the owner with this UID; for a JobSet that a TrainJob made, the TrainJob."""
        return self._whole(self._by_uid.get(uid))

    def telling(self, job: str) -> OwnerInfo | None:
        """Return the owner from which a job is told, the first by kind; a JobSet itself."""
        named = self._of_job.get(job)
        return named[min(named)] if named else None

    def suspended(self) -> list[OwnerInfo]:
        """Return the owners that carry the mark of a suspension by us."""
        every = (self.with_workload(self._with_pods(owner)) for owner in self._by_key.values())
        return [owner for owner in every if owner.suspended_for]

    def _with_pods(self, owner: OwnerInfo) -> OwnerInfo:
        if owner.kind == LEADER_WORKER_SET:
            names = (owner.name, f"{owner.name}-0")
            found = (self._by_key.get(("StatefulSet", owner.namespace, name)) for name in names)
            return with_group(owner, *found)
        job_set = self._by_key.get(("JobSet", owner.namespace, owner.name))
        if owner.kind != "TrainJob" or job_set is None or job_set.controller != str(owner):
            return owner
        return carry_over(owner, job_set)

    def _whole(self, owner: OwnerInfo | None) -> OwnerInfo | None:
        if owner is not None and (owner.kind, owner.namespace) in self._fixed:
            owner = msgspec.structs.replace(owner, fixed=True)
        if owner is None:
            return None
        if owner.kind == "JobSet":
            top = self._by_key.get(("TrainJob", owner.namespace, owner.name))
            owner = owner if top is None or owner.controller != str(top) else carry_over(top, owner)
        elif owner.kind == LEADER_WORKER_SET:
            owner = self._with_pods(owner)
        return self.with_workload(owner)


def _as_it_is(owner: OwnerInfo) -> OwnerInfo:
    return owner
