"""SpeCon: move converged jobs to the node with the lowest score, rebalance when jobs end.

Mao et al., arXiv 2010.11307, Algorithms 2 and 3; Algorithm 1 runs in the sidecar. The repairs are explained
in `docs/algorithms/specon.md`; `literal` switches them off.
"""

import heapq
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Final

from msgspec import Meta, Struct

from specon_manager.model.actions import Migrate, Proposal, Stay
from specon_manager.model.cluster import Census, Node, Phase, Replica, Snapshot
from specon_manager.policies.placement import admit_round_robin
from specon_sidecar.classify import Category

MIGRATE: Final = "migrate"
REBALANCE: Final = "rebalance"


class SpeConSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Parameters of Algorithms 2 and 3."""

    progressing_weight: Annotated[float, Meta(gt=0)] = 2.0
    """w_pc; jobs whose category is not known, or is none of the three, count the same."""
    watching_weight: Annotated[float, Meta(gt=0)] = 1.5
    """w_wc."""
    converged_weight: Annotated[float, Meta(gt=0)] = 1.0
    """w_cc."""
    min_growing: Annotated[int, Meta(ge=0)] = 1
    """A converged job asks to move only when so many growing ones share its node (the paper needs 2)."""
    rebalance: bool = True
    """Whether Algorithm 3 runs."""
    literal: bool = False
    """Algorithms 2 and 3 as printed."""


def weight(category: Category, settings: SpeConSettings) -> float:
    """Return what a replica of this category adds to the score of its node."""
    if category is Category.CONVERGED:
        return settings.converged_weight
    return settings.watching_weight if category is Category.WATCHING else settings.progressing_weight


def score(replicas: Sequence[Replica], settings: SpeConSettings) -> float:
    """Return S_w = 2 |PC| + 1.5 |WC| + 1 |CC| (Algorithm 2, line 3)."""
    return sum(weight(replica.progress.category, settings) for replica in replicas)


def _score(census: Census, settings: SpeConSettings) -> float:
    """Return S_w of replicas that were counted already."""
    others = census.replicas - census.converged - census.watching
    return (
        settings.progressing_weight * others
        + settings.watching_weight * census.watching
        + settings.converged_weight * census.converged
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
        yield from _rebalance(snapshot, taken)


def _migrations(snapshot: Snapshot, settings: SpeConSettings) -> Iterator[Migrate | Stay]:
    """Algorithm 2, for each request of Algorithm 1, line 16, the longest converged first."""
    nodes = {node.name: node for node in snapshot.ready_nodes}
    scores = {name: _score(snapshot.census(name), settings) for name in nodes}
    ranking = [_rank(node, scores[node.name]) for node in nodes.values()]
    heapq.heapify(ranking)
    requests = [replica for replica in _movable(snapshot, MIGRATE) if _asks(replica, snapshot, settings)]
    requests.sort(key=lambda replica: (replica.progress.category_since, replica.name))
    for replica in requests:
        source = replica.node
        if source not in nodes:
            continue
        while ranking[0][0] != scores[ranking[0][-1]]:  # entries from before an earlier proposal
            heapq.heappop(ranking)
        lowest, *_, target = ranking[0]
        if scores[source] == lowest:
            # Printed: the job is marked migrated for good. The authors' own logs show such jobs moving later.
            if settings.literal:
                why = f"{source} has the lowest score, {lowest:g}"
                yield Stay(replica=replica.name, purpose=MIGRATE, reason=why)
            continue
        yield Migrate(
            replica=replica.name,
            target=target,
            purpose=MIGRATE,
            reason=f"{_verdict(replica)}; score {lowest:g} on {target}, {scores[source]:g} on {source}",
        )
        moved = weight(replica.progress.category, settings)
        for name, change in ((source, -moved), (target, moved)):
            scores[name] += change
            heapq.heappush(ranking, _rank(nodes[name], scores[name]))


def _rank(node: Node, score: float) -> tuple[float, float, int, str]:
    """Order nodes by score, then by measured usage R(w, t), then node-2 before node-10."""
    return (score, node.usage.cpu, len(node.name), node.name)


def _rebalance(snapshot: Snapshot, taken: set[str]) -> Iterator[Migrate]:
    """Algorithm 3: fill idle nodes to the balance factor, else lift nodes that are below it by two."""
    nodes = snapshot.ready_nodes
    held = {node.name: list(snapshot.on_node[node.name]) for node in nodes}
    factor = sum(len(replicas) for replicas in held.values()) // len(nodes)
    idle = [node for node in nodes if not held[node.name]]
    short = idle or [node for node in nodes if len(held[node.name]) < factor - 1]
    goal = factor if idle else factor - 1
    candidates = [replica for replica in _movable(snapshot, REBALANCE) if replica.name not in taken]
    # The smallest converged duration d_c: converged last, expected to run longest.
    candidates.sort(key=lambda replica: (-replica.progress.category_since, replica.name))
    for node in short:
        while len(held[node.name]) < goal:
            chosen = next((r for r in candidates if _gives(r, node, held, factor, idle=bool(idle))), None)
            if chosen is None or chosen.node is None:
                break
            candidates.remove(chosen)
            before, after = len(held[chosen.node]), len(held[node.name])
            held[chosen.node].remove(chosen)
            held[node.name].append(chosen)
            yield Migrate(
                replica=chosen.name,
                target=node.name,
                purpose=REBALANCE,
                reason=f"{_verdict(chosen)} last of those on {chosen.node}; {node.name} has {after} "
                f"and {chosen.node} {before} replicas, balance factor {factor}",
            )


def _gives(
    replica: Replica, node: Node, held: Mapping[str, list[Replica]], factor: int, *, idle: bool
) -> bool:
    """Whether taking the replica from its node leaves that node no worse off than the taker.

    The printed argmin runs over all replicas, the taker's own included, and may strip a node bare.
    """
    source = replica.node
    if source is None or source == node.name or replica not in held.get(source, ()):
        return False
    return len(held[source]) > (factor if idle else len(held[node.name]) + 1)


def _movable(snapshot: Snapshot, purpose: str) -> list[Replica]:
    """Return the converged replicas that run, do not move already, and were not moved for this purpose."""
    return [
        replica
        for replica in snapshot.replicas.values()
        if replica.progress.category is Category.CONVERGED
        and replica.phase is Phase.RUNNING
        and replica.name not in snapshot.moves
        and purpose not in replica.moved_for
    ]


def _asks(replica: Replica, snapshot: Snapshot, settings: SpeConSettings) -> bool:
    """Algorithm 1, line 15: enough growing neighbours to make room for."""
    if replica.node is None:
        return False
    census = snapshot.census(replica.node)
    return census.replicas - census.converged >= (2 if settings.literal else settings.min_growing)


def _verdict(replica: Replica) -> str:
    progress = replica.progress
    step = "" if progress.step is None else f" at step {progress.step}"
    gain = "" if progress.gain is None else f" (gain {100 * progress.gain:.2g} %)"
    return f"converged{step}{gain}"
