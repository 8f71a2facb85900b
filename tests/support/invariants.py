"""What is true of the manager's state after every event, and of whatever it orders."""

from collections import Counter
from collections.abc import Collection, Sequence
from itertools import pairwise

import msgspec

from specon_manager.core.migration import TRANSITIONS
from specon_manager.core.state import State
from specon_manager.model.actions import Action, EvictReplica, SetWeight, StartReplica
from specon_manager.model.changes import ChangeState
from specon_manager.model.cluster import Job, Phase, Replica
from specon_manager.model.moves import FINAL_STATES, MoveState
from support import change_invariants


def check(
    before: State,
    after: State,
    actions: Sequence[Action],
    *,
    crowded: Collection[str],
    now: float,
    whole: bool,
) -> None:
    """Check one step; `crowded` are the nodes on which something runs that was ordered elsewhere.

    `whole`: whether the policy starts jobs that wait as a whole only.
    """
    for number, action in enumerate(actions):
        if isinstance(action, EvictReplica):
            _check_eviction(after, action)
        elif isinstance(action, StartReplica):
            _check_start(after, action, actions[number + 1 :])
        elif isinstance(action, SetWeight):
            assert action.incarnation == after.replicas[action.replica].incarnation
    weights = {action.replica: action.weight for action in actions if isinstance(action, SetWeight)}
    assert all(after.replicas[name].weight == weight for name, weight in weights.items())
    _check_told(before, after, actions, now)
    _check_moves(before, after)
    change_invariants.check(before, after, actions, now)
    _check_replicas(after)
    _check_jobs(before, after, now, whole=whole)
    _check_claims(after)
    _check_capacity(after, crowded)
    _check_budgets(after)
    flat = after.flattened()
    assert msgspec.json.decode(msgspec.json.encode(flat), type=State) == flat


def _check_eviction(state: State, action: EvictReplica) -> None:
    """Evict what is wanted only where it was told to end, or for a move with a verified checkpoint."""
    replica = state.replicas[action.replica]
    if replica.incarnation is None or action.incarnation not in {None, replica.incarnation}:
        return
    move = state.moves.get(action.replica)
    if move is None and replica.leaving is not None:
        return
    assert move is not None, f"{action} without a move"
    assert move.state is MoveState.EVICTING, f"{action} while {move.id} is {move.state}"
    spec = state.jobs[replica.job].spec
    if move.attempt == 1 and spec.checkpointing != "on-termination":
        assert move.checkpoint is not None, f"{move.id} evicts without a checkpoint"
        assert move.checkpoint.verified, f"{move.id} evicts without a verified checkpoint"


def _check_start(state: State, action: StartReplica, following: Sequence[Action]) -> None:
    """Start only what is awaited now, and nothing that was told to end before, but for a move."""
    if action.node is None and _is_let_go(state, action.replica):
        return
    replica = state.replicas[action.replica]
    if state.jobs[replica.job].owned:
        failed = any(m.replica == replica.name and m.state is MoveState.FAILED for m in state.history)
        assert replica.name in state.moves or (action.node is None and failed), f"{action} outside of a move"
    assert replica.phase is Phase.STARTING, f"{action} while {replica.phase}"
    assert (replica.node, replica.starts) == (action.node, action.start)
    told = any(isinstance(other, EvictReplica) and other.replica == replica.name for other in following)
    assert replica.leaving is None or told or replica.name in state.moves, f"{action}, which is to end"


def _is_let_go(state: State, name: str) -> bool:
    """Whether the replica is named by its job no more."""
    replica = state.replicas.get(name)
    return replica is None or name in state.jobs[replica.job].dropped


def _check_told(before: State, after: State, actions: Sequence[Action], now: float) -> None:
    """See that whatever is told to end gets the order, now or with the next Tick."""
    evicted = {action.replica for action in actions if isinstance(action, EvictReplica)}
    for replica in after.replicas.values():
        if replica.leaving is None:
            continue
        change = after.changes.get(replica.job)
        if change is not None and (
            after.jobs[replica.job].owned or change.state is ChangeState.CHECKPOINTING
        ):
            continue  # its owner is told, or nobody is before the checkpoint is verified
        known = before.replicas.get(replica.name)
        if known is None or known.leaving != replica.leaving:
            assert replica.leaving.deadline <= now or replica.name in evicted, f"{replica.name} is not told"


def _check_moves(before: State, after: State) -> None:
    """See that moves go along the table, do not vanish, and succeed only with the proof."""
    ended = {move.id: move for move in after.history}
    for replica, move in before.moves.items():
        now = after.moves.get(replica)
        now = now if now is not None and now.id == move.id else ended.get(move.id)
        assert now is not None, f"{move.id} vanished"
        if now.state is not move.state:
            allowed = {to for (origin, _), to in TRANSITIONS.items() if origin is move.state}
            allowed |= {MoveState.ROLLED_BACK, MoveState.FAILED} if move.attempt > 1 else set()
            owner = before.jobs[before.replicas[replica].job].owned
            if owner and move.state is MoveState.EVICTING:
                allowed.add(MoveState.VERIFYING)  # its owner has started the next one already
            if owner and move.target == move.source:
                allowed.add(MoveState.ROLLED_BACK)
            assert now.state in allowed, f"{move.id}: {move.state} -> {now.state}"
        if now.state is MoveState.SUCCEEDED:
            record = after.replicas[replica]
            assert now.checkpoint is not None
            proven = record.progress.step is not None and record.progress.step > now.checkpoint.step
            assert record.phase is Phase.SUCCEEDED or proven
    identities = [move.id for move in (*after.moves.values(), *after.history)]
    assert len(identities) == len(set(identities))
    assert all(move.replica == replica for replica, move in after.moves.items())
    assert not any(move.state in FINAL_STATES for move in after.moves.values())
    assert all(move.state in FINAL_STATES for move in after.history)


def _check_replicas(state: State) -> None:
    for replica in state.replicas.values():
        moving = replica.name in state.moves
        assert not (moving and not replica.active), f"{replica.name} moves while {replica.phase}"
        assert (replica.incarnation is not None) == (replica.phase is Phase.RUNNING), replica
        owned = state.jobs[replica.job].owned
        assert owned or not replica.active or replica.node in state.nodes
        assert replica.ended == (replica.ended_at is not None)
        assert replica.leaving is None or replica.active, f"{replica.name} leaves while {replica.phase}"
        assert replica.phase is not Phase.ABSENT or replica.role != "ps", f"{replica.name} is absent"
        if owned:
            _check_owned(state, replica)
        else:
            assert replica.phase is not Phase.AWAITED
    for job in state.jobs.values():
        present = _present(state, job)
        assert present or job.owned, f"nothing of {job.name} is left"
        over = bool(present) and all(replica.ended for replica in present)
        assert over == (job.ended_at is not None)


def _check_owned(state: State, replica: Replica) -> None:
    """See that what its owner places is neither scaled nor told to end but as it lets us, nor left over."""
    job = state.jobs[replica.job]
    assert (replica.name in job.spec.replicas) != (replica.name in job.dropped), replica.name
    if job.spec.adjustable:
        assert replica.phase is not Phase.FAILED
        assert replica.leaving is None or job.name in state.changes, f"{replica.name} leaves for nothing"
        return
    assert replica.phase is not Phase.PENDING
    assert replica.phase is not Phase.ABSENT or job.spec.present is not None
    assert replica.leaving is None
    assert replica.phase is not Phase.FAILED, "its owner counts crashes, not we"


def _check_jobs(before: State, after: State, now: float, *, whole: bool) -> None:
    """See that gangs train whole, wait whole, end whole, and that what they trained is counted once."""
    for job in after.jobs.values():
        present = _present(after, job)
        active = [replica for replica in present if replica.active]
        trains = bool(active) and change_invariants.trains(after, job, present)
        assert (job.trains_since is not None) == trains, f"{job.name} trains: {trains}"
        workers = [replica for replica in present if replica.role != "ps"]
        if trains and not job.owned:
            assert len(workers) >= job.spec.fewest_workers, f"{job.name} trains with {len(workers)} workers"
        if job.owned:
            continue
        if job.ended_at is None and not active:
            wanted = {*job.spec.ps, *job.spec.worker_names[: job.spec.wanted_workers]}
            waits = {replica.name for replica in present if not replica.ended}
            ended = {replica.name for replica in present if replica.ended}
            assert waits == wanted - ended, f"{job.name} waits with {sorted(waits)}"
        if any(r.phase is Phase.FAILED for r in present) or (
            workers and all(r.phase is Phase.SUCCEEDED for r in workers)
        ):
            assert all(r.ended or r.leaving is not None for r in present), f"{job.name} lives on in part"
        known = before.jobs.get(job.name)
        if known is not None:
            assert job.preemptions - known.preemptions in {0, 1}
            assert job.attained(now) >= known.attained(now) - 1e-6, f"{job.name} has trained less than before"
        if whole and active and known is not None:
            waited = not any(before.replicas[name].active for name in job.spec.replicas)
            parts = [replica.name for replica in present if replica.phase is Phase.PENDING]
            assert not (waited and parts), f"{job.name} was started without {parts}"
    over = {name for name, job in after.jobs.items() if job.ended_at is not None and not job.owned}
    assert set(after.ended_jobs) == over
    assert len(after.ended_jobs) == len(over)
    ends = [after.jobs[name].ended_at or 0.0 for name in after.ended_jobs]
    assert all(first <= second for first, second in pairwise(ends))


def _present(state: State, job: Job) -> list[Replica]:
    members = [state.replicas[name] for name in job.spec.replicas]
    return [replica for replica in members if replica.phase is not Phase.ABSENT]


def _check_claims(state: State) -> None:
    """Room is claimed by jobs that wait, for their own replicas."""
    for name, claim in state.claims.items():
        job = state.jobs[name]
        assert job.ended_at is None, f"{name} has ended and has a claim"
        assert not any(state.replicas[replica].active for replica in job.spec.replicas)
        assert claim.placement
        assert {replica for replica, _ in claim.placement} <= set(job.spec.replicas)


def _check_capacity(state: State, crowded: Collection[str]) -> None:
    """Every replica fits where it is, where its move will bring it, and where it must go back to."""
    for node in state.nodes.values():
        if node.name in crowded:
            continue
        here = []
        for replica in state.replicas.values():
            places = {replica.node} if replica.active else set()
            move = state.moves.get(replica.name)
            if move is not None:
                places |= {move.destination, move.source}
            if node.name in places:
                here.append(replica)
        for what in ("cpu", "memory", "gpu"):
            total = sum(getattr(replica.requests, what) for replica in here)
            assert total <= getattr(node.capacity, what) + 1e-9, f"{node.name} holds {total} {what}"


def _check_budgets(state: State) -> None:
    budgets = state.settings.budgets
    assert len(state.moves) <= budgets.moves_at_once
    busy = Counter(node for move in state.moves.values() for node in {move.source, move.target})
    assert all(count <= budgets.moves_at_once_per_node for count in busy.values()), busy
    assert all(replica.moves <= budgets.moves_per_replica for replica in state.replicas.values())
    assert all(job.preemptions <= budgets.preemptions_per_job for job in state.jobs.values())
