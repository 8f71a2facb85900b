"""Restarts of jobs that hang, if their owners want that: from the last save, a limited number of times."""

from collections.abc import Iterable
from typing import Final

import msgspec

from specon_manager.core.state import State, Step
from specon_manager.core.transaction.begin import restart
from specon_manager.model.actions import Action
from specon_manager.model.cluster import Job, Phase, Replica
from specon_manager.model.hanging import hung_replicas, silence_of
from specon_manager.model.snapshot import Snapshot
from specon_sidecar.counts import format_times

_FRESH: Final = 300.0
"""Seconds; an older report of a hang says nothing about the present."""


def restart_hung(state: State, now: float) -> Step:
    """Return the state in which hung jobs are about to start again, if they may, and the orders."""
    actions = list[Action]()
    for replica in hung_replicas(state.snapshot(now)):
        snapshot = state.snapshot(now)
        if objection(replica, snapshot) is not None:
            continue
        job = state.jobs[replica.job]
        hang = replica.progress.hang
        assert hang is not None
        state = state.with_job(msgspec.structs.replace(job, hang_restarts=job.hang_restarts + 1))
        silent = f"no step for {silence_of(replica.progress, now):.0f} s"
        why = f"{replica.name} hangs: {silent}, usually {hang.usual:.3g} s"
        names = [each.name for each in _about(replica, snapshot)]
        state, ordered = restart(state, names, _savers(replica, snapshot), now, why)
        actions += ordered
    return state, actions


def objection(replica: Replica, snapshot: Snapshot) -> str | None:
    """Return why a replica that hangs is not restarted, in words; None where it may be."""
    job, most = snapshot.jobs[replica.job], snapshot.settings.budgets.hang_restarts_per_job
    if job.spec.on_hang != "restart":
        return "its owner wants it reported only"
    if job.name in snapshot.changing or any(
        each.name in snapshot.moving for each in _about(replica, snapshot)
    ):
        return "a transaction of it is in flight"
    if job.hang_restarts >= most:
        return f"it was restarted {format_times(job.hang_restarts)} since it hung, which is its budget"
    at = replica.progress.reported_at
    if at is None or snapshot.now - at > _FRESH:
        return "nothing was heard of it lately: it may train by now"
    if _whole(job) and (gone := _not_running(job, snapshot)):
        return gone
    if job.owned and (against := _not_by_owner(job)):
        return against
    return _explain_unsaved(job, _savers(replica, snapshot))


def _not_by_owner(job: Job) -> str:
    """Return why the owner of a job cannot be made to restart it; empty where it can."""
    if not _whole(job):
        return "its replicas train by themselves, and their owner restarts nothing less than all of them"
    return job.spec.immovable


def _not_running(job: Job, snapshot: Snapshot) -> str:
    """Return why not all of a job can be restarted; empty where all that it has of workers runs."""
    workers = [snapshot.replicas[name] for name in job.spec.worker_names]
    ended = next((each.name for each in workers if each.phase is Phase.SUCCEEDED), None)
    if ended is not None:
        return f"{ended} has ended: the other workers cannot train alone"
    if not any(each.phase is Phase.RUNNING for each in workers):
        return "it has no worker any more"
    return ""


def _explain_unsaved(job: Job, savers: Iterable[Replica]) -> str | None:
    """Return why the checkpoints do not permit an end."""
    steps, savers = set[int](), list(savers)
    if not savers:
        return "none of its workers runs that saves"
    for each in savers:
        saved = each.progress.checkpoint
        if saved is None or not saved.verified:
            return f"{each.name} has no verified checkpoint to resume from"
        steps.add(saved.step)
    return "its workers saved at different steps last" if job.spec.coupled and len(steps) > 1 else None


def _whole(job: Job) -> bool:
    """Whether all of a job is restarted: else its replicas train by themselves, and one of them is."""
    return job.spec.coupled or len(job.spec.replicas) == 1


def _about(replica: Replica, snapshot: Snapshot) -> list[Replica]:
    """Return what ends and starts again."""
    job = snapshot.jobs[replica.job]
    if not _whole(job):
        return [replica]
    members = (snapshot.replicas[name] for name in job.spec.replicas)
    return [each for each in members if each.phase is Phase.RUNNING]


def _savers(replica: Replica, snapshot: Snapshot) -> list[Replica]:
    """Return those whose checkpoints stand for the restarted replicas."""
    job = snapshot.jobs[replica.job]
    if not _whole(job):
        return [replica]
    workers = [each for each in _about(replica, snapshot) if each.name in job.spec.worker_names]
    return workers if job.spec.savers == "all" else [snapshot.replicas[job.spec.worker_names[0]]]
