"""From a manager's state to a simulation of the rest, and what a policy would do at once. Pure.

Nobody knows how long jobs still train; the forecast rests on estimates, and each names its basis:

- `measured`: steps and pace that its sidecar reports;
- `declared`: what its owner said, less what it has trained;
- `learnt`: the mean of completed jobs of its kind, or of all kinds where its own has too few;
- `assumed`: a number that was given, as nothing was learnt yet.

A job that outlived an expectation of the latter two is taken to be half done (`policies/expectation.py`).
"""

import math
from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec
from msgspec import Struct

from specon_lab.engine.beginning import Beginning, Underway
from specon_lab.engine.run import settings_for
from specon_lab.forecasts.settled import compute_attained_service, settle_all
from specon_lab.workloads.workload import Submission, Training, Workload
from specon_manager.core.admission_gate import prepare
from specon_manager.core.plan import Ruling, plan
from specon_manager.core.proposals import proposals
from specon_manager.core.state import State
from specon_manager.model.cluster import Claimed, Job, JobSpec, Replica
from specon_manager.model.settings import Settings
from specon_manager.policies.expectation import Expectation
from specon_manager.policies.shared_nodes import reserves
from specon_manager.policies.table import policy_named
from specon_sidecar.classify.curve import Estimate

Basis = Literal["measured", "declared", "learnt", "assumed"]

APPROXIMATIONS: Final = (
    "nothing else arrives",
    "no node fails, and no job crashes",
    "a job gains in proportion to its workers, on every model of GPU alike, and its network costs nothing",
    "a job that reserves nothing uses all the processors of its node when it can",
    "replicas told to leave are gone, replicas told to start or to move are there",
    "jobs are admitted, scaled and preempted at once, and nothing fails",
    "a job that is converged stays so, and one that is not does not become it",
)
"""Assumptions beside the estimates, in words; the last of them of convergence."""

_ENOUGH: Final = 3  # completed jobs of any kind, before a mean of them is believed (as the policies do)
_LEAST, _MOST = 1e-3, 1e9  # seconds of training
_MOST_DONE: Final = 0.99  # of the steps: one that is over its last step still has a little to do


class Remaining(Struct, frozen=True, kw_only=True):
    """How long a job is taken to train still, alone and with the workers that its owner asked for."""

    job: str
    seconds: float
    uncertainty: float | None
    """Half-width of the sidecar's interval, seconds; None where nobody says."""
    basis: Basis
    waits: bool
    """Whether it occupies no node."""


class Forecast(Struct, frozen=True, kw_only=True):
    """The simulation that shows what becomes of a state."""

    workload: Workload
    beginning: Beginning
    settings: Settings
    """The state's own, with deadlines that the estimates can meet."""
    remaining: tuple[Remaining, ...]
    """In the order of submission."""


def forecast(state: State, now: float, *, prior_seconds: float) -> Forecast:
    """Return the simulation to run: the jobs that have not ended, where they are, with their remaining work.

    Time 0 of the simulation is `now`. `prior_seconds` is how long a job trains where nothing was learnt.
    Raises ValueError where there is nothing to simulate.
    """
    state = settle_all(state, now)
    snapshot = state.snapshot(now)
    nodes = snapshot.ready_nodes
    if not nodes:
        raise ValueError("nodes: there is none that is ready")
    expected = Expectation(snapshot, prior_seconds=prior_seconds)
    cores = max(node.capacity.cpu for node in nodes)
    downtime = state.measured.downtime if state.measured.moves else state.settings.gate.expected_downtime
    submissions, underway, estimates = [], {}, []
    for job in sorted(state.jobs.values(), key=lambda job: (job.order, job.name)):
        replicas = tuple(state.replicas[name] for name in job.spec.replicas)
        left = _remaining(job, replicas, expected, state, now)
        done = _measure_done(job, replicas, left, now)
        submissions.append(
            Submission(
                at=0.0,
                spec=simulate_spec(job.spec),
                training=Training(
                    seconds=left.seconds + done,
                    demand=0.0 if reserves(job.spec) else cores,
                    prints_total=left.basis == "measured",
                    steps=_steps(replicas),
                    stop_seconds=0.0,
                    restore_seconds=downtime,
                    move_seconds=downtime,
                    resize_seconds=downtime,
                ),
            )
        )
        underway[job.name] = Underway(job=_shift_job(job, now), replicas=replicas, done_seconds=done)
        estimates.append(left)
    if not submissions:
        raise ValueError("jobs: all of them have ended")
    workload = Workload(name="what-if", nodes=nodes, jobs=tuple(submissions))
    return Forecast(
        workload=workload,
        beginning=Beginning(
            jobs={
                name: msgspec.structs.replace(each, replicas=tuple(_shift(r, now) for r in each.replicas))
                for name, each in underway.items()
            },
            served=state.served,
            claims={name: _shift_claim(claim, now) for name, claim in state.claims.items()},
            measured=state.measured,
            changed_at=state.changed_at - now,
        ),
        settings=_settings(state, workload),
        remaining=tuple(estimates),
    )


def verdicts_now(
    state: State, now: float, policy: str, parameters: Mapping[str, Any], told: tuple[Remaining, ...]
) -> tuple[Ruling, ...]:
    """Return what a policy proposes on this state, and what of it would be ordered; nothing is changed.

    A policy that is a bound is told the estimates as if they were true. Raises ValueError naming a policy or
    a parameter that is not known.
    """
    known = policy_named(policy)
    # The question is which orders would be given: a dry run would give none.
    asked = msgspec.structs.replace(state.settings, policy=policy, parameters=parameters, dry_run=False)
    state = msgspec.structs.replace(state.flatten(), settings=asked)
    if known.clairvoyant:
        state = _inform(state, now, told)
    state, snapshot = prepare(state, now)
    return plan(state, proposals(snapshot), now, snapshot)


def _remaining(
    job: Job, replicas: tuple[Replica, ...], expected: Expectation, state: State, now: float
) -> Remaining:
    waits = not any(r.active for r in replicas)
    uncertainty: float | None = None
    seconds = expected.remaining(job)
    basis: Basis = "assumed"
    if expected.measured(job):
        basis = "measured"
        told = [r.progress for r in replicas if r.progress.remaining_seconds is not None]
        if told and told[0].cpu_per_step is None:
            # At the speed that it has: that of its present workers.
            workers = sum(r.active and r.role != "ps" for r in replicas) or job.spec.wanted_workers
            factor = workers / job.spec.wanted_workers
            seconds *= factor
            estimate = told[0].remaining_seconds
            uncertainty = None if estimate is None else min(_MOST, estimate.uncertainty * factor)
    elif job.spec.declared_seconds is not None:
        basis, seconds = "declared", job.spec.declared_seconds - compute_attained_service(job, now)
    elif any(each.jobs >= _ENOUGH for each in state.served.values()):
        basis = "learnt"
    return Remaining(
        job=job.name,
        seconds=min(_MOST, max(_LEAST, seconds)) if math.isfinite(seconds) else _MOST,
        uncertainty=uncertainty,
        basis=basis,
        waits=waits,
    )


def _measure_done(job: Job, replicas: tuple[Replica, ...], left: Remaining, now: float) -> float:
    """Return how much of its training is done, in the same seconds as its remaining time."""
    if left.basis == "measured":
        for told in (r.progress for r in replicas):
            if told.step is not None and told.total_steps is not None:
                part = min(_MOST_DONE, max(0.0, told.step / max(1, told.total_steps)))
                return left.seconds * part / (1 - part)
    return compute_attained_service(job, now)


def _steps(replicas: tuple[Replica, ...]) -> int:
    totals = (r.progress.total_steps for r in replicas)
    return max(1, next((total for total in totals if total is not None), 1000))


def _shift_job(job: Job, now: float) -> Job:
    return msgspec.structs.replace(
        job,
        submitted_at=job.submitted_at - now,
        queued_at=job.queued_at - now,
        admitted_at=None if job.admitted_at is None else job.admitted_at - now,
        attained_seconds=compute_attained_service(job, now),
        trains_since=None if job.trains_since is None else job.trains_since - now,
        preempted_at=tuple(at - now for at in job.preempted_at),
        cooldown_until=max(0.0, job.cooldown_until - now),
    )


def _shift(replica: Replica, now: float) -> Replica:
    told = replica.progress
    progress = msgspec.structs.replace(
        told,
        category_since=told.category_since - now,
        step_at=None if told.step_at is None else told.step_at - now,
        reported_at=None if told.reported_at is None else told.reported_at - now,
        sessions=(),
    )
    return msgspec.structs.replace(
        replica, progress=progress, cooldown_until=max(0.0, replica.cooldown_until - now)
    )


def _shift_claim(claim: Claimed, now: float) -> Claimed:
    return msgspec.structs.replace(claim, until=claim.until - now)


def simulate_spec(spec: JobSpec) -> JobSpec:
    """Return the description of a job that nobody's owner starts: the simulator does what owners do.

    What may not be done to the job may not be done in the simulation either.
    """
    ours = spec.placed_by == "manager" or spec.held
    return msgspec.structs.replace(
        spec,
        declared_seconds=None,
        template={},
        placed_by="manager",
        held=False,
        present=None,
        resizing="none" if spec.resizing == "none" or not spec.adjustable else "at-once",
        unpreemptible=spec.unpreemptible or ("" if ours else "its owner places it"),
    )


def _settings(state: State, workload: Workload) -> Settings:
    """Return the settings with no deadline that the workload cannot meet, and with orders really given."""
    settings = state.settings
    fit, given = settings_for(workload).deadlines, settings.deadlines
    deadlines = msgspec.structs.replace(
        given,
        start=max(given.start, fit.start),
        checkpoint=max(given.checkpoint, fit.checkpoint),
        verify=max(given.verify, fit.verify),
    )
    return msgspec.structs.replace(
        settings, deadlines=deadlines, queues=tuple(state.queues.values()), dry_run=False
    )


def _inform(state: State, now: float, told: tuple[Remaining, ...]) -> State:
    """Return the state in which the remaining time is taken to be known."""
    jobs, replicas = dict(state.jobs), dict(state.replicas)
    for each in told:
        job = jobs[each.job]
        spec = msgspec.structs.replace(job.spec, declared_seconds=job.attained(now) + each.seconds)
        jobs[each.job] = msgspec.structs.replace(job, spec=spec)
        exact = Estimate(value=each.seconds, uncertainty=0.0)
        for name in spec.replicas:
            progress = msgspec.structs.replace(
                replicas[name].progress, remaining_seconds=exact, reported_at=now
            )
            replicas[name] = msgspec.structs.replace(replicas[name], progress=progress)
    return msgspec.structs.replace(state, jobs=jobs, replicas=replicas)
