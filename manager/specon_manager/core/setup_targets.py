"""Nodes on which a job has room in another setup than it has now. Pure."""

from collections import Counter
from collections.abc import Iterator, Sequence

from specon_manager.core import move_budgets
from specon_manager.core.paces import asks
from specon_manager.model.cluster import Job, Replica
from specon_manager.model.paces import Setup
from specon_manager.model.resources import Resources, largest, size, total
from specon_manager.model.snapshot import Snapshot


def onto(job: Job, setup: Setup, snapshot: Snapshot) -> dict[str, str] | None:
    """Return where each replica is to run so that the job is set up so; None: nowhere was found.

    Where it asks for accelerators, the nodes have those of the setup. That has as many workers as run, on
    fewer nodes or on others than now. What runs on one of the nodes stays there. Of single nodes the one is
    taken on which most of it runs already, else the fullest that it fits on. Of several, first those on which
    most of it runs, then those that hold most of it: where replicas request different amounts that may miss
    some that would do. A node with as many moves as it may have gets none of it.
    """
    members = [each for name in job.spec.replicas if (each := snapshot.replicas[name]).active]
    many = setup.nodes > 1
    sets = _several(job, members, setup, snapshot) if many else _single(job, members, setup, snapshot)
    for nodes in sets:
        placement = _fill(job, members, nodes, snapshot)
        if placement is not None:
            return placement
    return None


def _single(job: Job, members: Sequence[Replica], setup: Setup, snapshot: Snapshot) -> Iterator[list[str]]:
    """Yield each node that all of it may fit on, the best first."""
    here = Counter(each.node or "" for each in members)
    nodes = [node for node, _ in here.most_common()]
    _, parts, _ = snapshot.rooms()
    need = total([each.requests for each in members])
    fit = (
        ((gpu, cpu, memory), node)
        for node, (cpu, memory, gpu) in parts.items()
        if cpu >= need.cpu and memory >= need.memory and gpu >= need.gpu and node not in here
    )
    nodes += [node for _, node in sorted(fit)]
    return ([node] for node in nodes if _takes(node, job, members, setup, snapshot))


def _several(job: Job, members: Sequence[Replica], setup: Setup, snapshot: Snapshot) -> Iterator[list[str]]:
    """Yield sets of so many nodes that may hold all of it."""
    here = Counter(each.node or "" for each in members)
    each = largest([member.requests for member in members])
    holds = dict[str, int]()
    for node in snapshot.ready_nodes:
        room = snapshot.open_room(node.name, job.name)
        number = here[node.name] + _count(room, each, len(members))
        if number and _takes(node.name, job, members, setup, snapshot):
            holds[node.name] = number
    count = setup.nodes
    if len(holds) >= count:
        yield sorted(holds, key=lambda node: (-here[node], -holds[node], node))[:count]
        yield sorted(holds, key=lambda node: (-holds[node], -here[node], node))[:count]


def _takes(node: str, job: Job, members: Sequence[Replica], setup: Setup, snapshot: Snapshot) -> bool:
    """Whether the node takes any of the job now in this setup, whatever room it has."""
    known = snapshot.nodes.get(node)
    if known is None or not known.ready or snapshot.objection_to(node, job.name) is not None:
        return False
    if known.accelerator != setup.accelerator and any(map(asks, members)):
        return False
    return (
        any(each.node == node for each in members) or move_budgets.nodes_objection((node,), snapshot) is None
    )


def _count(room: Resources, each: Resources, most: int) -> int:
    """Return how many replicas of this size have room, `most` where they ask for nothing."""
    pairs = ((room.cpu, each.cpu), (room.memory, each.memory), (room.gpu, each.gpu))
    return int(min((have // asked for have, asked in pairs if asked > 0), default=most))


def _fill(
    job: Job, members: Sequence[Replica], nodes: Sequence[str], snapshot: Snapshot
) -> dict[str, str] | None:
    """Return a placement with something on each of these nodes, None where not all of it has room."""
    placement = {each.name: each.node or "" for each in members if each.node in nodes}
    rooms = {node: snapshot.open_room(node, job.name) for node in nodes}
    bare = [node for node in rooms if node not in placement.values()]
    for each in sorted((each for each in members if each.name not in placement), key=_by_size):
        node = next((node for node in (*bare, *rooms) if each.requests.fits(rooms[node])), None)
        if node is None:
            return None
        placement[each.name] = node
        rooms[node] -= each.requests
        bare = [other for other in bare if other != node]  # each gets one before any gets two
    return None if bare else placement


def _by_size(replica: Replica) -> tuple[float, ...]:
    return tuple(-amount for amount in size(replica.requests))
