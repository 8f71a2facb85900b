"""Targets of a gang that someone wants to move: which of its replicas change their node, and how. Pure."""

from collections import Counter
from collections.abc import Iterable

from specon_manager.model.cluster import Job, Replica
from specon_manager.model.resources import Resources, size
from specon_manager.model.snapshot import Snapshot
from specon_sidecar.counts import format_count

_NAMED = 3  # nodes for which a refusal says why they take nothing


def place_on_nodes(job: Job, nodes: Iterable[str], snapshot: Snapshot) -> tuple[dict[str, str] | None, str]:
    """Return where each replica is to run so that all are on these nodes, filled in this order.

    What runs on one of them stays there. None where that cannot be, with the reason.
    """
    wanted = list(dict.fromkeys(nodes))
    members = _present(job, snapshot)
    leavers = [member for member in members if member.node not in wanted]
    return _place(job, members, leavers, wanted, snapshot)


def place_off_node(job: Job, node: str, snapshot: Snapshot) -> tuple[dict[str, str] | None, str]:
    """Return where each replica is to run so that none is left on this node; else why that cannot be.

    Replicas that leave go first where others of the job are, then where most is open. A replica on another
    node that takes nobody any more leaves too: all of the job starts again, and could not do so there.
    """
    members = _present(job, snapshot)
    here = {member.node or "" for member in members}
    left = {name for name in here if (known := snapshot.nodes.get(name)) is None or not known.ready} | {node}
    leavers = [member for member in members if member.node in left]
    others = Counter(member.node for member in members if member.node not in left)
    nodes = [each.name for each in snapshot.ready_nodes if each.name != node]
    nodes.sort(key=lambda name: (-others[name], -_open_share(name, job, snapshot)))  # else by name
    return _place(job, members, leavers, nodes, snapshot)


def anywhere(job: Job, snapshot: Snapshot) -> tuple[dict[str, str] | None, str]:
    """Return where each replica is to run so that all leave the nodes that they are on; else why not."""
    members = _present(job, snapshot)
    here = {member.node for member in members}
    nodes = [each.name for each in snapshot.ready_nodes if each.name not in here]
    nodes.sort(key=lambda name: -_open_share(name, job, snapshot))  # else by name
    return _place(job, members, members, nodes, snapshot)


def _present(job: Job, snapshot: Snapshot) -> list[Replica]:
    members = (snapshot.replicas[name] for name in job.spec.replicas)
    return [member for member in members if member.active]


def _place(
    job: Job, members: list[Replica], leavers: list[Replica], nodes: list[str], snapshot: Snapshot
) -> tuple[dict[str, str] | None, str]:
    placement = {member.name: member.node or "" for member in members}
    open_rooms, why = _open_rooms(job, nodes, snapshot)
    if job.spec.unlike:  # the small ones find room beside the large ones, not the other way round
        leavers = sorted(leavers, key=lambda member: size(member.requests), reverse=True)
    for member in leavers:
        node = next((name for name, room in open_rooms.items() if member.requests.fits(room)), None)
        if node is None:
            more = f"; and {len(why) - _NAMED} more" if len(why) > _NAMED else ""
            objections = "; ".join(why[:_NAMED]) + more
            text = (
                f"no room for all {format_count(len(leavers), 'replica')} on"
                f" {', '.join(nodes[:_NAMED]) or 'any other node'}"
            )
            return None, f"{text}: {objections}" if objections else text
        placement[member.name] = node
        open_rooms[node] -= member.requests
    return placement, ""


def _open_rooms(job: Job, nodes: Iterable[str], snapshot: Snapshot) -> tuple[dict[str, Resources], list[str]]:
    """Return the room open to the job on those nodes that take it, and why the others do not."""
    rooms, why = dict[str, Resources](), list[str]()
    for name in nodes:
        known = snapshot.nodes.get(name)
        if known is None or not known.ready:
            why.append(f"node {name} is {'unknown' if known is None else 'not ready'}")
        elif (objection := snapshot.objection_to(name, job.name)) is not None:
            why.append(objection)
        else:
            rooms[name] = snapshot.open_room(name, job.name)
    return rooms, why


def _open_share(node: str, job: Job, snapshot: Snapshot) -> float:
    shares = snapshot.open_room(node, job.name).shares(snapshot.nodes[node].capacity)
    return sum(shares) / len(shares) if shares else 0.0
