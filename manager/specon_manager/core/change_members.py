"""The replicas of a job that is being changed: which are to go, what their records say, where room is."""

from collections.abc import Iterable, Mapping

import msgspec

from specon_manager.core.state import State
from specon_manager.model.changes import Change, ChangeKind, ChangeState
from specon_manager.model.cluster import Leaving, Phase, role_of
from specon_manager.model.resources import NOTHING, Resources


def concerned(change: Change) -> list[str]:
    """Return the replicas that ran when the change began, or run when it has succeeded."""
    return sorted({*change.before, *change.after})


def kept(change: Change) -> Mapping[str, str]:
    """Return what runs on while the rest leaves: nothing where all of it starts anew."""
    return {} if change.restart else change.wanted


def workers(placement: Iterable[str]) -> int:
    """Return how many of these replicas are workers."""
    return sum(role_of(name) != "ps" for name in placement)


def patience_to_leave(state: State, change: Change) -> float:
    """Return how long an order to end may take, seconds."""
    return state.jobs[change.job].spec.grace_seconds + state.settings.deadlines.eviction_margin


def room_taken(state: State, change: Change) -> State:
    """Return the state in which what is to come takes its room, though it is not to start yet."""
    for name in sorted(change.wanted.keys()):
        replica = state.replicas[name]
        if replica.active or replica.ended:
            continue
        coming = msgspec.structs.replace(
            replica,
            phase=Phase.STARTING,
            node=change.wanted[name] or None,
            incarnation=None,
            deadline=None,
            leaving=None,
        )
        state = state.with_replica(coming)
    return state


def told(state: State, change: Change, now: float, *, unseen: bool = False) -> State:
    """Return the state in which the records of what is to go say so, and what stays is not told any more.

    Before the checkpoint is verified that is an announcement only, so that nobody looks for the same room
    elsewhere. `unseen`: whether what was ordered to start and was not seen has to go as well.
    """
    announced = change.state is ChangeState.CHECKPOINTING
    stay = change.wanted if announced else kept(change)
    until = max(now, change.deadline) + (patience_to_leave(state, change) if announced else 0.0)
    for name in concerned(change):
        replica = state.replicas[name]
        leaving: Leaving | None = None
        if name in stay:
            if replica.phase is not Phase.RUNNING or replica.leaving is None or _for_good(replica.leaving):
                continue
        else:
            starts = unseen and replica.phase is Phase.STARTING
            if replica.leaving is not None or not (starts or replica.phase is Phase.RUNNING):
                continue
            purpose = "restart" if name in change.wanted else ("scale-in" if change.wanted else "preempt")
            why = f"{change.id}: {change.note or change.reason}"
            leaving = Leaving(purpose=purpose, since=now, deadline=until, reason=why)  # type: ignore[arg-type]
        state = state.with_replica(msgspec.structs.replace(replica, leaving=leaving))
    return state


def _for_good(leaving: Leaving) -> bool:
    return leaving.purpose in {"complete", "fail"}


def node_lost(state: State, change: Change) -> str | None:
    """Return the node, in words, on which something is to start and that takes nothing any more."""
    for name in sorted(change.wanted):
        replica, node = state.replicas[name], change.wanted[name]
        if not node or replica.phase is Phase.RUNNING or replica.ended:
            continue
        known = state.nodes.get(node)
        if known is None or not known.ready:
            return f"node {node}, where {name} is to start, {'is gone' if known is None else 'is not ready'}"
    return None


def no_way_back(state: State, change: Change, now: float) -> str | None:
    """Return why what ran before cannot all run again where it ran; None where it can.

    What left its node since has lost its room there, and another job may have it by now.
    """
    snapshot = state.snapshot(now)
    needed: dict[str, Resources] = {}
    for name, node in change.before.items():
        replica = state.replicas[name]
        if replica.active and replica.node == node:
            continue
        needed[node] = needed.get(node, NOTHING) + replica.requests
    for node, amount in sorted(needed.items()):
        if node not in snapshot.nodes or not snapshot.nodes[node].ready:
            return f"node {node}, where it ran before, is not there any more"
        if not amount.fits(snapshot.room(node)):
            return f"its room on {node} has been taken meanwhile"
    return None


def anywhere_where_lost(state: State, change: Change) -> Change:
    """Return the change in which nothing goes back to a node that is not there: its owner finds another."""
    ready = {node.name for node in state.nodes.values() if node.ready}
    before = {name: node if node in ready else "" for name, node in change.before.items()}
    return msgspec.structs.replace(change, before=before)


def described(state: State, change: Change) -> bool:
    """Whether the job still names every replica that the change is about."""
    named = set(state.jobs[change.job].spec.replicas)
    return all(name in named for name in (*change.before, *change.after))


def admitted_whole(state: State, change: Change) -> bool:
    """Whether a job that is admitted runs, or has run already, as a whole."""
    members = [state.replicas[name] for name in change.wanted]
    return change.kind is ChangeKind.ADMIT and all(
        (each.phase is Phase.RUNNING and each.leaving is None) or each.phase is Phase.SUCCEEDED
        for each in members
    )
