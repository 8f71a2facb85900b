"""Changes of whole jobs in a run, and how many workers each job had when: from the steps of the manager."""

from collections.abc import Mapping

import msgspec
from msgspec import Struct

from specon_manager.core.state import State
from specon_manager.model.changes import Change, ChangeKind, ChangeState
from specon_manager.model.cluster import Job, Phase, role_of
from specon_manager.model.events import ReportReceived
from specon_manager.runtime.controller import Stepped
from specon_sidecar.wire import Report


class ChangeResult(Struct, frozen=True, kw_only=True):
    """What became of a change; times are seconds since the begin of the run."""

    id: str
    job: str
    kind: ChangeKind
    state: ChangeState
    policy: str
    reason: str
    note: str
    beneficiary: str
    workers_before: int
    workers_after: int
    restart: bool
    """Whether all of the job ended and started anew."""
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


class _Resumed(Struct, frozen=True):
    step: int
    at: float


class ChangeLog:
    """Feed it every step."""

    def __init__(self) -> None:
        self._resumed: dict[str, _Resumed] = {}
        self._waiting: dict[str, Change] = {}
        self._counts: dict[str, list[WorkerCount]] = {}

    def observe(self, stepped: Stepped) -> None:
        """Take note of what changed."""
        after = stepped.after
        for change in (*after.changes.values(), *after.change_history[-len(after.jobs) - 1 :]):
            if _stops(change) and change.changing_at is not None and change.id not in self._resumed:
                self._waiting[change.id] = change
        if isinstance(stepped.event, ReportReceived):
            self._hear(stepped.event.report, stepped.now)
        if after.replicas is not stepped.before.replicas or after.changes is not stepped.before.changes:
            for job in after.jobs.values():
                self._count(after, job, stepped.now)

    def _hear(self, report: Report, now: float) -> None:
        """Take note of the first step of an incarnation after that from which the checkpoint is."""
        for change in list(self._waiting.values()):
            if change.lead != report.replica or change.incarnation in {None, report.incarnation}:
                continue
            first = report.first
            if first is not None and first.step is not None:
                self._resumed[change.id] = _Resumed(first.step, now - first.age)
                del self._waiting[change.id]

    def _count(self, state: State, job: Job, now: float) -> None:
        known = self._counts.setdefault(job.name, [])
        if job.name in state.changes or job.ended_at is not None:
            return
        members = [state.replicas[name] for name in job.spec.worker_names]
        count = sum(
            each.phase is Phase.SUCCEEDED or (each.phase is Phase.RUNNING and each.leaving is None)
            for each in members
        )
        if count != (known[-1].workers if known else 0):
            known.append(WorkerCount(at=now, workers=count))

    def results(self, state: State, began: float) -> tuple[ChangeResult, ...]:
        """Return all changes in the order of their begin."""
        changes = sorted((*state.change_history, *state.changes.values()), key=lambda each: each.proposed_at)
        return tuple(self._result(change, began) for change in changes)

    def courses(self, began: float) -> Mapping[str, tuple[WorkerCount, ...]]:
        """Return how many workers each job had when, without what it had while a change was in flight."""
        return {
            name: tuple(msgspec.structs.replace(each, at=each.at - began) for each in counts)
            for name, counts in self._counts.items()
        }

    def _result(self, change: Change, began: float) -> ChangeResult:
        first, downtime, lost = change.first_step_after, change.downtime, None
        if (resumed := self._resumed.get(change.id)) is not None:
            first = resumed.step
            if change.last_step_at is not None:
                downtime = max(0.0, resumed.at - change.last_step_at)
            if change.last_step_before is not None:
                lost = max(0, change.last_step_before + 1 - resumed.step)
        elif first is not None and not _stops(change):
            downtime, lost = 0.0, 0
        return ChangeResult(
            id=change.id,
            job=change.job,
            kind=change.kind,
            state=change.state,
            policy=change.policy,
            reason=change.reason,
            note=change.note,
            beneficiary=change.beneficiary,
            workers_before=workers_in(change.before),
            workers_after=workers_in(change.after),
            restart=change.restart,
            started_at=change.proposed_at - began,
            ended_at=None if change.ended_at is None else change.ended_at - began,
            checkpoint_step=None if change.checkpoint is None else change.checkpoint.step,
            last_step_before=change.last_step_before,
            first_step_after=first,
            downtime=downtime,
            steps_lost=lost,
        )


def workers_in(placement: Mapping[str, str]) -> int:
    """Return how many of the replicas in a placement are workers."""
    return sum(role_of(name) != "ps" for name in placement)


def _stops(change: Change) -> bool:
    """Whether the first worker ends for it."""
    return change.restart or change.kind is ChangeKind.PREEMPT
