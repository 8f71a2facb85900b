"""The manager's state made again from the custom resources. Pure.

What pods and jobs say comes afterwards, as events, and wins. Until then:

- A replica is as its TrainingProgress has it, or as the record in one of its Migrations where that is newer:
  the first is written a little late, the second before anything is ordered.
- A Migration whose record is whole and not over is a move in flight, and its replica stands where a move in
  that state has it, whatever else is written.
- A Migration that is not over and makes no sense is closed, and nothing is ordered because of it. Where its
  state is readable and comes before Evicting, nothing was ended: it is RolledBack, and the replica is as it
  is known. Else it is Failed, and the replica is to start wherever its owner's scheduler puts it: the backend
  tells of the pod that lives before such an order is given, and starts nothing beside it. So there are never
  two.
- Of two moves in flight of one replica the one that came furthest is kept, of equals the one that began last;
  the other is closed in the same way.

What is known of jobs, and of changes of them as a whole, comes from the TrainingJobs: see `job_restore`.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Final

import msgspec
from msgspec import Struct

from specon_manager.backends.kube.records.job_record import Recorded
from specon_manager.backends.kube.records.job_restore import (
    UNSEEN,
    JobsRestored,
    job_of,
    jobs_restored,
    member_of,
    names_of,
    with_change,
)
from specon_manager.backends.kube.records.lenient import Problem
from specon_manager.backends.kube.records.migration_record import Migrated
from specon_manager.backends.kube.records.names import Name
from specon_manager.backends.kube.records.progress_record import Progressed
from specon_manager.backends.kube.records.records import with_record
from specon_manager.backends.kube.transport.resources import MIGRATIONS
from specon_manager.core.gang import regrouped
from specon_manager.core.state import HISTORY, Measured, State
from specon_manager.model.changes import Change
from specon_manager.model.cluster import Job, JobSpec, Node, Phase, Replica, index_of, role_of
from specon_manager.model.moves import FINAL_STATES, Move, MoveState
from specon_manager.model.resources import NOTHING
from specon_manager.model.settings import Settings

_BEFORE_EVICTION: Final = (MoveState.PROPOSED, MoveState.RESERVED, MoveState.CHECKPOINTING)
_COURSE: Final = tuple(MoveState)


class Closing(Struct, frozen=True, kw_only=True):
    """A Migration that is to be closed because it cannot go on."""

    name: Name
    state: MoveState
    message: str


class Restored(Struct, frozen=True, kw_only=True):
    """A state, and what was found wrong on the way."""

    state: State
    open: Mapping[str, Migrated]
    """The Migrations of the moves in flight, by replica."""
    closings: tuple[Closing, ...]
    jobs: JobsRestored
    """What the TrainingJobs told, with the changes that were closed."""
    problems: tuple[Problem, ...]
    last_at: float
    """The latest time that was written down, seconds since the epoch: the clock must not begin before it."""


def restore(
    progresses: Iterable[Progressed],
    migrations: Iterable[Migrated],
    settings: Settings,
    now: float,
    *,
    recorded: Iterable[Recorded] = (),
) -> Restored:
    """Return the state that the custom resources tell of."""
    found = sorted(migrations, key=lambda each: (each.created_at, str(each.name)))
    known = {each.replica.name: each for each in progresses}
    replicas = {name: _sound(each.replica, now) for name, each in known.items()}
    written = {name: each.updated_at for name, each in known.items()}
    for each in sorted(found, key=_updated_at):
        # A record that is newer than the TrainingProgress, which is written in the background.
        if each.replica is None or each.status.record is None:
            continue
        if _updated_at(each) > written.get(each.replica, 0.0):
            known_one = replicas.get(each.replica, _unknown(each.replica))
            replicas[each.replica] = _sound(with_record(known_one, each.status.record), now)
            written[each.replica] = _updated_at(each)
    kept, closings, problems = _in_flight(found)
    moves = {name: each.move for name, each in kept.items() if each.move is not None}
    lost = {closed.name for closed in closings if closed.state is MoveState.FAILED}
    for each in found:
        if each.name in lost and each.replica is not None and each.replica not in moves:
            replicas[each.replica] = _to_start(replicas.get(each.replica, _unknown(each.replica)))
    for name, move in moves.items():
        replicas[name] = _moving(replicas.get(name, _unknown(name)), move)
    told = jobs_restored(recorded, moves.keys(), now)
    held_apart = {*moves, *(each.replica for each in found if each.name in lost and each.replica)}
    jobs, replicas = _recorded_jobs(told, replicas, written, moved=held_apart, settings=settings, now=now)
    state = State(
        settings=settings,
        nodes=_nodes_of(told.changes.values()),
        changes=told.changes,
        change_history=told.history,
        change_count=told.change_count,
    )
    state = _with_jobs(state, jobs, replicas, known, now)
    ended = [each for each in found if each.move is not None and not each.move.in_flight]
    ended.sort(key=lambda each: (_ended_at(each), str(each.name)))
    state = msgspec.structs.replace(
        state,
        moves=moves,
        history=_history(ended, moves),
        measured=_measured(ended),
        move_count=max((_number(each) for each in found), default=0),
    )
    at = (each.updated_at for each in told.by_job.values())
    return Restored(
        state=state,
        open=kept,
        closings=closings,
        jobs=told,
        problems=(*problems, *told.problems),
        last_at=max((*written.values(), *map(_updated_at, found), *at), default=0.0),
    )


def _updated_at(each: Migrated) -> float:
    at = each.status.updated_at
    return 0.0 if at is None else at.timestamp()


def _ended_at(each: Migrated) -> float:
    at = None if each.move is None else each.move.ended_at
    return _updated_at(each) if at is None else at


def _number(each: Migrated) -> int:
    """Return the number of a move that the manager made, 0 for others."""
    called = each.move.id if each.move is not None else (each.status.id or "")
    if not each.ours:
        return 0
    number = (called or each.name.name).rpartition("-")[2]
    return int(number) if number.isascii() and number.isdigit() and len(number) < 16 else 0  # noqa: PLR2004


def _unknown(name: str) -> Replica:
    return Replica(
        name=name,
        job="/".join(name.split("/")[:2]),
        role=role_of(name),
        index=index_of(name),
        phase=Phase.AWAITED,
    )


def _sound(replica: Replica, now: float) -> Replica:
    """Return the replica without what contradicts itself: what of it is true is for the pods to say."""
    if replica.phase is Phase.RUNNING and replica.incarnation is not None and replica.node is not None:
        return msgspec.structs.replace(replica, ended_at=None, deadline=None)
    if replica.phase is Phase.STARTING:
        return _to_start(replica)
    if replica.ended:
        ended_at = now if replica.ended_at is None else replica.ended_at
        return msgspec.structs.replace(replica, incarnation=None, ended_at=ended_at, deadline=None)
    return msgspec.structs.replace(
        replica, phase=Phase.AWAITED, incarnation=None, ended_at=None, deadline=None
    )


def _to_start(replica: Replica) -> Replica:
    """Return the replica as one that is to start wherever its scheduler puts it."""
    return msgspec.structs.replace(
        replica, phase=Phase.STARTING, node=None, incarnation=None, ended_at=None, deadline=0.0
    )


def _moving(replica: Replica, move: Move) -> Replica:
    """Return the replica as it is while its move is in that state."""
    runs = {
        **dict.fromkeys(_BEFORE_EVICTION, move.source),
        # The second time it is evicted where the first attempt started it.
        MoveState.EVICTING: move.source if move.attempt == 1 else move.target,
        MoveState.VERIFYING: move.destination,
    }
    node = runs.get(move.state)
    if replica.phase is Phase.RUNNING and replica.incarnation == move.incarnation and node is not None:
        node = replica.node  # where its scheduler put it
    if node is not None and move.incarnation is not None:
        return msgspec.structs.replace(
            replica,
            phase=Phase.RUNNING,
            node=node,
            incarnation=move.incarnation,
            former=None if replica.former == move.incarnation else replica.former,
            ended_at=None,
            deadline=None,
        )
    return msgspec.structs.replace(
        replica,
        phase=Phase.STARTING,
        node=move.destination if node is None else node,
        incarnation=None,
        starts=max(1, replica.starts),
        ended_at=None,
        deadline=None,
    )


def _in_flight(
    found: list[Migrated],
) -> tuple[dict[str, Migrated], tuple[Closing, ...], tuple[Problem, ...]]:
    """Return the moves in flight by replica, and what is closed instead."""
    kept: dict[str, Migrated] = {}
    closed: list[tuple[Migrated, str]] = []
    for each in found:
        status = each.status
        if status.state in FINAL_STATES:
            continue
        if each.move is None:
            if not each.ours and status.state is None and status.manager is None:
                continue  # asked for, and not looked at yet
            closed.append((each, _why_unreadable(each)))
            continue
        if (objection := _objection(each.move)) is not None:
            closed.append((each, objection))
            continue
        if each.move.id in {other.move.id for other in kept.values() if other.move is not None}:
            closed.append((each, f"another Migration records {each.move.id}"))
            continue
        other = kept.get(each.move.replica)
        if other is None:
            kept[each.move.replica] = each
            continue
        less, more = sorted((each, other), key=_progressed)
        kept[each.move.replica] = more
        closed.append((less, f"{more.name} moves the same replica"))
    closings = tuple(
        Closing(name=each.name, state=_closed_as(each), message=f"closed after a restart: {why}")
        for each, why in closed
    )
    problems = tuple(
        Problem(
            kind=MIGRATIONS.kind,
            namespace=each.name.namespace,
            name=each.name.name,
            field="status",
            text=f"{why}; it is closed as {_closed_as(each)}",
        )
        for each, why in closed
    )
    return kept, closings, problems


def _progressed(each: Migrated) -> tuple[int, float, str]:
    assert each.move is not None
    return _COURSE.index(each.move.state), each.move.proposed_at, str(each.name)


def _closed_as(each: Migrated) -> MoveState:
    begun = each.status.state
    # Ours without a status was never begun: the status is written before anything is ordered.
    untouched = begun in _BEFORE_EVICTION or (begun is None and each.ours and each.status.manager is None)
    return MoveState.ROLLED_BACK if untouched else MoveState.FAILED


def _why_unreadable(each: Migrated) -> str:
    if each.status.state is None and each.status.manager is None:
        return "it was not begun"
    missing = [
        field
        for field, value in (
            ("replica", each.replica),
            ("state", each.status.state),
            ("source", each.status.source),
            ("target", each.status.target),
        )
        if value is None
    ]
    return f"its status has no usable {' and no '.join(missing)}"


def _objection(move: Move) -> str | None:
    """Return what a move in that state cannot be without, None where it is whole."""
    if not move.source:
        return "its status has no source"
    if not move.target:
        return "its status has no target"
    needs_one = move.state in {*_BEFORE_EVICTION, MoveState.VERIFYING}
    if needs_one and move.incarnation is None:
        return f"its status has no incarnation, which a move that is {move.state} has"
    if move.state is MoveState.EVICTING and move.attempt == 1 and move.incarnation is None:
        return "its status has no incarnation to evict"
    if move.checkpoint is not None and not move.checkpoint.verified:
        return "its checkpoint has no digest"
    return None


def _nodes_of(changes: Iterable[Change]) -> dict[str, Node]:
    """Return the nodes of changes in flight, which are to be told anew: none is taken for lost before."""
    named = {node for each in changes for node in (*each.before.values(), *each.after.values()) if node}
    return {name: Node(name=name, capacity=NOTHING) for name in sorted(named)}


def _recorded_jobs(
    told: JobsRestored,
    replicas: Mapping[str, Replica],
    written: Mapping[str, float],
    *,
    moved: Collection[str],
    settings: Settings,
    now: float,
) -> tuple[dict[str, Job], dict[str, Replica]]:
    """Return the jobs that have a TrainingJob, and all replicas, theirs as it has them.

    `moved` are replicas of which a Migration says where they stand.
    """
    found, jobs = dict(replicas), dict[str, Job]()
    of_job: dict[str, list[str]] = {}
    for name, replica in replicas.items():
        of_job.setdefault(replica.job, []).append(name)
    for job, recorded in told.by_job.items():
        names = sorted({*names_of(recorded), *of_job.get(job, ())}, key=_by_role)
        jobs[job] = job_of(recorded, tuple(names), told, settings=settings, now=now)
        for name in names:
            if name not in moved:
                known = replicas.get(name)
                found[name] = member_of(
                    jobs[job], known, name, written=written.get(name, 0.0), recorded=recorded
                )
        change = told.changes.get(job)
        if change is not None and recorded.text is not None and recorded.text.change is not None:
            found |= with_change(found, change, recorded.text.change, now)
    return jobs, found


def _by_role(name: str) -> tuple[str, int, str]:
    return role_of(name), index_of(name), name


def _with_jobs(
    state: State,
    recorded: Mapping[str, Job],
    replicas: Mapping[str, Replica],
    known: Mapping[str, Progressed],
    now: float,
) -> State:
    """Return the state with these replicas and their jobs, in the order in which they were submitted.

    Their descriptions come from their owners; until then no replica of theirs is moved, but for the moves
    that are in flight. `recorded` are the jobs of which more is known than their replicas.
    """
    members: dict[str, list[str]] = {}
    for name in sorted(replicas, key=_by_role):
        members.setdefault(replicas[name].job, []).append(name)
    found = dict(recorded)
    for job, names in members.items():
        if job not in found:
            began = min((known[name].created_at for name in names if name in known), default=now)
            spec = JobSpec(
                name=job, replicas=tuple(names), placed_by="owner", migratable=False, immovable=UNSEEN
            )
            found[job] = Job(spec=spec, order=0, submitted_at=began, queued_at=began)
    ordered = sorted(found.values(), key=lambda job: (job.submitted_at, job.order, job.name))
    jobs = {job.name: msgspec.structs.replace(job, order=order) for order, job in enumerate(ordered)}
    state = msgspec.structs.replace(state, jobs=jobs, replicas=dict(replicas), job_count=len(jobs))
    for name in jobs:
        state = regrouped(state, name, now)
    return state.flattened()


def _history(ended: list[Migrated], moves: Mapping[str, Move]) -> tuple[Move, ...]:
    """Return the moves that ended, each id once: a copy of a Migration is no other move."""
    known = {move.id for move in moves.values()}
    history = []
    for each in ended:
        if each.move is not None and each.move.id not in known:
            known.add(each.move.id)
            history.append(each.move)
    return tuple(history[-HISTORY:])


def _measured(ended: list[Migrated]) -> Measured:
    """Return the means that were written with the move that ended last."""
    for each in reversed(ended):
        averages = each.status.averages
        if averages is not None:
            return Measured(
                moves=averages.moves,
                downtime=averages.downtime_seconds,
                steps_lost=averages.steps_lost,
            )
    return Measured()
