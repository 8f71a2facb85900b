"""Which pods are which replicas, and what the core was told of them. Pure.

The rules: the core is always told the end of one incarnation before the start of the next;
incarnations are pods' UIDs; of two pods that claim to be the same replica, the second is not managed. A job
that is held or may be scaled is told from its owner alone, before it has pods and while it is suspended.
"""

from collections.abc import Callable
from typing import Final

from specon_manager.backends.kube.objects.identity import Identity
from specon_manager.backends.kube.objects.leader_worker_set import KIND as LEADER_WORKER_SET
from specon_manager.backends.kube.objects.leader_worker_set import set_of
from specon_manager.backends.kube.objects.owner import OwnerInfo
from specon_manager.backends.kube.objects.pod import PodInfo
from specon_manager.backends.kube.objects.volumes import Movability
from specon_manager.backends.kube.transport.reading import ReadGuard
from specon_manager.backends.kube.watching.job_pods import (
    BARE,
    JobPods,
    age_of,
    find_identity,
    find_replica,
    restore_holder,
    tell_gone,
)
from specon_manager.backends.kube.watching.owner_book import OwnerBook, OwnerKey
from specon_manager.backends.kube.watching.translate import is_told_by_owner, spec_of, spec_of_owner
from specon_manager.core.state import State
from specon_manager.model.cluster import JobSpec, job_of
from specon_manager.model.events import Event, JobGone, JobObserved, ReplicaStarted

Remarks = Callable[[str, str, str, str], None]
"""Says something about a pod: namespace, name, reason (a word), text."""
_KINDS: Final = ("Job", LEADER_WORKER_SET, "StatefulSet", "TFJob", "PyTorchJob", "MPIJob")


class Ledger:
    """Takes changes of pods and owners in; gives events out."""

    def __init__(self, *, remark: Remarks, reading: ReadGuard | None = None) -> None:
        self._remark = remark
        self._reading = ReadGuard() if reading is None else reading
        self._jobs: dict[str, JobPods] = {}
        self._owners = OwnerBook()
        self._jobs_of: dict[tuple[str, str, str], set[str]] = {}
        """Names of the jobs whose pods an owner creates, by kind, namespace and name of that."""
        self.server = (0, 0)
        """Version of the API server; (0, 0) while it is not known."""
        self._dirty: set[str] = set()
        self._told: dict[str, str] = {}
        """Incarnation that the core believes to run, by replica."""
        self._over: set[str] = set()
        """UIDs of pods whose end was told, or is no news, as long as their objects are there."""
        self._incumbents: dict[str, str] = {}
        self._verdicts: dict[str, Movability] = {}
        self._remarked: set[str] = set()
        self._awaited: set[str] = set()
        self.foreign: set[str] = set()
        """UIDs of pods with a sidecar that no replica of the plan is."""

    def remember(self, state: State) -> None:
        """Take over what an earlier manager told the core; differences become events. Called once."""
        for job in state.jobs.values():
            if job.spec.placed_by != "owner":
                continue
            entry = self._jobs.setdefault(job.name, JobPods(name=job.name))
            entry.told = job.spec
            entry.dirty |= set(job.spec.replicas)
            self._dirty.add(job.name)
            restore_holder(entry, job.spec)
        for replica in state.replicas.values():
            if replica.job not in self._jobs:
                continue
            if replica.incarnation is not None:
                self._told[replica.name] = replica.incarnation
            elif replica.former is not None:
                self._over.add(replica.former)
            for uid, pod in self._jobs[replica.job].pods.items():
                if not pod.ended or find_replica(pod) != replica.name or uid == replica.incarnation:
                    continue
                # What failed is perhaps counted already; a success that is not known is news.
                if replica.ended or pod.phase == "Failed":
                    self._over.add(uid)

    @property
    def awaited(self) -> tuple[str, ...]:
        """The bare pods whose job is kept though the pod may be away, by replica."""
        return tuple(sorted(self._awaited))

    def await_return(self, replica: str, *, awaited: bool) -> None:
        """Keep a bare pod's job while the pod is away for a move; or no longer."""
        job = job_of(replica)
        if awaited:
            self._awaited.add(replica)
        elif replica in self._awaited:
            self._awaited.discard(replica)
            self._dirty.add(job)

    def pod_changed(self, before: PodInfo | None, after: PodInfo | None) -> None:
        """Take note of a pod that came, changed or went; those without an identity are none of ours."""
        old = None if before is None else find_identity(before)
        new = None if after is None else find_identity(after)
        if before is not None and old is not None and old != new:
            job = self._touch(old)
            job.pods.pop(before.uid, None)
            job.claimants.get(old.replica, {}).pop(before.uid, None)
            job.gone[before.uid] = before
            self._verdicts.pop(before.uid, None)
            self._remarked.discard(before.uid)
            self.foreign.discard(before.uid)
        if after is not None and new is not None:
            job = self._touch(new)
            job.pods[after.uid] = after
            job.claimants.setdefault(new.replica, {})[after.uid] = after
            self._jobs_of.setdefault(_owner_key(new), set()).add(new.job_name)

    def owner_changed(self, before: OwnerInfo | None, after: OwnerInfo | None) -> None:
        """Take note of an owner that came, changed or went."""
        for owner in (before, after):
            if owner is not None:
                # A TrainJob has the pods of the JobSet that has its name.
                of_set = self._jobs_of.get(("JobSet", owner.namespace, owner.name), set())
                jobs = self._jobs_of.get(owner.key, set()) | of_set | {f"{owner.namespace}/{owner.name}"}
                if group := set_of(owner.name, owner.controller):
                    jobs.add(f"{owner.namespace}/{group}")
                self._dirty |= jobs & self._jobs.keys()
        for job in self._owners.changed(before, after):
            if self._owners.telling(job) is not None:
                self._jobs.setdefault(job, JobPods(name=job))
                self._jobs_of.setdefault(_key_of(after or before), set()).add(job)
            self._dirty.add(job)

    def follow_workloads(self, with_workload: Callable[[OwnerInfo], OwnerInfo]) -> None:
        """Have what Kueue manages told with what its Workload says."""
        self._owners.with_workload = with_workload

    def workload_changed(self, _: None, uid: str) -> None:
        """Take note that the Workload of the owner with this UID says another thing."""
        owner = self._owners.found(uid)
        if owner is not None:
            self.owner_changed(owner, owner)

    def fix(self, owner: OwnerInfo) -> None:
        """Take note that nobody may change the number of workers of such owners in this namespace."""
        if self._owners.fix(owner.kind, owner.namespace):
            for (kind, namespace, _), jobs in self._jobs_of.items():
                if (kind, namespace) == (owner.kind, owner.namespace):
                    self._dirty |= jobs

    def judge(self, uid: str, pod: PodInfo, verdict: Movability) -> None:
        """Take note of what a pod's volumes mean for it."""
        identity = find_identity(pod)
        if identity is not None and self._verdicts.get(uid) != verdict:
            self._verdicts[uid] = verdict
            self._dirty.add(identity.job_name)

    def live(self, replica: str) -> PodInfo | None:
        """Return the pod that is the replica, running, starting or ending; None where there is none."""
        job = self._jobs.get(job_of(replica))
        if job is None:
            return None
        told = self._told.get(replica)
        claimants = [pod for pod in self._claimants(job, replica) if not pod.ended or pod.uid == told]
        return min(claimants, key=lambda pod: (pod.uid != told, pod.deleting, age_of(pod)), default=None)

    def pod(self, replica: str, uid: str) -> PodInfo | None:
        """Return a pod by its UID, whatever became of it, or None where its object is gone."""
        job = self._jobs.get(job_of(replica))
        return None if job is None else job.pods.get(uid)

    def believed_incarnation(self, replica: str) -> str | None:
        """Return the incarnation that the core was told to run and was not told to be gone; None for none."""
        return self._told.get(replica)

    def owner_of(self, pod: PodInfo) -> OwnerInfo | None:
        """Return what creates the pods of the replica that this pod is; None for a bare pod."""
        identity = find_identity(pod)
        return None if identity is None else self._owner(identity)

    def owner_of_job(self, job: str) -> OwnerInfo | None:
        """Return the owner of a job by its name `namespace/job`; the job need not have a pod."""
        found = self._find_owner(job)
        # A further group names the set too: what is ordered for it must not end the group that is alone.
        apart = (
            found is not None and found.kind == LEADER_WORKER_SET and f"{found.namespace}/{found.name}" != job
        )
        return None if apart else found

    def _find_owner(self, job: str) -> OwnerInfo | None:
        entry = self._jobs.get(job)
        namespace, _, name = job.partition("/")
        if entry is not None:
            for pod in (*entry.pods.values(), *entry.gone.values()):
                found = self.owner_of(pod)
                if found is not None and self._is_held_by(
                    entry, pod
                ):  # another kind may have a job of its name
                    return found
        if entry is not None and entry.holder is not None and (entry.holder[1] or entry.holder[0] == BARE):
            return self._owners.owner_with_uid(entry.holder[1])
        telling = self._owners.telling(job)
        if telling is not None:
            return self._owners.owner_with_uid(telling.uid)
        owners = (self._owners.at(kind, namespace, name) for kind in _KINDS)
        return next((owner for owner in owners if owner is not None), None)

    def suspended(self) -> list[OwnerInfo]:
        """Return the owners that carry the mark of a suspension by us."""
        return self._owners.suspended()

    def replicas_of(self, owner: OwnerInfo) -> set[str]:
        """Return the names of all replicas of an owner that are known."""
        replicas: set[str] = set()
        of_set = self._jobs_of.get(("JobSet", owner.namespace, owner.name), set())
        own = of_set if owner.kind == "TrainJob" else {f"{owner.namespace}/{owner.name}"}
        for name in self._jobs_of.get(owner.key, set()) | own:
            job = self._jobs.get(name)
            replicas |= set(() if job is None or job.told is None else job.told.replicas)
        return replicas

    def take_events(self) -> list[Event]:
        """Return the events since the last call: of each job first itself, then its replicas."""
        events: list[Event] = []
        for name in sorted(self._dirty):
            if name in self._jobs:
                with self._reading.of("job", name):
                    events += self._of_job(self._jobs[name])
        self._dirty.clear()
        return events

    def _of_job(self, job: JobPods) -> list[Event]:
        events = self._change_hands(job)
        ours = [pod for pod in job.pods.values() if self._is_held_by(job, pod)]
        if not ours and job.holder is None:
            self._take_hold(job)
        owner = self._owner_of_holder(job)
        spec = self._describe(job, ours, owner)
        if spec is not None and spec != job.told:
            job.told = spec
            events.append(JobObserved(spec))
        for replica in sorted(job.dirty):
            events += self._of_replica(job, replica)
        job.dirty.clear()
        self._over -= job.gone.keys()
        job.gone.clear()
        if not ours and (owner is None or _is_of_a_group(owner)) and not self._returns(job):
            events += self._close(job, "its owner is gone")
            if self._owners.telling(job.name) is not None:  # another one has its name already
                self._jobs[job.name] = job
                events += self._of_job(job)
        return events

    def _describe(self, job: JobPods, ours: list[PodInfo], owner: OwnerInfo | None) -> JobSpec | None:
        """Return the job as its pods, or its owner alone, describe it; None where neither has news."""
        template = None
        if owner is not None:
            asked = (owner.worker_requests, owner.ps_requests, owner.unlike)
            template = (*asked, owner.options, owner.constraints)
        if ours:
            job.template = template
            return spec_of(job.name, ours, owner, self._verdicts, self.server)
        told = job.told
        elastic = told is not None and (told.held or told.present is not None)
        if owner is None or owner.job_name != job.name or not (elastic or is_told_by_owner(owner)):
            return None
        known = told if job.template is None or job.template == template else None
        job.template = template
        return spec_of_owner(owner, self.server, known=known)

    def _take_hold(self, job: JobPods) -> None:
        """Give the name of a job that nobody has to an owner from which it can be told, the first by kind."""
        owner = self._owners.telling(job.name)
        if owner is not None:
            job.holder = owner.kind, owner.uid

    def _of_replica(self, job: JobPods, replica: str) -> list[Event]:
        events: list[Event] = []
        told = self._told.get(replica)
        if told is not None:
            pod = job.pods.get(told)
            if pod is not None and (not pod.ended or pod.deleting):
                self._choose(job, replica)
                return events
            last = job.gone.get(told) if pod is None else pod
            events.append(tell_gone(replica, told, last, told_to_end=self._is_suspended_by_us(job)))
            del self._told[replica]
            self._over.add(told)
        chosen = self._choose(job, replica)
        if chosen is None:
            return [*events, *self._tell_missed(job, replica)]
        detail = chosen.detail
        assert detail is not None
        others = [pod for pod in self._claimants(job, replica) if pod.uid != chosen.uid and not pod.ended]
        if any(pod.deleting and pod.node for pod in others) or not chosen.node or not detail.trains:
            return events
        self._told[replica] = chosen.uid
        return [*events, ReplicaStarted(replica=replica, incarnation=chosen.uid, node=chosen.node)]

    def _is_suspended_by_us(self, job: JobPods) -> bool:
        owner = self._owner_of_holder(job)
        return owner is not None and owner.suspended and bool(owner.suspended_for)

    def _tell_missed(self, job: JobPods, replica: str) -> list[Event]:
        """Tell of an incarnation that was over before anybody saw it run: of the newest, once."""
        gone = [
            pod for pod in job.gone.values() if find_replica(pod) == replica and self._is_held_by(job, pod)
        ]
        there = [pod for pod in self._claimants(job, replica) if not pod.deleting]
        ended = [pod for pod in (*gone, *there) if pod.ended and pod.node and pod.uid not in self._over]
        self._over |= {pod.uid for pod in ended}
        newest = max(ended, key=age_of, default=None)
        if newest is None:
            return []
        end = tell_gone(replica, newest.uid, newest, told_to_end=self._is_suspended_by_us(job))
        if end.evicted and self._is_suspended_by_us(job):
            # It never trained, and had to go with all of its job: to say now that it started would look as if
            # somebody had let the job run.
            return []
        started = ReplicaStarted(replica=replica, incarnation=newest.uid, node=newest.node)
        return [started, end]

    def _choose(self, job: JobPods, replica: str) -> PodInfo | None:
        """Return the pod that is the replica; a second one that claims to be it is remarked, once."""
        claimants = [pod for pod in self._claimants(job, replica) if not pod.ended and not pod.deleting]
        told = self._told.get(replica)
        incumbent = told if told is not None else self._incumbents.get(replica)
        chosen = next((pod for pod in claimants if pod.uid == incumbent), None)
        if chosen is None and told is None:
            chosen = claimants[0] if claimants else None
        if chosen is not None:
            self._incumbents[replica] = chosen.uid
            self.foreign.discard(chosen.uid)
            for pod in claimants:
                if pod.uid != chosen.uid:
                    self._stranger(pod, f"pod {chosen.name} is {replica} already")
        return chosen

    def _change_hands(self, job: JobPods) -> list[Event]:
        """Let the owner that was first keep the name; another one's pods are remarked until it is gone."""
        events: list[Event] = []
        self._resolve(job)
        holders = {self._holder(pod) for pod in job.pods.values()}
        left = job.holder is not None and job.holder not in holders and not self._stays(job)
        if left and holders:
            for replica in sorted({find_replica(pod) for pod in job.gone.values()}):
                events += self._of_replica(job, replica)
            events += self._close(job, "its owner is gone, and another one has its name")
        if job.holder is None and holders:
            job.holder = self._holder(min(job.pods.values(), key=age_of))
            job.dirty |= {find_replica(pod) for pod in job.pods.values()}
            self._jobs[job.name] = job
        for pod in job.pods.values():
            if not self._is_held_by(job, pod) and not pod.ended:
                self._stranger(pod, f"another owner has a job named {job.name}")
        return events

    def _stranger(self, pod: PodInfo, why: str) -> None:
        self.foreign.add(pod.uid)
        if pod.uid not in self._remarked:
            self._remarked.add(pod.uid)
            self._remark(pod.namespace, pod.name, "NotManaged", f"not managed: {why}")

    def _stays(self, job: JobPods) -> bool:
        """Whether the holder of the name is there, or will be again, though none of its pods is."""
        assert job.holder is not None
        if job.holder[0] == BARE:
            return self._returns(job)
        holder = self._owners.found(job.holder[1])
        return holder is not None and not _is_of_a_group(holder)

    def _returns(self, job: JobPods) -> bool:
        return any(job_of(replica) == job.name for replica in self._awaited)

    def _close(self, job: JobPods, reason: str) -> list[Event]:
        """Forget the job; the core is told if it knew of it."""
        known = job.told is not None
        replicas = {find_replica(pod) for pod in job.pods.values()} | set(
            () if job.told is None else job.told.replicas
        )
        for replica in replicas:
            self._told.pop(replica, None)
            self._incumbents.pop(replica, None)
        job.told, job.holder, job.template = None, None, None
        if not job.pods:
            self._jobs.pop(job.name, None)
        return [JobGone(job=job.name, reason=reason)] if known else []

    def _touch(self, identity: Identity) -> JobPods:
        name = identity.job_name
        if name not in self._jobs:
            self._jobs[name] = JobPods(name=name)
        self._jobs[name].dirty.add(identity.replica)
        self._dirty.add(name)
        return self._jobs[name]

    def _claimants(self, job: JobPods, replica: str) -> list[PodInfo]:
        claimants = [pod for pod in job.claimants.get(replica, {}).values() if self._is_held_by(job, pod)]
        return sorted(claimants, key=age_of)

    def _is_held_by(self, job: JobPods, pod: PodInfo) -> bool:
        if job.holder is None:
            return True
        (kind, uid), (holder_kind, holder_uid) = self._holder(pod), job.holder
        # That nobody tells the UID says nothing against it; a bare pod has none that lasts.
        return kind == holder_kind and (uid == holder_uid or (kind != BARE and not (uid and holder_uid)))

    def _holder(self, pod: PodInfo) -> tuple[str, str]:
        """Return kind and UID of what creates the next pod; the UID is empty while nobody tells it."""
        identity = find_identity(pod)
        assert identity is not None
        uid = identity.owner_uid
        if not uid and identity.owner_kind != BARE:
            uid = self._owners.uid_at(*_owner_key(identity))
        return identity.owner_kind, uid

    def _resolve(self, job: JobPods) -> None:
        """Learn the UID of the owner that has the name, where the first pod did not tell it."""
        if job.holder is None or job.holder[1] or job.holder[0] == BARE:
            return
        known = {self._holder(pod) for pod in job.pods.values()} - {job.holder}
        job.holder = next((each for each in sorted(known) if each[0] == job.holder[0]), job.holder)

    def _owner_of_holder(self, job: JobPods) -> OwnerInfo | None:
        if job.holder is None:
            return self.owner_of_job(job.name)
        return None if job.holder[0] == BARE else self._owners.owner_with_uid(job.holder[1])

    def _owner(self, identity: Identity) -> OwnerInfo | None:
        key = _owner_key(identity)
        if identity.owner_uid and self._owners.uid_at(*key) != identity.owner_uid:
            return None
        return self._owners.at(*key)


def _is_of_a_group(owner: OwnerInfo) -> bool:
    """Whether its pods are those of a LeaderWorkerSet, though an earlier manager took them for its own."""
    return bool(set_of(owner.name, owner.controller))


def _key_of(owner: OwnerInfo | None) -> OwnerKey:
    assert owner is not None
    return owner.key


def _owner_key(identity: Identity) -> tuple[str, str, str]:
    return identity.owner_kind, identity.namespace, identity.owner_name
