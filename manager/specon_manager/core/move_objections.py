"""Why a move is not ordered now: by the budgets, for want of room, or as it gains less than it costs. Pure.

Moves are proposed by policies, or asked for by persons. For these neither gain and cost nor the cooldown and
the budget of the replica count.
"""

from collections.abc import Mapping, Sequence

from specon_manager.core import gate, move_budgets, scaling, slower, starvation
from specon_manager.core.pause import objection_while_paused
from specon_manager.core.state import State
from specon_manager.model.actions import Migrate, MigrateGang, Objection, Refusal
from specon_manager.model.cluster import Job, Replica
from specon_manager.model.snapshot import Snapshot
from specon_manager.model.standing import gang_move_objection, move_objection, no_node, resting, unready
from specon_manager.policies.cpu_lending import eases_first


def objection_to_move(move: Migrate | MigrateGang, snapshot: Snapshot, state: State) -> Objection | None:
    """Return the objection to a move that a policy proposes, of a replica or a job that is known."""
    # The cluster's budget first, for it is the cheapest: a large cluster has tens of thousands of converged
    # replicas that ask.
    if (spent := move_budgets.cluster_objection(snapshot)) is not None:
        return spent
    if isinstance(move, Migrate):
        replica = snapshot.replicas[move.replica]
        return (
            no_place(replica, move.target, snapshot, move.beneficiary)
            or move_objection(replica, snapshot)
            or objection_to_movers((replica,), snapshot)
            or move_budgets.nodes_objection((replica.node, move.target), snapshot)
            or gate.objection(move, snapshot, state.settings.gate, state.measured)
            or starvation.objection(move, snapshot)
        )
    job = snapshot.jobs[move.job]
    about = present(job, snapshot)
    return (
        _no_places(move, snapshot)
        or gang_move_objection(job, snapshot)
        or resting(job, snapshot)
        or objection_to_movers(about, snapshot)
        or move_budgets.nodes_objection(_list_nodes(about, move, snapshot), snapshot)
        or gate.objection(move, snapshot, state.settings.gate, state.measured)
        or slower.objection(move, snapshot, state)
        or starvation.objection(move, snapshot)
    )


def objection_to_movers(about: Sequence[Replica], snapshot: Snapshot) -> Objection | None:
    """Return why no policy has these moved together now, wherever they would go."""
    for replica in about:
        if replica.unproven:
            text = f"its last move is no success, and a person has to look: {replica.unproven}"
            return Objection(Refusal.UNPROVEN, text)
    if eases_first(about[0], snapshot):
        text = "its processors are lowered in place before a move is thought of"
        return Objection(Refusal.COOLDOWN, text)
    return move_budgets.replicas_objection(about, snapshot)


def objection_to_request(
    replica: Replica, target: str | None, snapshot: Snapshot, state: State
) -> Objection | None:
    """Return the objection to a requested move; None as target: to any move of the replica."""
    objection = (
        objection_while_paused(state)
        or move_objection(replica, snapshot)
        or move_budgets.cluster_objection(snapshot)
    )
    if objection is not None or target is None:
        return objection
    return (
        gate.objection_to_nodes(replica, target, snapshot)
        or no_place(replica, target, snapshot)
        or move_budgets.nodes_objection((replica.node, target), snapshot)
    )


def objection_to_gang_request(
    job: Job, placement: Mapping[str, str] | None, snapshot: Snapshot, state: State
) -> Objection | None:
    """Return the objection to a requested move of a whole job; None: to any move of it."""
    objection = (
        objection_while_paused(state)
        or gang_move_objection(job, snapshot)
        or move_budgets.cluster_objection(snapshot)
    )
    if objection is not None or placement is None:
        return objection
    move = MigrateGang(job=job.name, placement=placement, purpose="", reason="")
    nodes = _list_nodes(present(job, snapshot), move, snapshot)
    return _no_places(move, snapshot) or move_budgets.nodes_objection(nodes, snapshot)


def present(job: Job, snapshot: Snapshot) -> tuple[Replica, ...]:
    """Return the replicas of a job that occupy nodes."""
    members = (snapshot.replicas[name] for name in job.spec.replicas)
    return tuple(member for member in members if member.active)


def no_place(replica: Replica, node: str, snapshot: Snapshot, beneficiary: str = "") -> Objection | None:
    """Return why the node cannot take the replica; room kept for the beneficiary is open to it."""
    if (objection := no_node(node, snapshot.nodes)) is not None:
        return objection
    ruled = snapshot.nodes[node].taints or replica.job in snapshot.particular
    if ruled and (why := snapshot.objection_to(node, replica.job)) is not None:
        return Objection(Refusal.NOT_ELIGIBLE, why)
    if not replica.requests.fits(snapshot.open_room(node, beneficiary or replica.job)):
        return Objection(Refusal.NO_ROOM, f"no room on {node}")
    return None


def _no_places(move: MigrateGang, snapshot: Snapshot) -> Objection | None:
    """Return why the nodes cannot take the replicas that are to come there, or that none is."""
    job = snapshot.jobs[move.job]
    if (foreign := scaling.foreign(move.placement, job)) is not None:
        return foreign
    moved = {name: node for name, node in move.placement.items() if snapshot.replicas[name].node != node}
    if not moved:
        return Objection(Refusal.SAME_NODE, "the whole job runs where it is to go")
    for name, node in sorted(move.placement.items()):
        # All of it starts again, so the nodes of those that stay count as well.
        if (lost := unready(node, name, snapshot.nodes)) is not None:
            return Objection(Refusal.NODE_NOT_READY, lost)
    return scaling.no_room(moved, job, snapshot, move.beneficiary)


def _list_nodes(about: Sequence[Replica], move: MigrateGang, snapshot: Snapshot) -> list[str | None]:
    """Return the nodes that the replicas leave, and those that what does not run there already joins."""
    own = snapshot.jobs[move.job].spec.replicas
    joined = (
        node
        for name, node in move.placement.items()
        if name not in own or snapshot.replicas[name].node != node
    )
    return [*(replica.node for replica in about), *joined]
