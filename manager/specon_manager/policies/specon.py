"""SpeCon: move converged jobs to the node with the lowest score, rebalance when jobs end.

Mao et al., arXiv 2010.11307, Algorithms 2 and 3; Algorithm 1 runs in the sidecar. The repairs are explained
in `docs/results/specon.md`; `literal` switches them off.
"""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from math import ceil, sqrt
from operator import attrgetter, itemgetter
from typing import Annotated, Final

from msgspec import Meta, Struct

from specon_manager.model.actions import Migrate, Proposal, Stay, Words
from specon_manager.model.census import NOBODY, Census
from specon_manager.model.cluster import Replica
from specon_manager.model.snapshot import Snapshot
from specon_manager.model.survey import Settled
from specon_manager.policies.levels import Levels
from specon_manager.policies.placement import admit_round_robin
from specon_sidecar.counts import format_count

MIGRATE: Final = "migrate"
REBALANCE: Final = "rebalance"
_USED: Final = attrgetter("usage.cpu")
_AT_ONCE: Final = 1_000
"""So many settled replicas are looked at in one Tick."""
_GOLDEN: Final = (sqrt(5) - 1) / 2


class SpeConSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Parameters of Algorithms 2 and 3."""

    progressing_weight: Annotated[float, Meta(gt=0, le=1e6)] = 2.0
    """w_pc; jobs whose category is not known, or is none of the three, count the same."""
    watching_weight: Annotated[float, Meta(gt=0, le=1e6)] = 1.5
    """w_wc."""
    converged_weight: Annotated[float, Meta(gt=0, le=1e6)] = 1.0
    """w_cc."""
    min_growing: Annotated[int, Meta(ge=0)] = 1
    """A converged job asks to move only when so many growing ones share its node (the paper needs 2)."""
    rebalance: bool = True
    """Whether Algorithm 3 runs."""
    literal: bool = False
    """Algorithms 2 and 3 as printed."""


def score(census: Census, settings: SpeConSettings) -> float:
    """Return S_w = 2 |PC| + 1.5 |WC| + 1 |CC| of what a node holds (Algorithm 2, line 3)."""
    others = census.replicas - census.converged - census.watching
    return (
        settings.progressing_weight * others
        + settings.watching_weight * census.watching
        + settings.converged_weight * census.converged
    )


class _Scored(Words, frozen=True, gc=False):
    """The reason for a move of Algorithm 2."""

    replica: Replica
    lowest: float
    target: str
    held: float
    source: str

    def __str__(self) -> str:
        scores = f"score {self.lowest:g} on {self.target}, {self.held:g} on {self.source}"
        return f"{_verdict(self.replica)}; {scores}"


class _Balanced(Words, frozen=True, gc=False):
    """The reason for a move of Algorithm 3."""

    replica: Replica
    target: str
    there: int
    source: str
    here: int
    factor: int

    def __str__(self) -> str:
        return (
            f"{_verdict(self.replica)} last of those on {self.source}; {self.target} has {self.there} "
            f"and {self.source} {format_count(self.here, 'replica')}, balance factor {self.factor}"
        )


def propose(snapshot: Snapshot, settings: SpeConSettings) -> Iterator[Proposal]:
    """Admit what waits, then move what converged, then rebalance."""
    yield from admit_round_robin(snapshot)
    if len(snapshot.ready_nodes) < 2:  # noqa: PLR2004  (there is nowhere else to go)
        return
    migrations = list(_migrations(snapshot, settings))
    yield from migrations
    if settings.rebalance:
        taken = {proposal.replica for proposal in migrations if isinstance(proposal, Migrate)}
        yield from (_rebalance_as_printed if settings.literal else _rebalance)(snapshot, taken)


def _migrations(snapshot: Snapshot, settings: SpeConSettings) -> Iterator[Migrate | Stay]:
    """Algorithm 2, for each request of Algorithm 1, line 16, the longest converged first."""
    literal, weight = settings.literal, settings.converged_weight
    # Among equal scores the least used node wins, by R(w, t), then node-2 before node-10: they are in order.
    names = [node.name for node in sorted(snapshot.ready_nodes, key=_USED)]
    counts, replicas = snapshot.counts, snapshot.replicas
    levels = Levels(score(counts.get(name, NOBODY), settings) for name in names)
    positions = dict(zip(names, range(len(names)), strict=True))
    enough = 2 if literal else settings.min_growing
    scores, particular = levels.values, snapshot.particular
    tainted = {node.name for node in snapshot.ready_nodes if node.taints}
    lowest = levels.lowest
    # Otherwise the target would be scored worse than the source is now: nobody gains by that.
    least = lowest if literal else lowest + weight
    # The longest converged first; of equals, those submitted first. Most of many may not go: of these nothing
    # is looked at but where they are.
    for _, _, name, source in snapshot.settled_places if literal else _in_turn(snapshot):
        here = positions.get(source)
        # Algorithm 1, line 15: enough growing replicas to make room for.
        if here is None or (census := counts.get(source, NOBODY)).replicas - census.converged < enough:
            continue
        held = scores[here]
        if held < least:
            continue
        replica = replicas[name]
        # Algorithm 1, lines 6 and 13: as printed only those whose gain falls once more ask for a move.
        if MIGRATE in replica.moved_for or (literal and not replica.progress.falls_on):
            continue
        if held == lowest:
            # Printed: the job is marked migrated for good. The authors' own logs show such jobs moving later.
            why = f"{source} has the lowest score, {lowest:g}"
            yield Stay(replica=name, purpose=MIGRATE, reason=why)
            continue
        to = levels.first
        ruled = not literal and (names[to] in tainted or replica.job in particular)
        if ruled and snapshot.objection_to(names[to], replica.job) is not None:
            second = _eligible(replica, names, scores, snapshot)
            if second is None or scores[second] + weight > held:
                continue
            to = second
        target, there = names[to], scores[to]
        reason = _Scored(replica, there, target, held, source)
        yield Migrate(replica=name, target=target, purpose=MIGRATE, reason=reason)
        levels.change(here, held - weight)
        levels.change(to, there + weight)
        levels.settle()
        if levels.lowest != lowest:
            lowest = levels.lowest
            least = lowest if literal else lowest + weight


def _in_turn(snapshot: Snapshot) -> Sequence[Settled]:
    """Return those of the settled replicas that this Tick looks at: all of them, except on a large cluster.

    There the plan refuses nearly all, since few moves may be in flight. So a Tick looks at one part of them,
    and at another one after `settings.tick` seconds. Steps of the golden ratio soon come by each
    part, whether Ticks are 5 s or a minute apart.
    """
    places = snapshot.settled_places
    parts = ceil(len(places) / _AT_ONCE)
    if parts <= 1:
        return places
    number = int(snapshot.now // snapshot.settings.tick)
    at = int(number * _GOLDEN % 1.0 * parts) * _AT_ONCE
    return places[at : at + _AT_ONCE]


def _eligible(
    replica: Replica, names: Sequence[str], scores: Sequence[float], snapshot: Snapshot
) -> int | None:
    """Return which node with the lowest score the replica may run on, of equals the first of `names`."""
    others = (position for position, name in enumerate(names) if name != replica.node)
    fit = (position for position in others if snapshot.objection_to(names[position], replica.job) is None)
    return min(fit, key=scores.__getitem__, default=None)


def _rebalance(snapshot: Snapshot, taken: set[str]) -> Iterator[Migrate]:
    """Algorithm 3: fill idle nodes to the balance factor, else lift nodes that are below it by two."""
    held, factor, idle, takers = _short(snapshot)
    if not takers:
        return
    short = frozenset(takers)
    goal, floor = (factor, factor) if idle else (factor - 1, None)
    candidates = _latest_converged(snapshot, taken)
    again = deque[Replica]()
    for node in takers:
        passed: list[Replica] = []
        barred: list[Replica] = []
        while held[node] < goal:
            replica = again.popleft() if again else next(candidates, None)
            if replica is None:
                break
            source = replica.node
            if source is None or source in short or not _gives(source, node, held, floor):
                passed.append(replica)
                continue
            if snapshot.objection_to(node, replica.job) is not None:
                passed.append(replica)
                barred.append(replica)
                continue
            yield _balance(replica, node, held, source, factor)
            held[source] -= 1
            held[node] += 1
        # Another node may take what this one may not. An idle one may not either, unless a taint or a label
        # was the reason: sources only shrink.
        again.extendleft(reversed(barred if idle else passed))


def _rebalance_as_printed(snapshot: Snapshot, taken: set[str]) -> Iterator[Migrate]:
    """Algorithm 3, lines 10 to 31: one job for each idle node and call, wherever it runs.

    Where no node is idle, one job of each node that is not short, for the first that is. Lines 21 and 27
    test the size of the source, which none passes; it is read as the taker's, as the prose has it.
    """
    held, factor, idle, takers = _short(snapshot)
    candidates = _latest_converged(snapshot, taken)
    if idle:
        for node, replica in zip(idle if factor else (), candidates, strict=False):
            if replica.node in held:
                yield _balance(replica, node, held, replica.node, factor)
        return
    first: dict[str, Replica] = {}
    for replica in candidates:
        if replica.node is not None and replica.node in held and replica.node not in takers:
            first.setdefault(replica.node, replica)
    for source in (node for node in held if node in first):
        taker = next((node for node in takers if held[node] < factor - 1), None)
        if taker is None:
            return
        yield _balance(first[source], taker, held, source, factor)
        held[source] -= 1
        held[taker] += 1


def _short(snapshot: Snapshot) -> tuple[dict[str, int], int, list[str], list[str]]:
    """Return what each node holds, the balance factor, the idle nodes, and the nodes that are to get more."""
    nodes = snapshot.ready_nodes
    counts = snapshot.counts
    held = {name: counts.get(name, NOBODY).replicas for name in snapshot.capacities}
    factor = sum(held.values()) // len(nodes)
    idle = [node.name for node in nodes if not held[node.name]]
    return held, factor, idle, idle or [node.name for node in nodes if held[node.name] < factor - 1]


def _latest_converged(snapshot: Snapshot, taken: set[str]) -> Iterator[Replica]:
    """Yield the candidates, the smallest converged duration d_c first: it is expected to run longest."""
    replicas = snapshot.replicas
    for _, equal in groupby(reversed(snapshot.settled_places), itemgetter(0)):
        for name in sorted(name for _, _, name, _ in equal):
            replica = replicas[name]
            if name not in taken and REBALANCE not in replica.moved_for:
                yield replica


def _balance(replica: Replica, node: str, held: Mapping[str, int], source: str, factor: int) -> Migrate:
    return Migrate(
        replica=replica.name,
        target=node,
        purpose=REBALANCE,
        reason=_Balanced(replica, node, held[node], source, held[source], factor),
    )


def _gives(source: str, node: str, held: Mapping[str, int], floor: int | None) -> bool:
    """Whether taking a replica from `source` leaves it no worse off than the taker.

    It must hold more than `floor`, or, for None, at least two more than the taker. The printed argmin runs
    over all replicas, the taker's own included, and may strip a node bare.
    """
    if source == node or source not in held:
        return False
    return held[source] > (held[node] + 1 if floor is None else floor)


def _verdict(replica: Replica) -> str:
    progress = replica.progress
    step = "" if progress.step is None else f" at step {progress.step}"
    gain = "" if progress.gain is None else f" (gain {100 * progress.gain:.2g} %)"
    return f"converged{step}{gain}"
