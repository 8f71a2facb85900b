"""What is known of jobs as a whole: described, admitted, in which change, and which pods they have. Pure."""

from collections.abc import Iterable, Mapping

from msgspec import Struct

from specon_manager.backends.kube.admission.annotations import HELD
from specon_manager.backends.kube.placing.wishes import workers_in
from specon_manager.backends.kube.watching.owner_info import OwnerInfo
from specon_manager.backends.kube.watching.slim import PodInfo
from specon_manager.core.state import State
from specon_manager.model.actions import PlaceJob
from specon_manager.model.changes import ChangeKind
from specon_manager.model.cluster import JobSpec
from specon_manager.model.events import Event, JobGone, JobObserved, ReplicaStarted


class InFlight(Struct, kw_only=True):
    """A change of a job, as far as its orders tell."""

    id: str
    admitting: bool
    """Whether it lets a job begin that was held."""
    ours: set[int]
    """Numbers of workers of the job's object that are no edit by its user."""


class Book:
    """Takes in what the core knows and what the watch sees; says what becomes of holds."""

    def __init__(self) -> None:
        self.specs: dict[str, JobSpec] = {}
        self.changes: dict[str, InFlight] = {}
        """The last change that was ordered of each job, until it is known to be over."""
        self.admitted: set[str] = set()
        """Jobs that were let go, or ran without us; of those that are held: admitted, as the core has it."""
        self._pods: dict[str, dict[str, PodInfo]] = {}
        self._gated: dict[str, set[str]] = {}

    def begin(self, state: State) -> None:
        """Take over what an earlier manager knew."""
        for job in state.jobs.values():
            if job.owned:
                self.specs[job.name] = job.spec
                if job.admitted:
                    self.admitted.add(job.name)
        for change in state.changes.values():
            admitting = change.kind is ChangeKind.ADMIT
            self.changes[change.job] = InFlight(
                id=change.id,
                admitting=admitting,
                ours={workers_in(change.before), workers_in(change.after)} - {0},
            )

    def heard(self, event: Event) -> None:
        """Take note of what is told to the core."""
        if isinstance(event, JobObserved):
            self._described(event.spec)
        elif isinstance(event, JobGone):
            self.specs.pop(event.job, None)
            self.changes.pop(event.job, None)
            self.admitted.discard(event.job)
        elif isinstance(event, ReplicaStarted):
            job = job_of(event.replica)
            if job not in self.changes:
                # It was let run by somebody else, or before it was held.
                self.admitted.add(job)

    def ordered(self, order: PlaceJob) -> InFlight | None:
        """Take note of an order; return the change that it belongs to, None where that is over."""
        spec = self.specs.get(order.job)
        if not order.change:
            self.changes.pop(order.job, None)
            self.admitted.add(order.job)
            return None
        change = self.changes.get(order.job)
        present = set() if spec is None or spec.present is None else {spec.present}
        if change is None or change.id != order.change:
            admitting = spec is not None and spec.held and order.job not in self.admitted
            change = InFlight(id=order.change, admitting=admitting, ours=present)
            self.changes[order.job] = change
        if change.admitting:
            change.ours |= present
        if order.placement:
            change.ours.add(workers_in(order.placement))
            self.admitted.add(order.job)
        else:
            self.admitted.discard(order.job)
        return change

    def noticed(self, before: PodInfo | None, after: PodInfo | None) -> str:
        """Take note of a pod that came, changed or went; return its job, empty where it has none."""
        pod = after if after is not None else before
        replica = None if pod is None else replica_of(pod)
        if pod is None or replica is None:
            return ""
        job = job_of(replica)
        if after is None:
            self._pods.get(job, {}).pop(pod.uid, None)
            if not self._pods.get(job):
                self._pods.pop(job, None)
        else:
            self._pods.setdefault(job, {})[pod.uid] = pod
        if after is not None and waits_for_us(after):
            self._gated.setdefault(job, set()).add(pod.uid)
        elif job in self._gated:
            self._gated[job].discard(pod.uid)
            if not self._gated[job]:
                del self._gated[job]
        return job

    def pods(self, job: str, without: Iterable[str] = ()) -> list[PodInfo]:
        """Return the pods of a job that have not ended, by name; `without` those with these UIDs."""
        left_out = set(without)
        found = self._pods.get(job, {}).values()
        return sorted(
            (pod for pod in found if not pod.ended and pod.uid not in left_out), key=lambda pod: pod.key
        )

    def gated(self) -> Mapping[str, set[str]]:
        """Return the UIDs of pods that wait for our gate, by job."""
        return self._gated

    def keeps(self, owner: OwnerInfo, jobs: Iterable[str]) -> bool:
        """Whether an owner that carries our mark is to stay suspended, as far as changes and queues tell."""
        for job in jobs:
            spec, change = self.specs.get(job), self.changes.get(job)
            if owner.suspended_for.startswith(HELD):
                if spec is not None and spec.held and (change is not None or job not in self.admitted):
                    return True
            elif change is not None and change.id == owner.suspended_for:
                return True
        return False

    def _described(self, spec: JobSpec) -> None:
        former = self.specs.get(spec.name)
        self.specs[spec.name] = spec
        newly_held = spec.held and former is not None and not former.held
        if newly_held and not any(occupies(pod) for pod in self.pods(spec.name)):
            self.admitted.discard(spec.name)


def replica_of(pod: PodInfo) -> str | None:
    """Return the replica that a pod is, or None where it is none."""
    if pod.detail is None or pod.detail.placeholder or pod.detail.identity is None:
        return None
    return pod.detail.identity.replica


def job_of(replica: str) -> str:
    """Return the job of a replica `namespace/job/role/index`."""
    return replica.rpartition("/")[0].rpartition("/")[0]


def waits_for_us(pod: PodInfo) -> bool:
    """Whether only our gate keeps the pod from the scheduler's eyes."""
    return pod.detail is not None and pod.detail.gated and not pod.deleting and not pod.ended


def occupies(pod: PodInfo) -> bool:
    """Whether the pod is, or may at any moment be, an incarnation: it is neither gated nor over."""
    return pod.detail is not None and not pod.detail.gated and not pod.ended
