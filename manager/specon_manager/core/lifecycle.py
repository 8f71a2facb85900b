"""The life of jobs and replicas: submitted, started, gone; crashes are restarted, ends are counted."""

import msgspec

from specon_manager.core.orders import order_weight, start_order
from specon_manager.core.owner_phases import first_phase
from specon_manager.core.restarts import close_replica, eviction, put_back, restart_crashed
from specon_manager.core.state import State, Step, unwanted_key
from specon_manager.model import events as ev
from specon_manager.model.actions import StartReplica
from specon_manager.model.cluster import Job, Phase, Replica, Unwanted, index_of, role_of
from specon_manager.model.overlay import change_one


def job_submitted(state: State, event: ev.JobSubmitted, now: float) -> Step:
    """Take a job in; a name that is known already changes nothing."""
    spec = event.spec
    if spec.name in state.jobs:
        return state, []
    job = Job(spec=spec, order=state.job_count, submitted_at=now, queued_at=now)
    spare = set(spec.worker_names[spec.wanted_workers :])
    replicas = state.replicas
    for name in spec.replicas:
        phase = Phase.ABSENT if name in spare else Phase.PENDING
        replica = Replica(
            name=name,
            job=spec.name,
            role=role_of(name),
            index=index_of(name),
            requests=spec.requests_of(name),
            phase=first_phase(job, name) if job.owned else phase,
        )
        replicas = change_one(replicas, name, replica)
    jobs = change_one(state.jobs, spec.name, job)
    return msgspec.structs.replace(state, jobs=jobs, replicas=replicas, job_count=state.job_count + 1), []


def replica_started(state: State, event: ev.ReplicaStarted, now: float) -> Step:
    """Take note that an incarnation runs: the one that was ordered, or one that its owner started."""
    replica = state.replicas.get(event.replica)
    if replica is None or event.incarnation in {replica.incarnation, replica.former}:
        return state, []
    if unwanted_key(event.replica, event.incarnation) in state.unwanted:
        return state, []  # it is told to end already
    owned = state.jobs[replica.job].owned
    if owned and replica.incarnation is not None:
        # Its owner starts one after the other: that there is another says that the former one is gone.
        return _note_success(state, replica, event, now)
    if not owned and _is_unwanted(replica, event):
        return _send_away(state, replica, event, now)
    progress = msgspec.structs.replace(
        replica.progress,
        sessions=(),
        cpu_from=None,
        first_step=None,
        stopped=0.0,
        hang=None,
        hung_since=None,
    )
    running = msgspec.structs.replace(
        replica,
        phase=Phase.RUNNING,
        node=event.node,
        incarnation=event.incarnation,
        deadline=None,
        lost_at=None,
        holds=False,
        ended_at=None,  # its owner may have revived it
        progress=progress,
    )
    state = state.with_replica(running)
    if running.leaving is not None:
        # It was told to end before it was seen: now there is an incarnation to name.
        why = f"incarnation {event.incarnation} is to end: {running.leaving.reason}"
        return state, [] if owned else [eviction(state, running, event.incarnation, why)]
    if running.weight == 1.0:  # as every incarnation begins
        return state, []
    state = state.with_replica(msgspec.structs.replace(running, weighed=True))
    return state, [order_weight(running, "as its former incarnation had it")]


def _note_success(state: State, replica: Replica, event: ev.ReplicaStarted, now: float) -> Step:
    """Take note of the end of an incarnation that nobody told of, then of the start of the next one."""
    gone = ev.ReplicaGone(
        replica=replica.name, incarnation=replica.incarnation, evicted=True, reason="another one runs"
    )
    state, actions = replica_gone(state, gone, now)
    if replica.name not in state.replicas:
        return state, actions
    # What the end ordered has come about already.
    actions = [each for each in actions if not isinstance(each, StartReplica)]
    state, ordered = replica_started(state, event, now)
    return state, actions + ordered


def _is_unwanted(replica: Replica, event: ev.ReplicaStarted) -> bool:
    """Whether nothing wants this incarnation: nobody ordered it, or another one was ordered since."""
    if replica.phase is not Phase.STARTING:
        return True
    return event.start is not None and event.start != replica.starts


def _send_away(state: State, replica: Replica, event: ev.ReplicaStarted, now: float) -> Step:
    """Tell an incarnation to end, until it is gone, that was ordered earlier or given up since."""
    spec, margin = state.jobs[replica.job].spec, state.settings.deadlines.eviction_margin
    known = Unwanted(
        replica=replica.name,
        incarnation=event.incarnation,
        since=now,
        deadline=now + spec.grace_seconds + margin,
    )
    key = unwanted_key(replica.name, event.incarnation)
    state = msgspec.structs.replace(state, unwanted={**state.unwanted, key: known})
    why = f"incarnation {event.incarnation} is not wanted: the replica is {replica.phase}"
    return state, [eviction(state, replica, event.incarnation, why)]


def start_refused(state: State, event: ev.StartRefused, now: float) -> Step:
    """Take note that an ordered start did not come about."""
    replica = state.replicas.get(event.replica)
    if replica is None or replica.phase is not Phase.STARTING or event.start != replica.starts:
        return state, []
    return restart_crashed(state, replica, event.reason, now), []


def replica_gone(state: State, event: ev.ReplicaGone, now: float) -> Step:
    """Take note that nothing of an incarnation is left: finished, told to end, or crashed."""
    key = None if event.incarnation is None else unwanted_key(event.replica, event.incarnation)
    if key is not None and key in state.unwanted:
        return _forget_unwanted(state, key, event)
    replica = state.replicas.get(event.replica)
    if replica is None or not replica.active or not _is_news(replica, event):
        return state, []
    replica = msgspec.structs.replace(
        replica, former=event.incarnation or replica.incarnation or replica.former
    )
    state = _note_kill(state.with_replica(replica), event)
    if _has_finished(replica, event):
        return close_replica(state, replica, Phase.SUCCEEDED, now), []
    if event.evicted and replica.leaving is None:
        return put_back(state, replica, _why(event), now), []
    return restart_crashed(state, replica, _why(event), now), []


def _note_kill(state: State, event: ev.ReplicaGone) -> State:
    """Take note that what a transaction told to end had to be killed."""
    transaction = state.transaction_of(event.replica)
    if not event.killed or transaction is None or event.replica not in transaction.ending:
        return state
    killed = (*transaction.killed, event.replica)
    return state.with_transaction(msgspec.structs.replace(transaction, killed=killed))


def _forget_unwanted(state: State, key: str, event: ev.ReplicaGone) -> Step:
    """Forget an incarnation that was told to end; what it kept from starting is ordered once more."""
    unwanted = {name: each for name, each in state.unwanted.items() if name != key}
    state = msgspec.structs.replace(state, unwanted=unwanted)
    replica = state.replicas.get(event.replica)
    if replica is None or replica.phase is not Phase.STARTING or replica.leaving is not None:
        return state, []
    return state, [start_order(state, replica, f"incarnation {event.incarnation} is gone at last")]


def _is_news(replica: Replica, event: ev.ReplicaGone) -> bool:
    """Whether the event speaks of the present incarnation, and not of one that was replaced."""
    if replica.incarnation is not None:
        return event.incarnation == replica.incarnation
    if event.incarnation is not None and event.incarnation == replica.former:
        return False
    # A replica that was ordered and not seen yet cannot be gone, unless its eviction was asked for.
    return replica.leaving is not None


def _has_finished(replica: Replica, event: ev.ReplicaGone) -> bool:
    """Whether the training is complete; many trainers answer an eviction with exit code 0 as well."""
    if event.exit_code != 0:
        return False
    if not event.evicted:
        return True
    progress = replica.progress
    return progress.total_steps is not None and (progress.step or 0) >= progress.total_steps


def _why(event: ev.ReplicaGone) -> str:
    code = "killed or lost" if event.exit_code is None else f"exit code {event.exit_code}"
    return f"{code}: {event.reason}" if event.reason else code
