"""First placement: the fixed round robin of SpeCon's experiments (section VI-A)."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from specon_manager.model.actions import Admit
from specon_manager.model.cluster import Node, Replica
from specon_manager.model.constraints import ANYWHERE
from specon_manager.model.resources import NOTHING, Resources
from specon_manager.model.snapshot import Snapshot


def admit_round_robin(snapshot: Snapshot) -> Iterator[Admit]:
    """Propose a node for each pending replica: job k goes to node k mod |W|, or the next that has room.

    A replica that ran before goes back to its node, where its files are warm and its owner looks for it.
    """
    nodes = snapshot.ready_nodes
    if not nodes:
        return
    promised: dict[str, Resources] = defaultdict(lambda: NOTHING)
    waiting = [replica for replica in snapshot.pending if _may_start(replica, snapshot)]
    waiting.sort(key=lambda replica: (snapshot.jobs[replica.job].order, replica.name))
    # What fits nowhere does not for anybody who asks for as much: a long queue is not tried on each node. A
    # job with constraints of its own may be barred from nodes that others fit on, or tolerate their taints.
    too_much: set[Resources] = set()
    for together in batches(waiting, snapshot):
        trial, found = dict(promised), list[Admit]()
        for replica in together:
            unbound = snapshot.jobs[replica.job].spec.constraints == ANYWHERE
            hopeless = unbound and any(amount.fits(replica.requests) for amount in too_much)
            node = None if hopeless else _node_for(replica, nodes, trial, snapshot)
            if node is None:
                if unbound and not hopeless and len(together) == 1:
                    too_much.add(replica.requests)
                break
            trial[node.name] = trial.get(node.name, NOTHING) + replica.requests
            found.append(Admit(replica=replica.name, node=node.name, reason=_reason(replica, node)))
        else:
            promised.update(trial)
            yield from found


def batches(waiting: Iterable[Replica], snapshot: Snapshot) -> Iterator[list[Replica]]:
    """Yield what starts together or not at all: the replicas of a gang that waits, and others one by one.

    Half a gang would take room in each call, and be refused each time.
    """
    gangs: dict[str, list[Replica]] = {}
    order: list[list[Replica]] = []
    for replica in waiting:
        known = gangs.get(replica.job)
        if known is not None:
            known.append(replica)
            continue
        order.append([replica])
        if snapshot.starts_whole(replica.job):
            gangs[replica.job] = order[-1]
    yield from order


def _node_for(
    replica: Replica, nodes: Sequence[Node], promised: Mapping[str, Resources], snapshot: Snapshot
) -> Node | None:
    for node in _preference(replica, nodes, snapshot.jobs[replica.job].order):
        wanted = promised.get(node.name, NOTHING) + replica.requests
        if wanted.fits(snapshot.room(node.name)) and _eligible(replica, node.name, snapshot):
            return node
    return None


def readmissions(snapshot: Snapshot) -> Iterator[Admit]:
    """Propose a node for what crashed of jobs that occupy nodes: its own, or the one with most room."""
    idle = {node.name: node for node in snapshot.ready_nodes}
    promised: dict[str, Resources] = defaultdict(lambda: NOTHING)
    for replica in snapshot.unplaced:
        if not any(member.active for member in snapshot.members.get(replica.job, ())):
            continue
        others = sorted(idle, key=lambda name: (-_free_cpu(snapshot, name, promised), name))
        for name in ([replica.node] if replica.node in idle else []) + others:
            wanted = promised[name] + replica.requests
            if wanted.fits(snapshot.open_room(name, replica.job)) and _eligible(replica, name, snapshot):
                promised[name] = wanted
                why = f"start again on {name} beside the others of its job"
                yield Admit(replica=replica.name, node=name, reason=why)
                break


def _eligible(replica: Replica, node: str, snapshot: Snapshot) -> bool:
    return snapshot.objection_to(node, replica.job) is None


def _free_cpu(snapshot: Snapshot, node: str, promised: Mapping[str, Resources]) -> float:
    return snapshot.room(node).cpu - (promised[node].cpu if node in promised else 0.0)


def _may_start(replica: Replica, snapshot: Snapshot) -> bool:
    """Whether nothing else is ordered for a pending replica, and its pause after a crash is over."""
    return replica.name not in snapshot.moving and not replica.holds and replica.not_before <= snapshot.now


def _preference(replica: Replica, nodes: Sequence[Node], order: int) -> Iterator[Node]:
    start = order % len(nodes)
    if replica.node is not None:
        start = next((i for i, node in enumerate(nodes) if node.name == replica.node), start)
    return (nodes[(start + k) % len(nodes)] for k in range(len(nodes)))


def _reason(replica: Replica, node: Node) -> str:
    if replica.crashes:
        return f"start again on {node.name} after crash {replica.crashes}"
    return f"round robin: next node with room is {node.name}"
