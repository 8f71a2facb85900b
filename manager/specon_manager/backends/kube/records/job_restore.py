"""Jobs and their changes made again from the TrainingJobs. Pure.

A TrainingJob is written before anything is ordered because of a change, and once more when the change has
ended; what its replicas did in between is told by their pods, as events, and wins. Until then:

- A change in flight whose record is whole goes on, and its replicas stand where that record has them,
  whatever their TrainingProgress objects say: those do not know what was told to end.
- One that contradicts itself, or another record, is closed, and nothing is ordered because of it. While it
  was Checkpointing nothing had come about: it is RolledBack. Else it is Failed: what runs goes on, and a job
  that is held, and was to be started or ended, waits to be admitted again unless it is seen to run.
- A job that waits to be admitted has nothing that runs, unless that was written down later.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Final

import msgspec
from msgspec import Struct

from specon_manager.backends.kube.records.job_record import JobPhase, Recorded
from specon_manager.backends.kube.records.job_text import Described, Placed, concerned, with_member
from specon_manager.backends.kube.records.lenient import Problem
from specon_manager.backends.kube.records.names import EARLIER_OWNER
from specon_manager.backends.kube.records.placements import unpacked
from specon_manager.backends.kube.transport.resources import TRAINING_JOBS
from specon_manager.core.described import first_phase
from specon_manager.core.state import HISTORY
from specon_manager.model.changes import Change, ChangeKind, ChangeState
from specon_manager.model.cluster import Job, JobSpec, Phase, Replica, index_of, role_of
from specon_manager.model.settings import Settings

UNSEEN: Final = "the manager has not seen its job since it was started"
_DOUBLINGS: Final = 10
_PATIENCE: Final = 60.0
"""Seconds until an overdue change is looked at: it is ordered again before that."""


class JobsRestored(Struct, frozen=True, kw_only=True):
    """What the TrainingJobs tell of jobs and changes."""

    by_job: Mapping[str, Recorded]
    changes: Mapping[str, Change]
    """In flight, by job."""
    closed: Mapping[str, Change | None]
    """What is closed instead, by job; None where not even that is known of it."""
    history: tuple[Change, ...]
    problems: tuple[Problem, ...]
    change_count: int


def jobs_restored(recorded: Iterable[Recorded], moving: Collection[str], now: float) -> JobsRestored:
    """Return what is known of jobs and changes; `moving` are the replicas with a move in flight."""
    by_job = {each.job: each for each in sorted(recorded, key=lambda each: (each.updated_at, each.job))}
    changes: dict[str, Change] = {}
    closed: dict[str, Change | None] = {}
    problems: list[Problem] = []
    ids: set[str] = set()
    for job, each in sorted(by_job.items(), key=lambda item: (-item[1].updated_at, item[0])):
        why = each.broken or _contradiction(each.change, ids, moving)
        if not why and each.change is not None:
            overdue = each.change.deadline <= now
            deadline = now + _PATIENCE if overdue else each.change.deadline
            changes[job] = msgspec.structs.replace(each.change, deadline=deadline)
            ids.add(each.change.id)
        elif why:
            how = _closed_as(each)
            closed[job] = _over(each, how, f"closed after a restart: {why}", now)
            problems.append(
                Problem(
                    kind=TRAINING_JOBS.kind,
                    namespace=each.name.namespace,
                    name=each.name.name,
                    field="status.change",
                    text=f"{why}; it is closed as {how}",
                )
            )
    ended = {each.last.id: each.last for each in by_job.values() if each.last is not None}
    ended |= {each.id: each for each in closed.values() if each is not None}
    history = sorted(ended.values(), key=lambda each: (each.ended_at or 0.0, each.id))
    return JobsRestored(
        by_job=by_job,
        changes=changes,
        closed=closed,
        history=tuple(each for each in history if each.id not in ids)[-HISTORY:],
        problems=tuple(problems),
        change_count=max((_count(each) for each in by_job.values()), default=0),
    )


def _contradiction(change: Change | None, ids: Collection[str], moving: Collection[str]) -> str:
    if change is None:
        return ""
    if change.id in ids:
        return f"another TrainingJob records {change.id}"
    moved = next((name for name in concerned(change) if name in moving), None)
    return "" if moved is None else f"a Migration moves {moved}"


def _closed_as(each: Recorded) -> ChangeState:
    told = each.status.change
    state = each.change.state if each.change is not None else (None if told is None else told.state)
    return ChangeState.ROLLED_BACK if state is ChangeState.CHECKPOINTING else ChangeState.FAILED


def _over(each: Recorded, how: ChangeState, note: str, now: float) -> Change | None:
    """Return what is kept of a change that is closed, as far as it is known."""
    if each.change is not None:
        return msgspec.structs.replace(each.change, state=how, ended_at=now, note=note)
    told = each.status.change
    if told is None or told.id is None or told.kind is None:
        return None
    return Change(
        id=told.id,
        job=each.job,
        kind=told.kind,
        policy="",
        reason=told.reason or "",
        state=how,
        proposed_at=each.updated_at,
        deadline=now,
        before={},
        after={},
        ended_at=now,
        note=note,
    )


def _count(each: Recorded) -> int:
    """Return the largest number of a change that the TrainingJob knows of."""
    told, last = each.status.change, each.status.last_change
    ids = [
        each.change and each.change.id,
        each.last and each.last.id,
        told and told.id,
        last and last.id,
    ]
    numbers = [_number(name) for name in ids if name]
    return max([*numbers, 0 if each.text is None else each.text.changes_ever])


def _number(name: str) -> int:
    kind, _, number = name.partition("-")
    numbered = kind == "change" and number.isascii() and number.isdigit() and len(number) < 16  # noqa: PLR2004  (as many as 2**53 has)
    return int(number) if numbered else 0


# -- jobs ----------------------------------------------------------------------------------------


def names_of(recorded: Recorded) -> tuple[str, ...]:
    """Return the replicas that the record names; none where it cannot be read."""
    if recorded.text is None:
        return ()
    named = unpacked(recorded.job, recorded.text.described.replicas)
    return tuple(dict.fromkeys((*named, *(() if recorded.change is None else concerned(recorded.change)))))


def job_of(
    recorded: Recorded, names: tuple[str, ...], told: JobsRestored, *, settings: Settings, now: float
) -> Job:
    """Return the job, described as far as that was written down, until its owner describes it anew.

    Nothing but its change in flight goes on until then; where that was closed it rests for a while.
    """
    text = recorded.text
    if text is None:
        admitted = recorded.status.phase in {JobPhase.STARTING, JobPhase.RUNNING, JobPhase.CHANGING}
        began = recorded.created_at or now
        spec = _unseen(recorded, names, Described(replicas="", held=not admitted))
        job = Job(spec=spec, order=0, submitted_at=began, queued_at=began, admitted=admitted)
        job = msgspec.structs.replace(job, preemptions=recorded.status.preemptions or 0)
    else:
        job = Job(
            spec=_unseen(recorded, names, text.described),
            order=text.order,
            submitted_at=text.submitted_at,
            ended_at=text.ended_at,
            queued_at=text.queued_at,
            admitted_at=text.admitted_at,
            trains_since=text.trains_since,
            attained_seconds=text.attained_seconds,
            preemptions=text.preemptions,
            admitted=text.admitted,
            changes=text.changes,
            cooldown_until=text.cooldown_until,
        )
    if recorded.job not in told.closed:
        return job
    closed = told.closed[recorded.job]
    pause = settings.budgets.retry_cooldown * 2 ** min(job.changes, _DOUBLINGS)
    waits = closed is not None and closed.kind in {ChangeKind.ADMIT, ChangeKind.PREEMPT}
    waits = waits and closed is not None and closed.state is ChangeState.FAILED
    return msgspec.structs.replace(
        job, changes=job.changes + 1, cooldown_until=now + pause, admitted=job.admitted and not waits
    )


def _unseen(recorded: Recorded, names: tuple[str, ...], described: Described) -> JobSpec:
    return JobSpec(
        name=recorded.job,
        replicas=names,
        workers=described.workers,
        min_workers=described.min_workers,
        queue=described.queue,
        placed_by="owner",
        migratable=False,
        immovable=UNSEEN,
        held=described.held,
        resizing=described.resizing,
        unscalable=UNSEEN,
        unpreemptible=UNSEEN,
        present=described.present,
        checkpointing=described.checkpointing,
        grace_seconds=described.grace_seconds,
        requests=described.requests,
        ps_requests=described.ps_requests,
        priority=described.priority,
        lowest_cpu=described.lowest_cpu,
        constraints=described.constraints,
        template={} if recorded.text is None else {EARLIER_OWNER: list(described.owner or ("", ""))},
    )


def member_of(job: Job, known: Replica | None, name: str, *, written: float, recorded: Recorded) -> Replica:
    """Return a replica of a job without a change in flight.

    `known` is what its TrainingProgress has of it, written at `written`; None where there is none.
    """
    replica = known or Replica(name=name, job=job.name, role=role_of(name), index=index_of(name))
    if replica.ended:
        return replica
    stale = known is None or written <= recorded.updated_at
    waits = job.spec.held and not job.admitted
    if replica.phase is Phase.RUNNING and not (stale and waits):
        return replica
    if replica.phase is Phase.STARTING and not stale:
        return replica  # after a move that failed: its owner is to start it
    phase = first_phase(job, name)
    return msgspec.structs.replace(replica, phase=phase, incarnation=None, deadline=None, leaving=None)


def with_change(
    replicas: Mapping[str, Replica], change: Change, placed: Placed, now: float
) -> dict[str, Replica]:
    """Return the replicas that the change is about as its record has them."""
    found = {}
    for name, member in zip(concerned(change), placed.members, strict=True):
        known = replicas.get(name) or Replica(
            name=name, job=change.job, role=role_of(name), index=index_of(name)
        )
        found[name] = with_member(known, change, member, now)
    return found
