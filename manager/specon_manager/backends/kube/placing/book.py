"""The facts about jobs as a whole: description, admission, transactions in flight, and their pods.

Pure.
"""

from collections.abc import Iterable, Mapping

from msgspec import Struct

from specon_manager.backends.kube.objects.annotation_keys import HELD
from specon_manager.backends.kube.objects.owner import OwnerInfo
from specon_manager.backends.kube.objects.pod import PodInfo
from specon_manager.backends.kube.placing.wishes import workers_in
from specon_manager.core.state import State
from specon_manager.model.actions import HoldRoom, PlaceJob
from specon_manager.model.cluster import JobSpec, job_of
from specon_manager.model.events import Event, JobGone, JobObserved, ReplicaStarted
from specon_manager.model.transactions import UNTOUCHED_STATES, Kind, Transaction


class InFlight(Struct, kw_only=True):
    """A transaction of a job, as far as its orders tell."""

    id: str
    moves: bool
    """Whether it moves single replicas: then the number of workers is none of its business."""
    gang: bool = False
    """Whether it moves all of the job as one: nor is it then."""
    admitting: bool
    """Whether it lets a job begin that was held."""
    ours: set[int]
    """Numbers of workers of the job's object that are no edit by its user."""


class Moving(Struct, frozen=True):
    """The move of a replica, as far as its first order tells."""

    id: str
    target: str


class Book:
    """Takes in what the core knows and what the watch sees; says what becomes of holds."""

    def __init__(self) -> None:
        self.specs: dict[str, JobSpec] = {}
        self.flying: dict[str, InFlight] = {}
        """The last order for each job, until it is known to be over."""
        self.moves: dict[str, Moving] = {}
        """The last move of a replica that is known; it may be over."""
        self.admitted: set[str] = set()
        """Jobs that were let go, or ran without us; a held job is here once the core has admitted it."""
        self._pods: dict[str, dict[str, PodInfo]] = {}
        self._gated: dict[str, set[str]] = {}

    def begin(self, state: State) -> None:
        """Take over what an earlier manager knew."""
        for job in state.jobs.values():
            if job.owned:
                self.specs[job.name] = job.spec
                if job.admitted:
                    self.admitted.add(job.name)
        for transaction in state.transactions.values():
            if transaction.kind is Kind.MOVE:
                for replica, node in transaction.after.items():
                    if node != transaction.before.get(replica):
                        self.moves[replica] = Moving(transaction.id, node)
            if _has_begun(transaction):
                self.flying[transaction.job] = InFlight(
                    id=transaction.id,
                    moves=transaction.kind is Kind.MOVE and not transaction.whole,
                    gang=transaction.kind in {Kind.MOVE, Kind.RESTART} and transaction.whole,
                    admitting=transaction.kind is Kind.ADMIT,
                    ours={workers_in(transaction.before), workers_in(transaction.after)} - {0},
                )

    def heard(self, event: Event) -> None:
        """Take note of the events told to the core."""
        if isinstance(event, JobObserved):
            self._describe(event.spec)
        elif isinstance(event, JobGone):
            spec = self.specs.pop(event.job, None)
            for replica in () if spec is None else spec.replicas:
                self.moves.pop(replica, None)
            self.flying.pop(event.job, None)
            self.admitted.discard(event.job)
        elif isinstance(event, ReplicaStarted):
            job = job_of(event.replica)
            if job not in self.flying:
                # It was let run by somebody else, or before it was held.
                self.admitted.add(job)

    def moving(self, order: HoldRoom) -> None:
        """Take note that a replica is about to move: every move begins with its room."""
        self.moves[order.replica] = Moving(order.transaction, order.node)

    def note_order(self, order: PlaceJob) -> InFlight | None:
        """Take note of an order; return the transaction that it belongs to, None where that is over."""
        spec = self.specs.get(order.job)
        if not order.transaction:
            self.flying.pop(order.job, None)
            self.admitted.add(order.job)
            return None
        flight = self.flying.get(order.job)
        present = set() if spec is None or spec.present is None else {spec.present}
        if flight is None or flight.id != order.transaction:
            moves = not order.gang and self._is_move(order, () if spec is None else spec.replicas)
            held = spec is not None and spec.held and order.job not in self.admitted
            flight = InFlight(
                id=order.transaction,
                moves=moves,
                gang=order.gang,
                admitting=held and not moves and not order.gang,
                ours=present,
            )
            self.flying[order.job] = flight
        if flight.moves or flight.gang:
            return flight
        if flight.admitting:
            flight.ours |= present
        if order.placement:
            flight.ours.add(workers_in(order.placement))
            self.admitted.add(order.job)
        else:
            self.admitted.discard(order.job)
        return flight

    def _is_move(self, order: PlaceJob, replicas: Iterable[str]) -> bool:
        named = {*replicas, *order.placement, *order.ending}
        known = (self.moves.get(replica) for replica in named)
        return any(move is not None and move.id == order.transaction for move in known)

    def note_pod(self, before: PodInfo | None, after: PodInfo | None) -> str:
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

    def is_ending(self, job: str) -> bool:
        """Whether a pod of the job was told to end and is not gone: one beside it would be a second copy."""
        return any(occupies(pod) and pod.deleting for pod in self.pods(job))

    def find_gated(self) -> Mapping[str, set[str]]:
        """Return the UIDs of pods that wait for our gate, by job."""
        return self._gated

    def keeps(self, owner: OwnerInfo, jobs: Iterable[str]) -> bool:
        """Whether an owner that carries our mark stays suspended, by a transaction or by a queue."""
        held = owner.suspended_for.startswith(HELD)
        for job in jobs:
            spec, flight = self.specs.get(job), self.flying.get(job)
            if held and spec is not None and spec.held and (flight is not None or job not in self.admitted):
                return True
            if not held and flight is not None and (flight.moves or flight.id == owner.suspended_for):
                return True
        return False

    def _describe(self, spec: JobSpec) -> None:
        former = self.specs.get(spec.name)
        self.specs[spec.name] = spec
        newly_held = spec.held and former is not None and not former.held
        if newly_held and not any(occupies(pod) for pod in self.pods(spec.name)):
            self.admitted.discard(spec.name)


def _has_begun(transaction: Transaction) -> bool:
    """Whether anything may have been ordered for it of the owner of its job."""
    return transaction.state not in UNTOUCHED_STATES or transaction.changing_at is not None


def replica_of(pod: PodInfo) -> str | None:
    """Return the replica that a pod is, or None where it is none."""
    if pod.detail is None or pod.detail.placeholder or pod.detail.identity is None:
        return None
    return pod.detail.identity.replica


def waits_for_us(pod: PodInfo) -> bool:
    """Whether only our gate keeps the pod from the scheduler's eyes."""
    return pod.detail is not None and pod.detail.gated and not pod.deleting and not pod.ended


def is_unplaced(pod: PodInfo) -> bool:
    """Whether the pod has no node yet and waits, because of us, for a certain one."""
    return pod.detail is not None and bool(pod.detail.pinned) and not pod.node and not pod.ended


def occupies(pod: PodInfo) -> bool:
    """Whether the pod is, or may at any moment be, an incarnation: it is neither gated nor over."""
    return pod.detail is not None and not pod.detail.gated and not pod.ended
