"""Converged jobs that reserve processors make way for those beside them that still grow.

A job without a limit above its request uses what its neighbours leave idle. Where the converged one may be
lowered in place, that comes first (`cpu_lending`); else it goes to a node that has room for it and is not
full. SpeCon's idea (Mao et al., arXiv 2010.11307), for jobs that reserve: what they share is the rest.
"""

from collections.abc import Collection, Iterator
from typing import Final

from specon_manager.model.actions import Migrate
from specon_manager.model.cluster import Job, Replica
from specon_manager.model.renewal import Chosen
from specon_manager.model.snapshot import Snapshot
from specon_manager.model.standing import may_go
from specon_manager.policies.cpu_lending import eases_first
from specon_sidecar.classify import Category
from specon_sidecar.counts import format_count

MAKE_WAY: Final = "make-way"
_TRIED: Final = 8
_bursting: Final = Chosen[Job](lambda job: job.spec.bursts)


def make_way(snapshot: Snapshot, promised: Collection[str]) -> Iterator[Migrate]:
    """Move one converged replica from each full node on which others would use its processors.

    A node is full where fewer processors are unreserved than the replica gives back. Its target keeps as many
    unreserved beside it, so that it is not full in turn. Nodes `promised` to others in this call are no
    targets.
    """
    if not _bursting(snapshot.jobs):
        return
    left: set[str] = set()
    roomy: list[str] | None = None
    for replica in snapshot.settled:
        source, cpu = replica.node or "", replica.requests.cpu
        if source in left or source not in snapshot.nodes or cpu <= 0 or MAKE_WAY in replica.moved_for:
            continue
        if snapshot.busy.get(source) or snapshot.room(source).cpu >= cpu or eases_first(replica, snapshot):
            continue
        growing = _count_growing(source, snapshot)
        if not growing:
            continue
        if roomy is None:
            free = (each.name for each in snapshot.ready_nodes if each.name not in promised)
            roomy = sorted(free, key=lambda name: (-snapshot.room(name).cpu, name))
        target = _target(replica, roomy, snapshot)
        if target is None:
            continue
        left.add(source)
        roomy.remove(target)
        others = format_count(growing, "other still grows", "others still grow")
        reason = (
            f"it has converged: {others} on {source} and can use its {format_count(cpu, 'processor')};"
            f" {target} has {snapshot.room(target).cpu:g} that nobody reserves"
        )
        yield Migrate(replica=replica.name, target=target, purpose=MAKE_WAY, reason=reason)


def _count_growing(node: str, snapshot: Snapshot) -> int:
    """Return how many on a node may use more than they reserve, and are not known to have converged."""
    return sum(
        snapshot.jobs[replica.job].spec.bursts and replica.progress.category is not Category.CONVERGED
        for replica in snapshot.on_node[node]
    )


def _target(replica: Replica, roomy: list[str], snapshot: Snapshot) -> str | None:
    """Return the roomiest node that takes the replica and is not full then; None where no such one is."""
    for name in roomy[:_TRIED]:
        if snapshot.room(name).cpu < 2 * replica.requests.cpu:
            return None
        if name != replica.node and not snapshot.busy.get(name) and may_go(replica, name, snapshot):
            return name
    return None
