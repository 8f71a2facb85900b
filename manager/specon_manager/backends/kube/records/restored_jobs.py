"""Jobs, and their transactions in flight as a whole, made again from the TrainingJobs. Pure.

A TrainingJob is written before anything is ordered for its job as a whole, and once more when that has ended;
what its replicas did in between is told by their pods, as events, and wins. A job that waits to be admitted
has nothing that runs, unless that was written down later.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Final

import msgspec
from msgspec import Struct

from specon_manager.backends.kube.objects.names import EARLIER_OWNER
from specon_manager.backends.kube.records.decoding import Problem
from specon_manager.backends.kube.records.external import ChangeState
from specon_manager.backends.kube.records.job_record import JobPhase, Recorded
from specon_manager.backends.kube.records.job_text import Described
from specon_manager.backends.kube.records.placements import unpack_names
from specon_manager.backends.kube.records.progress_record import Progressed
from specon_manager.backends.kube.records.transaction_text import Member
from specon_manager.backends.kube.transport.resources import TRAINING_JOBS
from specon_manager.core.owner_phases import first_phase
from specon_manager.core.state import HISTORY
from specon_manager.model.cluster import Job, JobSpec, Phase, Replica, index_of, role_of
from specon_manager.model.settings import Settings
from specon_manager.model.transactions import UNTOUCHED_STATES, Kind, Transaction, TransactionState

UNSEEN: Final = "the manager has not seen its job since it was started"
_DOUBLINGS: Final = 10


class WholeRestored(Struct, frozen=True, kw_only=True):
    """What the TrainingJobs tell of jobs as a whole."""

    by_job: Mapping[str, Recorded]
    transactions: Mapping[str, Transaction]
    """In flight, by job."""
    members: Mapping[str, tuple[Member, ...]]
    """Where the replicas of those stand, by job."""
    closed: Mapping[str, Transaction | None]
    """The transaction closed instead, by job; None where not even that is known of it."""
    history: tuple[Transaction, ...]
    problems: tuple[Problem, ...]
    count: int


def restore_whole(recorded: Iterable[Recorded], moving: Collection[str], now: float) -> WholeRestored:
    """Return the facts about jobs as a whole; `moving` are the replicas with a move in flight."""
    by_job = {each.job: each for each in sorted(recorded, key=lambda each: (each.updated_at, each.job))}
    flying: dict[str, Transaction] = {}
    closed: dict[str, Transaction | None] = {}
    problems: list[Problem] = []
    ids: set[str] = set()
    for job, each in sorted(by_job.items(), key=lambda item: (-item[1].updated_at, item[0])):
        why = each.broken or _contradiction(each.transaction, ids, moving)
        if not why and each.transaction is not None:
            flying[job] = each.transaction
            ids.add(each.transaction.id)
        elif why:
            how = _close_as(each)
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
    ended = {over.id: over for each in by_job.values() for over in each.history}
    ended |= {each.id: each for each in closed.values() if each is not None}
    history = sorted(ended.values(), key=lambda each: (each.ended_at or 0.0, each.id))
    return WholeRestored(
        by_job=by_job,
        transactions=flying,
        members={job: _members(by_job[job]) for job in flying},
        closed=closed,
        history=tuple(each for each in history if each.id not in ids)[-HISTORY:],
        problems=tuple(problems),
        count=max((_count(each) for each in by_job.values()), default=0),
    )


def jobs_of(
    whole: WholeRestored,
    replicas: Mapping[str, Replica],
    written: Mapping[str, float],
    *,
    apart: Collection[str],
    known: Mapping[str, Progressed],
    settings: Settings,
    now: float,
) -> tuple[dict[str, Job], dict[str, Replica]]:
    """Return all jobs in the order in which they were submitted, and all replicas as their TrainingJobs say.

    `written` is when each replica was written down, `known` what its TrainingProgress says; `apart` are the
    replicas whose place is in a Migration. The descriptions come from the owners: until then only a change
    that is in flight moves a replica.
    """
    found, jobs = dict(replicas), dict[str, Job]()
    of_job: dict[str, list[str]] = {}
    for name, replica in replicas.items():
        of_job.setdefault(replica.job, []).append(name)
    for job, recorded in whole.by_job.items():
        names = sorted({*_names(recorded), *of_job.pop(job, ())}, key=_by_role)
        jobs[job] = _job(recorded, tuple(names), whole, settings=settings, now=now)
        for name in names:
            if name not in apart:
                at = written.get(name, 0.0)
                found[name] = _member(jobs[job], replicas.get(name), name, stale=at <= recorded.updated_at)
    for job, named in of_job.items():
        names = sorted(named, key=_by_role)
        began = min((known[name].created_at for name in names if name in known), default=now)
        spec = JobSpec(
            name=job,
            replicas=tuple(names),
            coupled=False,
            placed_by="owner",
            migratable=False,
            immovable=UNSEEN,
        )
        jobs[job] = Job(spec=spec, order=0, submitted_at=began, queued_at=began)
    ordered = sorted(jobs.values(), key=lambda job: (job.submitted_at, job.order, job.name))
    numbered = {job.name: msgspec.structs.replace(job, order=order) for order, job in enumerate(ordered)}
    return numbered, found


def _by_role(name: str) -> tuple[str, int, str]:
    return role_of(name), index_of(name), name


def _names(recorded: Recorded) -> tuple[str, ...]:
    """Return the replicas that the record names; none where it cannot be read."""
    if recorded.text is None:
        return ()
    named = unpack_names(recorded.job, recorded.text.described.replicas)
    flying = recorded.transaction
    return tuple(dict.fromkeys((*named, *(() if flying is None else flying.concerned))))


def _members(recorded: Recorded) -> tuple[Member, ...]:
    text = recorded.text
    return () if text is None or text.change is None else text.change.members


def _contradiction(flying: Transaction | None, ids: Collection[str], moving: Collection[str]) -> str:
    if flying is None:
        return ""
    if flying.id in ids:
        return f"another TrainingJob records {flying.id}"
    moved = next((name for name in flying.concerned if name in moving), None)
    return "" if moved is None else f"a Migration moves {moved}"


def _close_as(each: Recorded) -> TransactionState:
    told = each.status.change
    if each.transaction is not None:
        asked = each.transaction.state in UNTOUCHED_STATES
    else:
        asked = told is not None and told.state is ChangeState.CHECKPOINTING
    return TransactionState.ROLLED_BACK if asked else TransactionState.FAILED


def _over(each: Recorded, how: TransactionState, note: str, now: float) -> Transaction | None:
    """Return the record of the closed transaction, as far as it is known."""
    if each.transaction is not None:
        return msgspec.structs.replace(each.transaction, state=how, ended_at=now, note=note)
    told = each.status.change
    if told is None or told.id is None or told.kind is None:
        return None
    return Transaction(
        id=told.id,
        job=each.job,
        kind=Kind(told.kind.value),
        whole=True,
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
    """Return the largest number of a transaction that the TrainingJob knows of."""
    told, last = each.status.change, each.status.last_change
    ids = [over.id for over in each.history]
    ids += [known.id for known in (each.transaction, told, last) if known is not None and known.id]
    return max([*map(_number, ids), 0 if each.text is None else each.text.changes_ever])


def _number(name: str) -> int:
    """Return the number in an id of ours: `change-7` of version 0.1, else kind and number."""
    kind, _, number = name.rpartition("-")
    ours = kind == "change" or kind in {each.value for each in Kind}
    numbered = ours and number.isascii() and number.isdigit() and len(number) < 16  # noqa: PLR2004  (as many as 2**53 has)
    return int(number) if numbered else 0


# -- jobs ----------------------------------------------------------------------------------------


def _job(
    recorded: Recorded, names: tuple[str, ...], whole: WholeRestored, *, settings: Settings, now: float
) -> Job:
    """Return the job, described as far as that was written down, until its owner describes it again.

    Only a transaction in flight goes on until then; where that was closed, the job rests for a while.
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
            hang_restarts=text.hang_restarts,
            preempted_at=text.preempted_at,
            admitted=text.admitted,
            failures=text.changes,
            cooldown_until=text.cooldown_until,
        )
    if recorded.job not in whole.closed:
        return job
    closed = whole.closed[recorded.job]
    pause = settings.budgets.retry_cooldown * 2 ** min(job.failures, _DOUBLINGS)
    waits = closed is not None and closed.kind in {Kind.ADMIT, Kind.PREEMPT, Kind.PUT_BACK}
    waits = waits and closed is not None and closed.state is TransactionState.FAILED
    return msgspec.structs.replace(
        job, failures=job.failures + 1, cooldown_until=now + pause, admitted=job.admitted and not waits
    )


def _unseen(recorded: Recorded, names: tuple[str, ...], described: Described) -> JobSpec:
    return JobSpec(
        name=recorded.job,
        replicas=names,
        coupled=described.coupled,
        savers=described.savers,
        coupling=described.coupling,
        workers=described.workers,
        min_workers=described.min_workers,
        queue=described.queue,
        placed_by="owner",
        migratable=False,
        immovable=UNSEEN,
        held=described.held,
        resizing=described.resizing,
        unscalable=UNSEEN,
        headroom=0 if recorded.status.not_scaled_out else None,
        no_headroom=recorded.status.not_scaled_out or "",
        unpreemptible=UNSEEN,
        present=described.present,
        checkpointing=described.checkpointing,
        grace_seconds=described.grace_seconds,
        requests=described.requests,
        ps_requests=described.ps_requests,
        unlike=described.unlike,
        priority=described.priority,
        lowest_cpu=described.lowest_cpu,
        constraints=described.constraints,
        template={} if recorded.text is None else {EARLIER_OWNER: list(described.owner or ("", ""))},
    )


def _member(job: Job, known: Replica | None, name: str, *, stale: bool) -> Replica:
    """Return a replica of a job that has no change as a whole in flight.

    `known` is what its TrainingProgress says, None where there is none; `stale`: it was written before the
    TrainingJob.
    """
    replica = known or Replica(name=name, job=job.name, role=role_of(name), index=index_of(name))
    if replica.ended:
        return replica
    waits = job.spec.held and not job.admitted
    if replica.phase is Phase.RUNNING and not ((stale or known is None) and waits):
        return replica
    phase = first_phase(job, name)
    return msgspec.structs.replace(replica, phase=phase, incarnation=None, deadline=None, leaving=None)
