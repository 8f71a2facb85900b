"""`simulate`: one workload, one policy, one outcome."""

import itertools
import math
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from specon_lab.engine.account import Account
from specon_lab.engine.beginning import Beginning
from specon_lab.engine.engine import Check, Engine
from specon_lab.engine.outcome import Outcome
from specon_lab.workloads.workload import Submission, Workload
from specon_manager.model.settings import Deadlines, Settings
from specon_manager.policies.table import policy_named, settings_of
from specon_sidecar.classify import ClassifierSettings

_REMEMBERED: Final = 50  # ended jobs: no policy looks at them, and each step copies them
_TICKS: Final = 120  # of a job of mean length, where that makes ticks longer than the default
_LONGEST_TICK: Final = 60.0
_ANY_NUMBER: Final = 10**6
_PATIENCE: Final = 20.0  # times as long as all jobs take one after the other


def simulate(
    workload: Workload,
    policy: str,
    *,
    parameters: Mapping[str, Any] | None = None,
    settings: Settings | None = None,
    oracle: bool | None = None,
    classifier: ClassifierSettings | None = None,
    ticks_only: bool = False,
    stays: bool = False,
    limit: float | None = None,
    beginning: Beginning | None = None,
    on_progress: Callable[[float], None] | None = None,
    check: Check | None = None,
) -> Outcome:
    """Return what becomes of the workload under the policy; the same arguments give the same outcome.

    `settings` are those of the manager (budgets, gate, deadlines, tick); None: `settings_for`. Policy and
    parameters in them do not count, and of ended jobs only a few are remembered. With `oracle` the manager is
    told how long each job trains, exactly; None: where the policy is one that needs it. `classifier` is what
    sidecars judge curves by, None: as they do by default; its interval is that of the workload. With
    `ticks_only` the policy is asked at the regular ticks only, and not also whenever the cluster changes.
    `stays` keeps where everything ran. At `limit` seconds the simulation ends, whatever is unfinished; None:
    when all jobs one after the other would have been over twenty times. `beginning` is the world at the
    begin; its jobs are of the workload, and arrive at 0. `on_progress` gets the part of the jobs that ended,
    `check` is called after each step.

    Raises ValueError naming the mistake in the workload, the policy or its parameters.
    """
    check_workload(workload)
    known = policy_named(policy)
    given = {} if parameters is None else dict(parameters)
    settings_of(known, given)
    settings = settings_for(workload) if settings is None else settings
    settings = msgspec.structs.replace(
        settings, policy=policy, parameters=given, retention=min(settings.retention, _REMEMBERED)
    )
    if limit is None:
        limit = _last_event(workload) + _PATIENCE * sum(_longest(job) for job in workload.jobs)
    account = Account(workload, stays=stays)
    engine = Engine(
        workload,
        settings,
        account,
        oracle=known.clairvoyant if oracle is None else oracle,
        classifier=classifier,
        ticks_only=ticks_only,
        limit=limit,
        beginning=beginning,
        on_progress=on_progress,
        check=check,
    )
    engine.run()
    jobs = account.outcomes()
    unfinished = any(job.state == "unfinished" for job in jobs)
    makespan = max(0.0, (engine.now if unfinished else account.last_at) - account.first_at)
    allocated, used = account.use.mean(makespan)
    return Outcome(
        workload=workload.name,
        policy=policy,
        seed=workload.seed,
        jobs=jobs,
        makespan=makespan,
        allocated=allocated,
        used=used,
        use=account.use.points(),
        stays=tuple(account.stays),
        moves_failed=account.moves_failed,
        refusals=dict(sorted(engine.refusals.items())),
        decisions=engine.ticks,
    )


def settings_for(workload: Workload) -> Settings:
    """Return settings that fit a workload: deadlines that what takes long in it can meet, and a tick.

    The tick is the default, five seconds, and longer where jobs take long, up to a minute.
    """
    trainings = [job.training for job in workload.jobs]
    default = Deadlines()
    start = max((t.start_seconds + t.restore_seconds for t in trainings), default=0.0)
    save = max((t.save_seconds for t in trainings), default=0.0)
    step = max((t.seconds * t.slowest / t.steps for t in trainings), default=0.0)
    # The proof of a resume is a printed step: 20 of them in an interval, or one in the time that it takes.
    verify = 3 * max(workload.report_seconds, len(workload.jobs) * step)
    mean = sum(t.seconds for t in trainings) / len(trainings) if trainings else 0.0
    tick = max(Settings().tick, min(_LONGEST_TICK, mean / _TICKS))
    return Settings(
        tick=tick,
        reweight=True,
        retention=_REMEMBERED,
        deadlines=Deadlines(
            start=max(default.start, 2 * start + tick),
            checkpoint=max(default.checkpoint, 2 * save + tick),
            verify=min(1e9, max(default.verify, verify + tick)),
        ),
    )


def preempting_freely(settings: Settings) -> Settings:
    """Return the settings without a bound on how often a job is preempted, whichonly a bound may have."""
    return msgspec.structs.replace(
        settings, budgets=msgspec.structs.replace(settings.budgets, preemptions_per_job=_ANY_NUMBER)
    )


def check_workload(workload: Workload) -> None:
    """Raise ValueError naming the mistake in a workload that can be built and not be simulated."""
    names = [node.name for node in workload.nodes]
    if not names:
        raise ValueError("nodes: a workload needs at least one")
    if (double := _double(names)) is not None:
        raise ValueError(f"nodes: there are two with the name {double!r}")
    for failure in workload.failures:
        if failure.node not in names:
            raise ValueError(f"failures: there is no node {failure.node!r}")
    if (double := _double([job.spec.name for job in workload.jobs])) is not None:
        raise ValueError(f"jobs: there are two with the name {double!r}")
    replicas = itertools.chain.from_iterable(job.spec.replicas for job in workload.jobs)
    if (double := _double(list(replicas))) is not None:
        raise ValueError(f"jobs: there are two replicas with the name {double!r}")
    for job in workload.jobs:
        if not job.spec.worker_names:
            raise ValueError(f"jobs: {job.spec.name} has no worker")
        numbers = (job.at, job.training.seconds, job.training.demand, job.training.start_seconds)
        if not all(math.isfinite(number) and number >= 0 for number in numbers) or job.training.seconds <= 0:
            raise ValueError(f"jobs: {job.spec.name} has a time or a demand out of bounds: {numbers}")


def _double(names: list[str]) -> str | None:
    if len(set(names)) == len(names):
        return None
    seen: set[str] = set()
    return next(name for name in names if name in seen or seen.add(name))  # type: ignore[func-returns-value]


def _last_event(workload: Workload) -> float:
    ends = [job.at for job in workload.jobs]
    return max((*ends, *(failure.at + failure.seconds for failure in workload.failures)), default=0.0)


def _longest(job: Submission) -> float:
    """Return how long a job takes by itself, with a start, a stop and the slack of deadlines."""
    training = job.training
    trains = training.seconds * training.slowest
    return trains + training.start_seconds + training.restore_seconds + job.spec.grace_seconds + 60.0
