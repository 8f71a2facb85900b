"""A job as a whole: whether it trains, waits again, or is over, as the records of its replicas say."""

from typing import Final

import msgspec

from specon_manager.core.owner_phases import apply_description
from specon_manager.core.paces import forgotten
from specon_manager.core.state import State
from specon_manager.model.cluster import (
    DURATIONS_REMEMBERED,
    KINDS_REMEMBERED,
    Job,
    Leaving,
    Phase,
    Replica,
    Served,
)
from specon_manager.model.transactions import UNTOUCHED_STATES, Kind, Transaction

_GOES: Final = frozenset({"complete", "fail", "scale-in"})
"""What an end is for after which a replica waits for no other start; a worker less is none that failed."""


def group_replicas(state: State, name: str, now: float, *, occupied: bool) -> State:
    """Return the state in which the record of the job says what its replicas' records say.

    `occupied`: whether something of it occupied a node before; if nothing does now, it waits since now. Asked
    again, it says the same.
    """
    job = state.jobs.get(name)
    if job is None:
        return state
    if job.owned:
        return _observe(apply_description(state, job), name, now)
    if job.ended_at is not None:
        return state
    present = _present(state, job)
    if all(replica.ended for replica in present):
        return _over(state, job, present, now)
    if any(replica.phase is Phase.FAILED for replica in present):
        return _dissolve(state, job, present, "fail", now)
    if _workers_succeeded(present):
        return _dissolve(state, job, present, "complete", now)
    if not any(replica.active for replica in present):
        if state.transactions_of(name):
            return _count_training(state, job, now, trains=False)  # its transaction in flight decides
        state = _waits(state, job, now, since_now=occupied)
        # Without those that it had grown by, all of its workers may have succeeded.
        present = _present(state, state.jobs[name])
        return _dissolve(state, job, present, "complete", now) if _workers_succeeded(present) else state
    state = _count_training(state, job, now, trains=_trains(state, job, present))
    return _forget_claims(state, name)


def gang_of(state: State, job: Job) -> tuple[str, ...]:
    """Return the replicas that train together now, for those that start: also those that wait after a crash.

    Empty for one replica alone, and where nothing is done with the job as a whole.
    """
    if len(job.spec.replicas) == 1 or not job.spec.transacted:
        return ()
    members = (state.replicas[name] for name in job.spec.replicas)
    return tuple(each.name for each in members if each.phase is not Phase.ABSENT and not each.ended)


def is_gang(state: State, job: Job) -> bool:
    """Whether it has several replicas now that train as one: a move of one is a move of all."""
    return job.spec.coupled and len(gang_of(state, job)) > 1


def torn_since(state: State, job: Job) -> float | None:
    """Return since when a part of a job that trains as one is missing while another part idles for it."""
    if not job.spec.coupled or job.ended_at is not None or state.transactions_of(job.name):
        return None
    present = _present(state, job)
    lost = [each.lost_at for each in present if each.lost_at is not None and not each.ended]
    if not lost or not any(each.active for each in present):
        return None
    told = any(each.leaving is not None and each.leaving.purpose != "late" for each in present)
    return None if told else min(lost)


def _present(state: State, job: Job) -> list[Replica]:
    members = (state.replicas[replica] for replica in job.spec.replicas)
    return [replica for replica in members if replica.phase is not Phase.ABSENT]


def _observe(state: State, name: str, now: float) -> State:
    """Bring the record of a job that its owner places up to date; it may begin again after its end.

    It is never among `ended_jobs`: it is remembered for as long as it is there.
    """
    job = state.jobs[name]
    present = _present(state, job)
    if present and all(replica.ended for replica in present):
        return state if job.ended_at is not None else _over(state, job, present, now)
    if job.ended_at is not None:
        job = msgspec.structs.replace(job, ended_at=None)
        state = state.with_job(job)
    runs = any(replica.phase is Phase.RUNNING for replica in present)
    if runs:
        state = _forget_claims(state, name)  # someone else may have let it run: it waits for no room any more
    if job.spec.held and not job.admitted and runs and state.whole_transaction_of(name) is None:
        # It was let run by someone else, or before this manager came.
        job = msgspec.structs.replace(job, admitted=True)
        state = apply_description(state.with_job(job), job)
        present = _present(state, job)
    waits = job.spec.held and not job.admitted
    if job.release_due is not None and (waits or all(r.ended or r.phase is Phase.RUNNING for r in present)):
        job = msgspec.structs.replace(job, release_due=None, released=0)
        state = state.with_job(job)
    active = any(replica.active for replica in present)
    if not active:
        state = _let_room_go(state, present)
    return _count_training(state, job, now, trains=active and _trains(state, job, present))


def _trains(state: State, job: Job, present: list[Replica]) -> bool:
    """Whether all of the job trains; while a transaction lets the others train on, all of the others."""
    transaction = state.whole_transaction_of(job.name)
    if transaction is not None and transaction.kind is not Kind.ADMIT:
        if transaction.state in UNTOUCHED_STATES and transaction.changing_at is None:
            present = [state.replicas[name] for name in transaction.before if name in state.replicas]
            return all(each.ended or each.phase is Phase.RUNNING for each in present)
        if _lets_train(transaction):
            both = transaction.before.keys() & transaction.after.keys()
            present = [each for each in present if each.name in both]
    return all(each.ended or (each.phase is Phase.RUNNING and each.leaving is None) for each in present)


def _lets_train(transaction: Transaction) -> bool:
    """Whether those that stay train on while others come or go."""
    return transaction.kind in {Kind.SCALE_IN, Kind.SCALE_OUT} and not transaction.restart


def _count_training(state: State, job: Job, now: float, *, trains: bool) -> State:
    """Let the time count that a job trains."""
    job = state.jobs[job.name]
    if trains == (job.trains_since is not None):
        return state
    if not trains:
        return state.with_job(_not_training(job, now))
    admitted = now if job.admitted_at is None else job.admitted_at
    return state.with_job(msgspec.structs.replace(job, trains_since=now, admitted_at=admitted))


def _not_training(job: Job, now: float) -> Job:
    return msgspec.structs.replace(job, attained_seconds=job.attained(now), trains_since=None)


def _workers_succeeded(present: list[Replica]) -> bool:
    workers = [replica for replica in present if replica.role != "ps"]
    return bool(workers) and all(replica.phase is Phase.SUCCEEDED for replica in workers)


def _over(state: State, job: Job, present: list[Replica], now: float) -> State:
    """Close the job, and learn how long jobs of its kind train."""
    job = msgspec.structs.replace(_not_training(job, now), ended_at=now, release_due=None)
    state = forgotten(_forget_claims(state.with_job(job), job.name), job)
    if not job.owned:
        state = msgspec.structs.replace(state, ended_jobs=(*state.ended_jobs, job.name))
    kind = job.kind
    if not all(replica.phase is Phase.SUCCEEDED for replica in present):
        return state
    if kind not in state.served and len(state.served) >= KINDS_REMEMBERED:
        return state
    known = state.served.get(kind, Served())
    mean = known.mean_seconds + (job.attained_seconds - known.mean_seconds) / (known.jobs + 1)
    latest = (*known.latest, job.attained_seconds)[-DURATIONS_REMEMBERED:]
    learnt = Served(jobs=known.jobs + 1, mean_seconds=mean, latest=latest)
    return msgspec.structs.replace(state, served={**state.served, kind: learnt})


def _forget_claims(state: State, name: str) -> State:
    """Return the state in which no room is kept for a job that does not wait."""
    if name not in state.claims:
        return state
    claims = {job: claim for job, claim in state.claims.items() if job != name}
    return msgspec.structs.replace(state, claims=claims)


def _dissolve(state: State, job: Job, present: list[Replica], purpose: str, now: float) -> State:
    """Let the rest of a job end: parameter servers never do by themselves, nor the peers of a failure."""
    why = "its job is complete" if purpose == "complete" else "another replica of its job failed for good"
    for replica in present:
        if replica.ended or (replica.leaving is not None and replica.leaving.purpose in _GOES):
            continue
        if replica.active:
            # One that was told to end already is not told again before that is due.
            due = now if replica.leaving is None else replica.leaving.deadline
            leaving = Leaving(purpose=purpose, since=now, deadline=due, reason=why)  # type: ignore[arg-type]
            state = state.with_replica(msgspec.structs.replace(replica, leaving=leaving))
        else:
            phase = Phase.SUCCEEDED if purpose == "complete" else Phase.FAILED
            over = msgspec.structs.replace(
                replica, phase=phase, ended_at=now, deadline=None, lost_at=None, holds=False, note=why
            )
            state = state.with_replica(over)
    state = _count_training(state, job, now, trains=False)
    present = _present(state, state.jobs[job.name])
    return _over(state, state.jobs[job.name], present, now) if all(r.ended for r in present) else state


def _waits(state: State, job: Job, now: float, *, since_now: bool) -> State:
    """Let a job that occupies nothing wait with the workers that its owner asked for."""
    wanted = set(job.spec.ps) | set(job.spec.worker_names[: job.spec.wanted_workers])
    members = [state.replicas[replica] for replica in job.spec.replicas]
    for replica in members:
        phase = Phase.PENDING if replica.name in wanted else Phase.ABSENT
        if not replica.ended and replica.phase is not phase:
            state = state.with_replica(msgspec.structs.replace(replica, phase=phase))
    state = _let_room_go(state, [state.replicas[replica.name] for replica in members])
    state = _count_training(state, job, now, trains=False)
    job = state.jobs[job.name]
    if since_now and job.queued_at != now:
        state = state.with_job(msgspec.structs.replace(job, queued_at=now))
    return state


def _let_room_go(state: State, members: list[Replica]) -> State:
    """Free the room that a job without any replica left still holds: its replicas wait for room together."""
    for replica in members:
        if replica.holds or replica.lost_at is not None:
            state = state.with_replica(msgspec.structs.replace(replica, holds=False, lost_at=None))
    return state


def prune_ended(state: State) -> State:
    """Forget the jobs that ended longest ago, beyond those that the settings say are remembered."""
    keep = state.settings.retention
    spare = max(64, keep // 4)  # many at once: each time copies the rest
    if len(state.ended_jobs) <= keep + spare:
        return state
    forgotten = set(state.ended_jobs[: len(state.ended_jobs) - keep])
    replicas = {name: replica for name, replica in state.replicas.items() if replica.job not in forgotten}
    jobs = {name: job for name, job in state.jobs.items() if name not in forgotten}
    verdicts = {name: verdict for name, verdict in state.verdicts.items() if name in replicas or name in jobs}
    return msgspec.structs.replace(
        state,
        jobs=jobs,
        replicas=replicas,
        verdicts=verdicts,
        ended_jobs=state.ended_jobs[len(state.ended_jobs) - keep :] if keep else (),
    )
