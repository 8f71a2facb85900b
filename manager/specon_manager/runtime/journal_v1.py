"""Journals of version 0.1: read as of their last record, never replayed.

The present `step` would decide otherwise than was ordered then. So only what was seen and what was ordered is
taken over: jobs, nodes, reports, which incarnation was started where, and how each ended. Moves and changes
that were in flight are dropped: what of them runs is found on disk by the backend, what does not waits to be
started again from its checkpoint.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from specon_manager.core.gang import grouped
from specon_manager.core.lifecycle import job_submitted
from specon_manager.core.reports import learn
from specon_manager.core.state import Measured, Pause, State
from specon_manager.model import events as ev
from specon_manager.model.cluster import Job, Node, Phase, Replica, Served
from specon_manager.model.queues import Queue
from specon_manager.model.settings import Settings

SCHEMA: Final = 1
"""Of journals that version 0.1 wrote."""

Record = Mapping[str, Any]


def first_state(begin: Record) -> State:
    """Return what the first line of such a journal says was there. Raises msgspec.ValidationError."""
    known = begin.get("state", {})
    jobs = msgspec.convert(known.get("jobs", {}), dict[str, Job])
    replicas = {name: _replica(each) for name, each in known.get("replicas", {}).items()}
    pause = known.get("pause")
    return State(
        settings=msgspec.convert(known.get("settings", {}), Settings),
        nodes=msgspec.convert(known.get("nodes", {}), dict[str, Node]),
        jobs=jobs,
        replicas=replicas,
        job_count=known.get("job_count", len(jobs)),
        ended_jobs=tuple(known.get("ended_jobs", ())),
        measured=msgspec.convert(known.get("measured", {}), Measured),
        served=msgspec.convert(known.get("served", {}), dict[str, Served]),
        pause=None if pause is None else msgspec.convert(pause, Pause),
        queues=msgspec.convert(known.get("queues", {}), dict[str, Queue]),
    )


def taken_in(state: State, step: Record) -> State:
    """Return the state after one line: what was seen, and then what was ordered."""
    now, event = float(step["now"]), step["event"]
    handler = _SEEN.get(event.get("type", ""))
    if handler is not None:
        state = handler(state, event, now)
    for action in step.get("actions", ()):
        if action.get("type") == "StartReplica":
            state = _ordered(state, action, now)
    return state


def closed(state: State, now: float) -> State:
    """Return the state as the next manager takes it over, once the last line is read."""
    for name in state.jobs:
        state = grouped(_without_partial_gangs(state, name), name, now, occupied=False)
    return state.flattened()


def _replica(record: Record) -> Replica:
    """Return a record of then; a deadline meant two things, by phase, and what was to leave is dropped."""
    replica = msgspec.convert({**record, "leaving": None}, Replica)
    waits = replica.phase is Phase.PENDING and replica.deadline is not None
    return msgspec.structs.replace(
        replica,
        deadline=None if waits else replica.deadline,
        not_before=replica.deadline or 0.0 if waits else 0.0,
    )


def _node(state: State, event: Record, now: float) -> State:
    del now
    node = msgspec.convert({**event, "name": event["node"]}, Node)
    return msgspec.structs.replace(state, nodes={**state.nodes, node.name: node})


def _node_gone(state: State, event: Record, now: float) -> State:
    del now
    nodes = {name: node for name, node in state.nodes.items() if name != event["node"]}
    return msgspec.structs.replace(state, nodes=nodes)


def _submitted(state: State, event: Record, now: float) -> State:
    submitted = msgspec.convert(event, ev.JobSubmitted)
    return job_submitted(state, submitted, now)[0]


def _settled(state: State, event: Record, now: float) -> State:
    del now
    return msgspec.structs.replace(state, settings=msgspec.convert(event["settings"], Settings))


def _paused(state: State, event: Record, now: float) -> State:
    reason = event.get("reason")
    return msgspec.structs.replace(state, pause=None if reason is None else Pause(since=now, reason=reason))


def _reported(state: State, event: Record, now: float) -> State:
    learnt = learn(state, msgspec.convert(event, ev.ReportReceived).report, now)
    return state if learnt is None else learnt


def _started(state: State, event: Record, now: float) -> State:
    del now
    replica = state.replicas.get(event["replica"])
    if replica is None or replica.ended or replica.phase is not Phase.STARTING:
        return state
    progress = msgspec.structs.replace(replica.progress, sessions=(), cpu_from=None, first_step=None)
    return state.with_replica(
        msgspec.structs.replace(
            replica,
            phase=Phase.RUNNING,
            node=event["node"],
            incarnation=event["incarnation"],
            deadline=None,
            progress=progress,
        )
    )


def _gone(state: State, event: Record, now: float) -> State:
    """Take note of an end: a success, an end that was ordered, or a crash, which counts."""
    replica = state.replicas.get(event["replica"])
    incarnation = event.get("incarnation")
    if replica is None or replica.incarnation is None or incarnation != replica.incarnation:
        return state
    evicted = bool(event.get("evicted", False))
    spec = state.jobs[replica.job].spec
    total, done = replica.progress.total_steps, replica.progress.step or 0
    complete = event.get("exit_code") == 0 and (not evicted or (total is not None and done >= total))
    crashes = replica.crashes + (not evicted and not complete)
    phase = Phase.SUCCEEDED if complete else Phase.PENDING
    if crashes > spec.restarts:
        phase = Phase.FAILED
    ended = phase is not Phase.PENDING
    return state.with_replica(
        msgspec.structs.replace(
            replica,
            phase=phase,
            former=replica.incarnation,
            incarnation=None,
            deadline=None,
            crashes=crashes,
            ended_at=now if ended else None,
            weight=1.0,
            note=str(event.get("reason", "")),
        )
    )


def _refused(state: State, event: Record, now: float) -> State:
    del now
    replica = state.replicas.get(event["replica"])
    if replica is None or replica.phase is not Phase.STARTING or event.get("start") != replica.starts:
        return state
    return state.with_replica(msgspec.structs.replace(replica, phase=Phase.PENDING, deadline=None))


def _ordered(state: State, action: Record, now: float) -> State:
    replica = state.replicas.get(action["replica"])
    if replica is None or replica.ended or replica.incarnation is not None:
        return state
    job = state.jobs[replica.job]
    if job.admitted_at is None:
        state = state.with_job(msgspec.structs.replace(job, admitted_at=now))
    return state.with_replica(
        msgspec.structs.replace(
            replica,
            phase=Phase.STARTING,
            node=action["node"],
            starts=action["start"],
            deadline=now + state.settings.deadlines.start,
            weight=1.0,
        )
    )


def _without_partial_gangs(state: State, name: str) -> State:
    """Let workers that were scaled in be absent: nothing else says why they are not beside the others."""
    job = state.jobs[name]
    members = [state.replicas[replica] for replica in job.spec.replicas]
    if not job.spec.elastic or not any(each.active for each in members):
        return state
    for replica in members:
        spare = replica.phase is Phase.PENDING and replica.role != "ps" and replica.index > 0
        if spare and not replica.crashes:
            state = state.with_replica(msgspec.structs.replace(replica, phase=Phase.ABSENT))
    return state


_SEEN: Final[Mapping[str, Callable[[State, Record, float], State]]] = {
    "NodeObserved": _node,
    "NodeGone": _node_gone,
    "JobSubmitted": _submitted,
    "ManagerStarted": _settled,
    "Paused": _paused,
    "ReportReceived": _reported,
    "ReplicaStarted": _started,
    "ReplicaGone": _gone,
    "StartRefused": _refused,
}
