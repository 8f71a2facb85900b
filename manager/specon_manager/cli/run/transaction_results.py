"""What became of the transactions of a run, and how many workers each job had when, step by step."""

from collections.abc import Mapping

import msgspec
from msgspec import Struct

from specon_manager.core.state import State
from specon_manager.core.transaction.members import workers
from specon_manager.model.cluster import Job, Phase
from specon_manager.model.events import ReportReceived
from specon_manager.model.transactions import Kind, Transaction, TransactionState
from specon_manager.runtime.controller import Stepped
from specon_manager.views.transactions import find_ended, nodes_of
from specon_sidecar.wire import Report


class TransactionResult(Struct, frozen=True, kw_only=True):
    """What became of a transaction; one that had not ended is still in the state it was in.

    Times are seconds since the begin of the run.
    """

    id: str
    kind: Kind
    job: str
    replica: str | None
    """Of a move of one replica."""
    source: str
    """The node; of a job as a whole its nodes, between commas."""
    target: str
    state: TransactionState
    policy: str
    purpose: str
    reason: str
    note: str
    beneficiary: str
    workers_before: int
    workers_after: int
    restart: bool
    """Whether all of the job ended and started again."""
    started_at: float
    ended_at: float | None
    checkpoint_step: int | None
    last_step_before: int | None
    first_step_after: int | None
    """The first step that was logged after it; of a preemption, after the job was admitted again."""
    downtime: float | None
    """From the last step before to the first one after, seconds; 0 where the first worker trained on."""
    steps_lost: int | None
    """How many steps were trained a second time."""


class WorkerCount(Struct, frozen=True, kw_only=True):
    """From `at` on, seconds since the begin of the run, a job had so many workers."""

    at: float
    workers: int


class Resumed(Struct, frozen=True):
    """The first step of an incarnation after that which was preempted, and when it was trained."""

    step: int
    at: float


class TransactionLog:
    """Feed it every step."""

    def __init__(self) -> None:
        self._resumed: dict[str, Resumed] = {}
        self._waiting: dict[str, Transaction] = {}
        """Preemptions whose job has not trained since."""
        self._counts: dict[str, list[WorkerCount]] = {}

    def observe(self, stepped: Stepped) -> None:
        """Take note of what changed."""
        before, after = stepped.before, stepped.after
        for each in find_ended(before, after):
            if each.kind is Kind.PREEMPT and each.changing_at is not None:
                self._waiting[each.id] = each
        if isinstance(stepped.event, ReportReceived):
            self._hear(stepped.event.report, stepped.now)
        if after.replicas is not before.replicas or after.transactions is not before.transactions:
            for job in after.jobs.values():
                self._count(after, job, stepped.now)

    def changes(self, state: State, began: float) -> tuple[TransactionResult, ...]:
        """Return all that is no move, in the order of the begin."""
        known = (*state.history, *state.transactions.values())
        found = sorted(
            (each for each in known if each.kind is not Kind.MOVE), key=lambda each: each.proposed_at
        )
        return tuple(result_of(each, began, self._resumed.get(each.id)) for each in found)

    def courses(self, began: float) -> Mapping[str, tuple[WorkerCount, ...]]:
        """Return how many workers each job had when, without what it had while it was being changed."""
        return {
            name: tuple(msgspec.structs.replace(each, at=each.at - began) for each in counts)
            for name, counts in self._counts.items()
        }

    def _hear(self, report: Report, now: float) -> None:
        """Take note of the first step of an incarnation after that from which the checkpoint is."""
        for each in list(self._waiting.values()):
            witness = each.witnesses.get(report.replica)
            if witness is None or witness.incarnation in {None, report.incarnation}:
                continue
            first = report.first
            if first is not None and first.step is not None:
                self._resumed[each.id] = Resumed(first.step, now - first.age)
                del self._waiting[each.id]

    def _count(self, state: State, job: Job, now: float) -> None:
        known = self._counts.setdefault(job.name, [])
        if state.whole_transaction_of(job.name) is not None or job.ended_at is not None:
            return
        members = [state.replicas[name] for name in job.spec.worker_names]
        count = sum(
            each.phase is Phase.SUCCEEDED or (each.phase is Phase.RUNNING and each.leaving is None)
            for each in members
        )
        if count != (known[-1].workers if known else 0):
            known.append(WorkerCount(at=now, workers=count))


def result_of(transaction: Transaction, began: float, resumed: Resumed | None = None) -> TransactionResult:
    """Return what became of a transaction; `resumed` is how its job went on after it, of a preemption."""
    alone = transaction.kind is Kind.MOVE and not transaction.whole
    first, downtime, lost = transaction.first_step_after, transaction.downtime, transaction.steps_lost
    if resumed is not None:
        first, downtime, lost = resumed.step, *_cost_until(resumed, transaction)
    elif first is not None and downtime is None and transaction.kind in {Kind.SCALE_IN, Kind.SCALE_OUT}:
        downtime, lost = 0.0, 0  # the first worker trained on
    return TransactionResult(
        id=transaction.id,
        kind=transaction.kind,
        job=transaction.job,
        replica=transaction.replica if alone else None,
        source=transaction.source if alone else ",".join(nodes_of(transaction.before)),
        target=transaction.target if alone else ",".join(nodes_of(transaction.after)),
        state=transaction.state,
        policy=transaction.policy,
        purpose=transaction.purpose,
        reason=transaction.reason,
        note=transaction.note,
        beneficiary=transaction.beneficiary,
        workers_before=workers(transaction.before),
        workers_after=workers(transaction.after),
        restart=transaction.restart,
        started_at=transaction.proposed_at - began,
        ended_at=None if transaction.ended_at is None else transaction.ended_at - began,
        checkpoint_step=None if transaction.checkpoint is None else transaction.checkpoint.step,
        last_step_before=transaction.last_step_before,
        first_step_after=first,
        downtime=downtime,
        steps_lost=lost,
    )


def _cost_until(resumed: Resumed, transaction: Transaction) -> tuple[float | None, int | None]:
    """Return the downtime and the steps lost of a preemption whose job has gone on."""
    witness = next(iter(transaction.witnesses.values()))
    downtime = None if witness.last_step_at is None else max(0.0, resumed.at - witness.last_step_at)
    lost = None if witness.last_step is None else max(0, witness.last_step + 1 - resumed.step)
    return downtime, lost
