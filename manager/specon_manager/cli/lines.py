"""What happened between two states, one plain line each: for logs, pipes and terminals that are none.

Pure. Only ASCII is added to the names and reasons that others gave.
"""

from collections.abc import Iterator

from specon_manager.cli import job_label, printable, replica_label
from specon_manager.cli.job_changes import workers_in
from specon_manager.core.state import State
from specon_manager.model.actions import Decision
from specon_manager.model.changes import ChangeState
from specon_manager.model.cluster import Job, Phase, Replica
from specon_manager.model.moves import Move

Change = tuple[float, str]
"""When it happened, on the clock of the manager, and its words."""


def changes(before: State, after: State, *, began: float, now: float, verbose: bool = False) -> list[str]:
    """Return one line per change, oldest first, each beginning with the seconds since `began`.

    `began` and `now` are on the clock of the manager; a change whose moment the state does not keep has the
    time `now`. Refused proposals are told only when `verbose`.
    """
    found = [
        *_nodes(before, after, now),
        *_submitted(before, after),
        *_decided(before, after, verbose=verbose),
        *_replicas(before, after, now),
        *_moves(before, after, now),
        *_moves_ended(before, after, now),
        *_changes(before, after, now),
        *_jobs_ended(before, after),
    ]
    found.sort(key=lambda change: change[0])  # stable: what happened at one moment stays in the order above
    return [f"[{at - began:7.1f}s] {printable(text)}" for at, text in found]


def _nodes(before: State, after: State, now: float) -> Iterator[Change]:
    for name, node in after.nodes.items():
        known = before.nodes.get(name)
        if known is None:
            yield (
                now,
                f"node {name}: {node.capacity.cpu:g} {'CPU' if node.capacity.cpu == 1 else 'CPUs'}"
                + ("" if node.ready else ", not ready"),
            )
        elif known.ready != node.ready:
            yield now, f"node {name}: {'ready again' if node.ready else 'not ready'}"


def _submitted(before: State, after: State) -> Iterator[Change]:
    if before.jobs is after.jobs:
        return
    for name, job in after.jobs.items():
        if name not in before.jobs:
            count = len(job.spec.replicas)
            yield job.submitted_at, f"{job_label(name)} submitted" + (f", {count} replicas" * (count != 1))


def _decided(before: State, after: State, *, verbose: bool) -> Iterator[Change]:
    for decision in _new_decisions(before, after):
        if decision.refusal is None or verbose:
            outcome = "accepted" if decision.refusal is None else f"refused ({decision.refusal})"
            label = replica_label(after, decision.replica)
            yield decision.at, f"{label}: {decision.proposal} {outcome}: {decision.reason}"


def _new_decisions(before: State, after: State) -> tuple[Decision, ...]:
    """Return what was decided since; the state keeps only the latest, so the last one known may be gone."""
    if before.decisions is after.decisions or not before.decisions:
        return () if before.decisions is after.decisions else after.decisions
    last = before.decisions[-1]
    for index in range(len(after.decisions) - 1, -1, -1):
        if after.decisions[index] == last:
            return after.decisions[index + 1 :]
    return after.decisions


def _replicas(before: State, after: State, now: float) -> Iterator[Change]:
    if before.replicas is after.replicas:
        return
    for name, replica in after.replicas.items():
        known = before.replicas.get(name) or Replica(name=name, job=replica.job)
        if known is replica:
            continue
        label = replica_label(after, name)
        job = after.jobs.get(replica.job)
        if replica.phase is Phase.RUNNING and replica.incarnation != known.incarnation:
            yield (
                now,
                f"{label} started on {replica.node}" + (f", start {replica.starts}" * (replica.starts > 1)),
            )
        if replica.progress.category is not known.progress.category:
            yield now, _category(label, known, replica)
        if replica.crashes > known.crashes:
            yield now, f"{label} crashed: {replica.note or 'nobody knows why'}" + _afterwards(replica, now)
        if replica.ended and not known.ended and (job is None or len(job.spec.replicas) > 1):
            at = now if replica.ended_at is None else replica.ended_at
            yield at, f"{label} {'finished' if replica.phase is Phase.SUCCEEDED else 'failed'}"


def _category(label: str, known: Replica, replica: Replica) -> str:
    progress = replica.progress
    step = "" if progress.step is None else f" at step {progress.step}"
    reason = f": {progress.reason}" if progress.reason else ""
    return f"{label} {known.progress.category} -> {progress.category}{step}{reason}"


def _afterwards(replica: Replica, now: float) -> str:
    if replica.ended or replica.deadline is None:
        return ""
    return f"; it may start again in {max(0.0, replica.deadline - now):.1f} s"


def _moves(before: State, after: State, now: float) -> Iterator[Change]:
    if before.moves is after.moves:
        return
    for move in after.moves.values():
        known = before.moves.get(move.replica)
        if known is None or known.id != move.id:
            yield now, f"{_path(after, move)} {move.state} ({move.purpose})"
        elif known.attempt != move.attempt:
            why = f": {move.note}" if move.note else ""
            yield now, f"{_path(after, move)} {move.state}, attempt {move.attempt} on {move.destination}{why}"
        elif known.state is not move.state:
            yield now, f"{_path(after, move)} {move.state}"


def _moves_ended(before: State, after: State, now: float) -> Iterator[Change]:
    if before.history is after.history:
        return
    known = {move.id for move in before.history}
    for move in after.history:
        if move.id in known:
            continue
        facts = [] if move.downtime is None else [f"downtime {move.downtime:.1f} s"]
        facts += [] if move.steps_lost is None else [f"{move.steps_lost} steps lost"]
        facts += [move.note] if move.note else []
        end = f": {', '.join(facts)}" if facts else ""
        yield now if move.ended_at is None else move.ended_at, f"{_path(after, move)} {move.state}{end}"


def _path(state: State, move: Move) -> str:
    return f"move {move.id}: {replica_label(state, move.replica)} {move.source} -> {move.target}"


def _changes(before: State, after: State, now: float) -> Iterator[Change]:
    if before.changes is after.changes and before.change_history is after.change_history:
        return
    known = {change.id: change for change in (*before.change_history, *before.changes.values())}
    for change in (*after.change_history, *after.changes.values()):
        last = known.get(change.id)
        if last is not None and (last.state, last.attempt) == (change.state, change.attempt):
            continue
        words = f"{job_label(change.job)} {change.id} {change.kind} {change.state}"
        if last is None:
            words += f", {workers_in(change.before)} -> {workers_in(change.after)} workers: {change.reason}"
        elif change.state is ChangeState.LEAVING and change.checkpoint is not None:
            words += f", checkpoint of step {change.checkpoint.step}"
        yield now, words + (f" ({change.note})" if change.note else "")


def _jobs_ended(before: State, after: State) -> Iterator[Change]:
    if before.jobs is after.jobs:
        return
    for name, job in after.jobs.items():
        known = before.jobs.get(name)
        if job.ended_at is not None and (known is None or known.ended_at is None):
            how = "failed" if _failed(after, job) else "finished"
            yield (
                job.ended_at,
                f"{job_label(name)} {how}, {job.ended_at - job.submitted_at:.1f} s after its submission",
            )


def _failed(state: State, job: Job) -> bool:
    replicas = (state.replicas.get(name) for name in job.spec.replicas)
    return any(replica is not None and replica.phase is Phase.FAILED for replica in replicas)
