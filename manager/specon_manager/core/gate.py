"""The do-no-harm gate: a move must gain more than it costs.

A node shares its cores evenly, so a replica's share is min(1, cores / replicas). A move changes the shares of
the mover, of those it leaves and of those it joins; each change counts by how much the job still grows
(the weights of the settings), over the time that the mover still runs.
"""

from specon_manager.core.state import Measured
from specon_manager.model.actions import Migrate, Objection, Refusal
from specon_manager.model.census import Census
from specon_manager.model.cluster import Replica
from specon_manager.model.settings import Gate
from specon_manager.model.snapshot import Snapshot
from specon_sidecar.classify import Category


def objection(proposal: Migrate, snapshot: Snapshot, gate: Gate, measured: Measured) -> Objection | None:
    """Return why the move does harm, or None when it may be ordered."""
    replica = snapshot.replicas[proposal.replica]
    no_move = objection_to_nodes(replica, proposal.target, snapshot)
    if no_move is not None or not gate.enabled:
        return no_move
    assert replica.node is not None
    source, target = snapshot.nodes[replica.node], snapshot.nodes[proposal.target]
    stay, join = snapshot.census(source.name), snapshot.census(target.name)
    held, joined = stay.replicas, join.replicas + 1
    cores, target_cores = source.capacity.cpu, target.capacity.cpu
    if joined / max(target_cores, 1e-9) >= held / max(cores, 1e-9):
        # As loaded as the source was is a swap: it slows as many as it helps, and costs a downtime besides.
        text = f"{target.name} would hold {joined} replicas, {source.name} holds {held}"
        return Objection(Refusal.WORSE_LOADED, text)
    own = _weight(replica, gate)
    before, after = _share(held, cores), _share(joined, target_cores)
    rate = own * (after - before)
    rate += (_weights(stay, gate) - own) * (_share(held - 1, cores) - before)
    rate += _weights(join, gate) * (after - _share(joined - 1, target_cores))
    remaining = replica.progress.remaining_seconds
    horizon = gate.horizon if remaining is None else min(gate.horizon, remaining.value)
    gain = rate * horizon
    cost = own * before * _cost(replica, gate, measured)
    if gain <= gate.margin * cost:
        text = f"predicted gain {gain:.1f} does not exceed the cost {cost:.1f} (weighted core-seconds)"
        return Objection(Refusal.NO_GAIN, text)
    return None


def objection_to_nodes(replica: Replica, target: str, snapshot: Snapshot) -> Objection | None:
    """Return why going from its node to `target` would be no move."""
    if replica.node is None or replica.node not in snapshot.nodes:
        return Objection(Refusal.NODE_NOT_READY, f"its node {replica.node} is not known")
    if replica.node == target:
        return Objection(Refusal.SAME_NODE, f"it is on {target} already")
    return None


def _cost(replica: Replica, gate: Gate, measured: Measured) -> float:
    """Return the seconds of training that a move costs, as measured so far."""
    if not measured.moves:
        return gate.expected_downtime
    progress = replica.progress
    seconds_per_step = 0.0
    if progress.remaining_seconds is not None and progress.total_steps and progress.step is not None:
        left = progress.total_steps - progress.step
        seconds_per_step = progress.remaining_seconds.value / left if left > 0 else 0.0
    return measured.downtime + measured.steps_lost * seconds_per_step


def _share(replicas: int, cores: float) -> float:
    return cores / replicas if replicas > cores else 1.0


def _weight(replica: Replica, gate: Gate) -> float:
    match replica.progress.category:
        case Category.CONVERGED:
            return gate.converged_weight
        case Category.WATCHING:
            return gate.watching_weight
    return gate.progressing_weight


def _weights(census: Census, gate: Gate) -> float:
    """Return the weights of all replicas of a node together."""
    others = census.replicas - census.converged - census.watching
    return (
        census.converged * gate.converged_weight
        + census.watching * gate.watching_weight
        + others * gate.progressing_weight
    )
