"""A job as a whole: whether it trains, waits again, or is over, after one of its replicas changed."""

from typing import Final

import msgspec

from specon_manager.core.described import as_described
from specon_manager.core.state import State
from specon_manager.model.changes import ChangeKind, ChangeState
from specon_manager.model.cluster import Job, Leaving, Phase, Replica, Served

_KINDS: Final = 1000  # kinds of jobs whose durations are learnt


def regrouped(state: State, name: str, now: float) -> State:
    """Return the state in which the record of the job says what its replicas' records say."""
    job = state.jobs[name]
    if job.owned:
        return _observed(state, job, now)
    if job.ended_at is not None:
        return state
    members = [state.replicas[replica] for replica in job.spec.replicas]
    present = [replica for replica in members if replica.phase is not Phase.ABSENT]
    if all(replica.ended for replica in present):
        return _over(state, job, present, now)
    if any(replica.phase is Phase.FAILED for replica in present):
        return _dissolved(state, job, present, "fail", now)
    if _workers_succeeded(present):
        return _dissolved(state, job, present, "complete", now)
    if not any(replica.active for replica in present):
        state = _reset(state, job, members)
        job = msgspec.structs.replace(_not_training(job, now), queued_at=now)
        state = state.with_job(job)
        # Without those it had grown by, all of its workers may have succeeded.
        present = [
            r for r in map(state.replicas.__getitem__, job.spec.replicas) if r.phase is not Phase.ABSENT
        ]
        return _dissolved(state, job, present, "complete", now) if _workers_succeeded(present) else state
    trains = _trains(state, job, present)
    if trains == (job.trains_since is not None):
        return state
    changed = msgspec.structs.replace(job, trains_since=now) if trains else _not_training(job, now)
    return state.with_job(changed)


def gang_of(state: State, job: Job) -> tuple[str, ...]:
    """Return the replicas that train together now, for those that start: also those that wait after a crash.

    Empty for one replica alone, and where nothing is done with the job as a whole.
    """
    if len(job.spec.replicas) == 1 or not job.spec.transacted:
        return ()
    members = (state.replicas[name] for name in job.spec.replicas)
    return tuple(each.name for each in members if each.phase is not Phase.ABSENT and not each.ended)


def _observed(state: State, job: Job, now: float) -> State:
    """Let the record of a job that its owner places say what is seen of it; it may begin again after its end.

    It is never among `ended_jobs`: it is remembered for as long as it is there.
    """
    if job.spec.present is not None and not job.spec.top_down:
        state = as_described(state, job)  # which of them run is seen, not described
    members = [state.replicas[replica] for replica in job.spec.replicas]
    present = [replica for replica in members if replica.phase is not Phase.ABSENT]
    if present and all(replica.ended for replica in present):
        return state if job.ended_at is not None else _over(state, job, present, now)
    trains = any(replica.active for replica in present) and _trains(state, job, present)
    changed = job if job.ended_at is None else msgspec.structs.replace(job, ended_at=None)
    runs = any(replica.phase is Phase.RUNNING for replica in present)
    if runs and job.name in state.claims:
        # Somebody else has let it run: it waits for no room any more.
        claims = {name: claim for name, claim in state.claims.items() if name != job.name}
        state = msgspec.structs.replace(state, claims=claims)
    if job.spec.held and not job.admitted and runs and job.name not in state.changes:
        # It was let run by somebody else, or before this manager came.
        changed = msgspec.structs.replace(changed, admitted=True)
        state = as_described(state, changed)
    if trains and job.trains_since is None:
        admitted = now if job.admitted_at is None else job.admitted_at
        changed = msgspec.structs.replace(changed, trains_since=now, admitted_at=admitted)
    elif not trains and job.trains_since is not None:
        changed = _not_training(changed, now)
    return state if changed is job else state.with_job(changed)


def _trains(state: State, job: Job, present: list[Replica]) -> bool:
    """Whether all of the job trains; while a change of it lets the others train on, all of the others."""
    change = state.changes.get(job.name)
    if change is not None and change.kind is not ChangeKind.ADMIT:
        if change.state is ChangeState.CHECKPOINTING:
            return all(state.replicas[name].phase is Phase.RUNNING for name in change.before)
        if not change.restart and change.kind is not ChangeKind.PREEMPT:
            present = [each for each in present if each.name in change.before and each.name in change.after]
    return all(each.ended or (each.phase is Phase.RUNNING and each.leaving is None) for each in present)


def _not_training(job: Job, now: float) -> Job:
    return msgspec.structs.replace(job, attained_seconds=job.attained(now), trains_since=None)


def _workers_succeeded(present: list[Replica]) -> bool:
    workers = [replica for replica in present if replica.role != "ps"]
    return bool(workers) and all(replica.phase is Phase.SUCCEEDED for replica in workers)


def _over(state: State, job: Job, present: list[Replica], now: float) -> State:
    """Close the job, and learn how long jobs of its kind train."""
    job = msgspec.structs.replace(_not_training(job, now), ended_at=now)
    state = msgspec.structs.replace(
        state.with_job(job),
        ended_jobs=state.ended_jobs if job.owned else (*state.ended_jobs, job.name),
        claims={name: claim for name, claim in state.claims.items() if name != job.name},
    )
    kind = kind_of(job)
    if not all(replica.phase is Phase.SUCCEEDED for replica in present):
        return state
    if kind not in state.served and len(state.served) >= _KINDS:
        return state
    known = state.served.get(kind, Served())
    mean = known.mean_seconds + (job.attained_seconds - known.mean_seconds) / (known.jobs + 1)
    learnt = Served(jobs=known.jobs + 1, mean_seconds=mean)
    return msgspec.structs.replace(state, served={**state.served, kind: learnt})


def kind_of(job: Job) -> str:
    """Return what the durations of this job are learnt under."""
    return job.spec.kind or job.spec.job_class


def _dissolved(state: State, job: Job, present: list[Replica], purpose: str, now: float) -> State:
    """Let what is left of a job end: parameter servers never do by themselves, nor the peers of a failure."""
    assert purpose in {"complete", "fail"}
    why = "its job is complete" if purpose == "complete" else "another replica of its job failed for good"
    waits = False
    for replica in present:
        if replica.ended or replica.leaving is not None:
            waits = waits or not replica.ended
            continue
        if replica.active:
            leaving = Leaving(purpose=purpose, since=now, deadline=now, reason=why)  # type: ignore[arg-type]
            state = state.with_replica(msgspec.structs.replace(replica, leaving=leaving))
            waits = True
        else:
            phase = Phase.SUCCEEDED if purpose == "complete" else Phase.FAILED
            over = msgspec.structs.replace(replica, phase=phase, ended_at=now, deadline=None, note=why)
            state = state.with_replica(over)
    state = state.with_job(_not_training(state.jobs[job.name], now))
    return state if waits else regrouped(state, job.name, now)


def _reset(state: State, job: Job, members: list[Replica]) -> State:
    """Let a job that occupies nothing wait with the workers that its owner asked for."""
    wanted = set(job.spec.ps) | set(job.spec.worker_names[: job.spec.wanted_workers])
    for replica in members:
        phase = Phase.PENDING if replica.name in wanted else Phase.ABSENT
        if replica.phase is not phase and not replica.ended:
            state = state.with_replica(msgspec.structs.replace(replica, phase=phase))
    return state


def pruned(state: State) -> State:
    """Forget the jobs that ended longest ago, beyond those that the settings say are remembered."""
    keep = state.settings.retention
    spare = max(64, keep // 4)  # many at once: each time copies what is left
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
