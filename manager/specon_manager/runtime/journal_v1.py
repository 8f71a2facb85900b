"""Journals of version 0.1: read as of their last record, never replayed.

The present `step` would decide otherwise than was ordered then. So only observations and orders are
taken over: jobs, nodes, reports, which incarnation was started where, and how each ended. Moves and changes
that were in flight are dropped: what of them runs is found on disk by the backend, what does not waits to be
started again from its checkpoint.
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final

import msgspec

from specon_manager.core.gang import group_replicas
from specon_manager.core.lifecycle import job_submitted, replica_gone
from specon_manager.core.reports import learn
from specon_manager.core.state import Measured, Pause, State
from specon_manager.model import events as ev
from specon_manager.model.cluster import Job, Node, Phase, Replica, Served, job_of
from specon_manager.model.queues import Queue
from specon_manager.model.settings import Settings
from specon_manager.runtime.journal_line import BadLineError, check_place, check_seal

SCHEMA: Final = 1
"""Of journals that version 0.1 wrote."""

Record = Mapping[str, Any]

_ID: Final = re.compile(r"(?:move|change)-(\d{1,15})\Z")
_BEFORE_STARTS: Final = frozenset({"Proposed", "Reserved", "Checkpointing", "Leaving"})
"""The states in which a change had ordered no start."""
_MADE: Final = ("move ", "change-")
"""How the reasons of orders begin that a move or a change gave."""


class Past:
    """What the lines of such a journal say, taken in one after the other."""

    def __init__(self) -> None:
        self.state = State()
        self.began_at = 0.0
        self.last_at = 0.0
        """Time of the last step."""
        self.steps = 0
        self._told: dict[str, str] = {}
        """Incarnation by replica, of those told to end last."""

    def take(self, line: bytes, before: int, *, first: bool) -> None:
        """Take a line in; `before` is the checksum of the one before it. Raises BadLineError."""
        try:
            record = msgspec.json.decode(line)
            check_place(first=first, begins=record["type"] == "begin")
            check_seal(line, before, needed=False)
            if first:
                self._begin(record)
            else:
                self.state = take_in(self.state, record)
                for action in record.get("actions", ()):
                    if action.get("type") == "EvictReplica":
                        self._told[action["replica"]] = action["incarnation"] or ""
                self.last_at = float(record["now"])
                self.steps += 1
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            what = f"{error} is missing" if isinstance(error, KeyError) else str(error)
            raise BadLineError(f"it is not what version 0.1 wrote: {what}") from error

    def close(self) -> State:
        """Return the state as the next manager takes it over, once the last line is taken in."""
        return close_journal(self.state, self.last_at, told=self._told)

    def _begin(self, record: Record) -> None:
        self.state = first_state(record)
        self._told = _find_told(record["state"])
        self.began_at = float(record["at"])
        last_at = record.get("last_at")
        self.last_at = self.began_at if last_at is None else float(last_at)


def first_state(begin: Record) -> State:
    """Return what the first line of such a journal says was there. Raises msgspec.ValidationError."""
    known = begin["state"]
    jobs = msgspec.convert(known.get("jobs", {}), dict[str, Job])
    unordered = _find_unordered(known.get("changes", {}))
    replicas = {name: _replica(each, unordered) for name, each in known.get("replicas", {}).items()}
    pause = known.get("pause")
    return State(
        settings=msgspec.convert(known.get("settings", {}), Settings),
        nodes=msgspec.convert(known.get("nodes", {}), dict[str, Node]),
        jobs=jobs,
        replicas=replicas,
        transaction_count=max(known.get("move_count", 0), known.get("change_count", 0)),
        job_count=known.get("job_count", len(jobs)),
        ended_jobs=tuple(known.get("ended_jobs", ())),
        measured=msgspec.convert(known.get("measured", {}), Measured),
        served=msgspec.convert(known.get("served", {}), dict[str, Served]),
        changed_at=known.get("changed_at", 0.0),
        pause=None if pause is None else msgspec.convert(pause, Pause),
        queues=msgspec.convert(known.get("queues", {}), dict[str, Queue]),
    )


def _find_told(known: Record) -> dict[str, str]:
    """Return the incarnation by replica of those told to end when a file was begun."""
    moving = {move["replica"] for move in known.get("moves", {}).values() if move["state"] == "Evicting"}
    return {
        name: replica.get("incarnation") or ""
        for name, replica in known.get("replicas", {}).items()
        if name in moving or replica.get("leaving") is not None
    }


def take_in(state: State, step: Record) -> State:
    """Return the state after one line: its observations, its orders, and what follows for those jobs."""
    before, now, event = state, float(step["now"]), step["event"]
    handler = _SEEN.get(event.get("type", ""))
    if handler is not None:
        state = handler(state, event, now)
    actions = step.get("actions", ())
    for action in actions:
        if action.get("type") == "StartReplica":
            state = _order(state, action, now)
    state = _count(state, (event, *actions))
    named = [each["replica"] for each in (event, *actions) if "replica" in each]
    for job in dict.fromkeys(map(job_of, named)):
        state = _whole(before, state, job, now)
    return state


def close_journal(state: State, now: float, *, told: Mapping[str, str]) -> State:
    """Return the state as the next manager takes it over, once the last line is read.

    `told`: incarnation by replica, of those told to end.
    """
    for name, incarnation in told.items():
        replica = state.replicas.get(name)
        if replica is not None and replica.incarnation is not None and replica.incarnation == incarnation:
            state = _resting(state, replica, now)
    for name in state.jobs:
        state = _tear(_whole(state, state, name, now), name, now)
    return state.flatten()


def _resting(state: State, replica: Replica, now: float) -> State:
    """Let nothing begin on a replica about to end: whether its end was carried out is not known yet.

    It is not ordered again: its checkpoint may be old by now, and it trains on where nobody ended it.
    """
    job = state.jobs[replica.job]
    until = now + job.spec.grace_seconds + state.settings.deadlines.eviction_margin
    if job.cooldown_until < until:
        state = state.with_job(msgspec.structs.replace(job, cooldown_until=until))
    return state.with_replica(
        msgspec.structs.replace(replica, cooldown_until=max(until, replica.cooldown_until))
    )


def _count(state: State, records: Iterable[Record]) -> State:
    """Let no transaction have the number of a move or a change of then: sidecars may remember its request."""
    ids = (str(each.get(key, "")) for each in records for key in ("id", "move"))
    numbers = [int(found[1]) for each in ids if (found := _ID.match(each))]
    count = max(numbers, default=0)
    if count <= state.transaction_count:
        return state
    return msgspec.structs.replace(state, transaction_count=count)


def _whole(before: State, state: State, name: str, now: float) -> State:
    """Let the record of a job follow from its replicas'."""
    job = before.jobs.get(name)
    occupied = job is not None and any(before.replicas[replica].active for replica in job.spec.replicas)
    if name not in state.jobs:
        return state
    return group_replicas(_without_spare(state, name), name, now, occupied=occupied)


def _find_unordered(changes: Mapping[str, Record]) -> set[str]:
    """Return the jobs that have replicas noted as starting, though no order to start went out yet."""
    return {each["job"] for each in changes.values() if each["state"] in _BEFORE_STARTS}


def _replica(record: Record, unordered: Collection[str]) -> Replica:
    """Return a record of then; a deadline meant two things, by phase, and a wish to leave is dropped."""
    replica = msgspec.convert({**record, "leaving": None}, Replica)
    if replica.phase is Phase.STARTING and replica.job in unordered:
        return msgspec.structs.replace(replica, phase=Phase.PENDING, incarnation=None, deadline=None)
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


def _submit(state: State, event: Record, now: float) -> State:
    submitted = msgspec.convert(event, ev.JobSubmitted)
    return job_submitted(state, submitted, now)[0]


def _settle(state: State, event: Record, now: float) -> State:
    del now
    return msgspec.structs.replace(state, settings=msgspec.convert(event["settings"], Settings))


def _pause(state: State, event: Record, now: float) -> State:
    reason = event.get("reason")
    return msgspec.structs.replace(state, pause=None if reason is None else Pause(since=now, reason=reason))


def _report(state: State, event: Record, now: float) -> State:
    learnt = learn(state, msgspec.convert(event, ev.ReportReceived).report, now)
    return state if learnt is None else learnt


def _start(state: State, event: Record, now: float) -> State:
    del now
    replica = state.replicas.get(event["replica"])
    if replica is None or replica.phase is not Phase.STARTING:
        return state
    progress = msgspec.structs.replace(replica.progress, sessions=(), cpu_from=None, first_step=None)
    return state.with_replica(
        msgspec.structs.replace(
            replica,
            phase=Phase.RUNNING,
            node=event["node"],
            incarnation=event["incarnation"],
            deadline=None,
            lost_at=None,
            holds=False,
            progress=progress,
        )
    )


def _note_gone(state: State, event: Record, now: float) -> State:
    """Take note of an end: a success, an end that was ordered, or a crash, which counts."""
    told = msgspec.convert({**event, "type": "ReplicaGone"}, ev.ReplicaGone)
    known = state.replicas.get(told.replica)
    if known is None or told.incarnation is None or told.incarnation != known.incarnation:
        return state
    state, _ = replica_gone(state, told, now)
    replica = state.replicas[told.replica]
    proving = known.note.startswith(_MADE) and known.progress.first_step is None
    if proving and replica.crashes > known.crashes:
        # What turned a move or a change back was not held against the job.
        replica = msgspec.structs.replace(replica, phase=Phase.PENDING, crashes=known.crashes, ended_at=None)
        state = state.with_replica(replica)
    if replica.phase is Phase.PENDING and told.evicted:
        # It was to leave: it is missed only where no one else of its job knows of that (`_tear`).
        state = state.with_replica(msgspec.structs.replace(replica, lost_at=None, holds=False))
    return state


def _refuse(state: State, event: Record, now: float) -> State:
    del now
    replica = state.replicas.get(event["replica"])
    if replica is None or replica.phase is not Phase.STARTING or event.get("start") != replica.starts:
        return state
    return state.with_replica(msgspec.structs.replace(replica, phase=Phase.PENDING, deadline=None))


def _order(state: State, action: Record, now: float) -> State:
    """Take note of a start. Whatever it seemed to be before: a replica ordered to start was not over."""
    replica = state.replicas.get(action["replica"])
    if replica is None or replica.phase is Phase.SUCCEEDED or replica.incarnation is not None:
        return state
    job = state.jobs[replica.job]
    admitted_at = now if job.admitted_at is None else job.admitted_at
    if job.ended_at is not None:
        ended = tuple(name for name in state.ended_jobs if name != job.name)
        state = msgspec.structs.replace(state, ended_jobs=ended)
    state = state.with_job(msgspec.structs.replace(job, admitted_at=admitted_at, ended_at=None))
    return state.with_replica(
        msgspec.structs.replace(
            replica,
            phase=Phase.STARTING,
            node=action["node"],
            starts=action["start"],
            deadline=now + state.settings.deadlines.start,
            not_before=0.0,
            holds=False,
            crashes=min(replica.crashes, job.spec.restarts),
            ended_at=None,
            weight=1.0,
            weighed=False,
            note=action.get("reason", ""),
        )
    )


def _members(state: State, name: str) -> list[Replica]:
    return [state.replicas[replica] for replica in state.jobs[name].spec.replicas]


def _without_spare(state: State, name: str) -> State:
    """Let workers that were scaled in be absent: nothing else says why they are not beside the others."""
    members = _members(state, name)
    if not state.jobs[name].spec.elastic or not any(each.active for each in members):
        return state
    for replica in members:
        spare = replica.phase is Phase.PENDING and replica.role != "ps" and replica.index > 0
        if spare and replica.lost_at is None:
            state = state.with_replica(msgspec.structs.replace(replica, phase=Phase.ABSENT))
    return state


def _tear(state: State, name: str, now: float) -> State:
    """Let what waits beside others of a job that trains as one be missed, so that it is seen to."""
    members = _members(state, name)
    if not state.jobs[name].spec.coupled or not any(each.active for each in members):
        return state
    for replica in members:
        if replica.phase is Phase.PENDING and replica.lost_at is None:
            lost = msgspec.structs.replace(replica, lost_at=now, holds=replica.node is not None)
            state = state.with_replica(lost)
    return state


_SEEN: Final[Mapping[str, Callable[[State, Record, float], State]]] = {
    "NodeObserved": _node,
    "NodeGone": _node_gone,
    "JobSubmitted": _submit,
    "ManagerStarted": _settle,
    "Paused": _pause,
    "ReportReceived": _report,
    "ReplicaStarted": _start,
    "ReplicaGone": _note_gone,
    "StartRefused": _refuse,
}
