"""The do-no-harm gate: a move must gain more than it costs.

A node shares its cores evenly, so a replica's share is min(1, cores / replicas). A move changes the shares of
the mover, of those it leaves and of those it joins. Each change is weighted by how much the job still grows
(the weights of the settings) and counts over the time that the mover still runs.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct

from specon_manager.core.state import Measured
from specon_manager.model.actions import DEFRAGMENT, FASTER, Migrate, MigrateGang, Objection, Refusal, Words
from specon_manager.model.census import Census
from specon_manager.model.cluster import Replica
from specon_manager.model.settings import Gate
from specon_manager.model.snapshot import Snapshot
from specon_sidecar.classify import Category
from specon_sidecar.counts import format_count

UNWEIGHED: Final = frozenset({DEFRAGMENT, FASTER})
"""Purposes of moves whose gain is no better share of a node."""


class _Loads(Words, frozen=True, gc=False):
    """The replicas of the nodes of a move that is refused for them; thousands are."""

    target: str
    after: int
    source: str
    before: int

    def __str__(self) -> str:
        return (
            f"{self.target} would hold {format_count(self.after, 'replica')}, {self.source}"
            f" holds {self.before}"
        )


class _Load(Struct, frozen=True, gc=False):
    """The replicas of a node before and after a move, and the weight of those that the move does not end."""

    cores: float
    before: int
    after: int
    others: float

    @property
    def change(self) -> float:
        """How much more of a core each replica on it gets."""
        return _share(self.after, self.cores) - _share(self.before, self.cores)


def objection(
    move: Migrate | MigrateGang, snapshot: Snapshot, gate: Gate, measured: Measured
) -> Objection | None:
    """Return why the move does harm, or None when it may be ordered.

    Replicas that train as one go at the pace of the slowest of them, and a move costs each of them its time.
    """
    if isinstance(move, Migrate) and gate.enabled and move.purpose not in UNWEIGHED:
        # What most of thousands of moves are refused for: their loads are not looked at further.
        replica = snapshot.replicas[move.replica]
        against = objection_to_nodes(replica, move.target, snapshot) or worse_loaded(
            replica, move.target, snapshot
        )
        if against is not None:
            return against
    members, moved = _movers(move, snapshot)
    if lost := [each for each in members if each.node not in snapshot.nodes]:
        return Objection(Refusal.NODE_NOT_READY, f"its node {lost[0].node} is not known")
    for replica, target in moved:
        if (no_move := objection_to_nodes(replica, target, snapshot)) is not None:
            return no_move
    if not gate.enabled or move.purpose in UNWEIGHED:
        return None
    return _object_harm(members, moved, snapshot, gate, measured)


def _object_harm(
    members: list[Replica],
    moved: list[tuple[Replica, str]],
    snapshot: Snapshot,
    gate: Gate,
    measured: Measured,
) -> Objection | None:
    """Return that a move, of replicas that it ends, with new nodes for some, gains no more than it costs."""
    if len(moved) == 1 and (worse := worse_loaded(*moved[0], snapshot)) is not None:
        return worse
    loads = _loads(members, moved, snapshot, gate)
    for replica, target in moved:
        source, joined = loads[replica.node or ""], loads[target]
        if _is_worse(joined.after, joined.cores, source.before, source.cores):
            return _swap(target, joined.after, replica, source.before)
    own = sum(_weight(member, gate) for member in members)
    before, after = _own_shares(members, moved, loads)
    rate = own * (after - before)
    for load in loads.values():
        rate += load.others * load.change
    gain = rate * _horizon(members[:1], gate)
    cost = own * before * _cost(members[0], gate, measured)
    if gain <= gate.margin * cost:
        text = f"predicted gain {gain:.1f} does not exceed the cost {cost:.1f} (weighted core-seconds)"
        return Objection(Refusal.NO_GAIN, text)
    return None


def share_gains(move: Migrate | MigrateGang, snapshot: Snapshot, gate: Gate) -> dict[str, float]:
    """Return how much more of a core each job that a move concerns is expected to get for each replica.

    This is what the gate weighs, without weights and costs; jobs without a change are left out.
    """
    members, moved = _movers(move, snapshot)
    if not members or any(each.node not in snapshot.nodes for each in members):
        return {}
    if any(target not in snapshot.nodes for _, target in moved):
        return {}
    loads = _loads(members, moved, snapshot, gate)
    found: dict[str, float] = {}
    for name, load in loads.items():
        for replica in snapshot.on_node[name]:
            if replica.job != members[0].job:
                found[replica.job] = found.get(replica.job, 0.0) + load.change
    before, after = _own_shares(members, moved, loads)
    found[members[0].job] = after - before
    return {job: change for job, change in found.items() if change}


def price(movers: Sequence[Replica], gate: Gate, measured: Measured) -> float:
    """Return what a move costs that ends these replicas together, weighted replica-seconds."""
    return sum(_weight(each, gate) for each in movers) * _cost(movers[0], gate, measured)


def gain_of_start(members: Sequence[Replica], gate: Gate) -> float:
    """Return what it is worth that these replicas of a waiting job train now, weighted replica-seconds."""
    return sum(_weight(each, gate) for each in members) * _horizon(members, gate)


def gain_of_setup(move: Migrate | MigrateGang, saved: float, snapshot: Snapshot, gate: Gate) -> float:
    """Return what it is worth that a job saves this part of its time, weighted replica-seconds.

    Less what others lose that share processors with it then; where it gets less of these itself than it has
    now, it saves so much less. That others gain does not count.
    """
    members, moved = _movers(move, snapshot)
    loads = _loads(members, moved, snapshot, gate)
    before, after = _own_shares(members, moved, loads)
    if after < before:
        saved = 1 - (1 - saved) * before / max(after, 1e-9)
    own = sum(_weight(member, gate) for member in members)
    lost = sum(load.others * max(0.0, -load.change) for load in loads.values())
    return (own * saved - lost) * _horizon(members, gate)


def objection_to_price(gain: float, cost: float, gate: Gate) -> Objection | None:
    """Return that moves cost too much for what they are to bring, both in weighted replica-seconds."""
    if not gate.enabled or gain > gate.margin * cost:
        return None
    text = f"predicted gain {gain:.1f} does not exceed the cost {cost:.1f} (weighted replica-seconds)"
    return Objection(Refusal.NO_GAIN, text)


def _movers(
    move: Migrate | MigrateGang, snapshot: Snapshot
) -> tuple[list[Replica], list[tuple[Replica, str]]]:
    """Return the replicas that the move ends, and those of them that change their node, with the new one."""
    if isinstance(move, Migrate):
        replica = snapshot.replicas[move.replica]
        return [replica], [(replica, move.target)]
    names = snapshot.jobs[move.job].spec.replicas
    members = [snapshot.replicas[name] for name in names if snapshot.replicas[name].active]
    ways = ((member, move.placement.get(member.name, member.node or "")) for member in members)
    return members, [(member, target) for member, target in ways if target != member.node]


def _loads(
    members: list[Replica], moved: list[tuple[Replica, str]], snapshot: Snapshot, gate: Gate
) -> dict[str, _Load]:
    """Return the load of each node that is concerned, those that are left first."""
    nodes = dict.fromkeys([member.node or "" for member in members] + [target for _, target in moved])
    found = {}
    for name in nodes:
        census = snapshot.census(name)
        here = [member for member in members if member.node == name]
        left = sum(replica.node == name for replica, _ in moved)
        joined = sum(target == name for _, target in moved)
        found[name] = _Load(
            snapshot.nodes[name].capacity.cpu,
            census.replicas,
            census.replicas - left + joined,
            _weights(census, gate) - sum(_weight(member, gate) for member in here),
        )
    return found


def _own_shares(
    members: list[Replica], moved: list[tuple[Replica, str]], loads: Mapping[str, _Load]
) -> tuple[float, float]:
    """Return the share of a core of the slowest of the movers, before and after."""
    to = {replica.name: target for replica, target in moved}
    ways = [(loads[each.node or ""], loads[to.get(each.name, each.node or "")]) for each in members]
    before = min(_share(source.before, source.cores) for source, _ in ways)
    return before, min(_share(joined.after, joined.cores) for _, joined in ways)


def _horizon(members: Sequence[Replica], gate: Gate) -> float:
    """Return how far ahead a gain counts, seconds: no further than the job is known to train."""
    known = (each.progress.remaining_seconds for each in members)
    remaining = next((each.value for each in known if each is not None), gate.horizon)
    return min(gate.horizon, remaining)


def worse_loaded(replica: Replica, target: str, snapshot: Snapshot) -> Objection | None:
    """Return that the only one that changes its node would find as much load where it goes."""
    source, nodes = replica.node or "", snapshot.nodes
    before, after = snapshot.census(source).replicas, snapshot.census(target).replicas + 1
    if _is_worse(after, nodes[target].capacity.cpu, before, nodes[source].capacity.cpu):
        return _swap(target, after, replica, before)
    return None


def _is_worse(after: int, cores: float, before: int, cores_before: float) -> bool:
    """Whether a node is as loaded as the source was: that slows as many as it helps, and costs a downtime."""
    return after / max(cores, 1e-9) >= before / max(cores_before, 1e-9)


def _swap(target: str, after: int, replica: Replica, before: int) -> Objection:
    return Objection(Refusal.WORSE_LOADED, _Loads(target, after, replica.node or "", before))


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
