"""The simulations of a command: what each of them is, and what came of them."""

import time
from collections.abc import Sequence

import msgspec
from msgspec import Struct

from specon_lab.commands.simulation_choice import PolicyChoice, read_settings
from specon_lab.commands.simulation_workload import Source
from specon_lab.engine.run import preempting_freely, settings_for, simulate
from specon_lab.process_pool import Job, Note, OnProgress, run_all, where
from specon_lab.results.report import ReportedRun, condense
from specon_manager.policies.table import policy_named


class SimulationTask(Struct, frozen=True, kw_only=True):
    """One run: a policy, a workload and a seed."""

    policy: PolicyChoice
    workload: Source
    seed: int
    settings: tuple[str, ...]
    """`key=value` of the owner's settings; the others are those that fit the workload."""
    oracle: bool | None
    ticks_only: bool
    stays: bool
    """Whether to keep where everything ran."""


class Failure(Struct, frozen=True, kw_only=True):
    """A run that came to nothing."""

    policy: str
    seed: int
    reason: str
    """The error and where it arose."""


class Results(Struct, frozen=True, kw_only=True):
    """What came of the tasks, in their order."""

    runs: tuple[ReportedRun, ...]
    failures: tuple[Failure, ...]
    interrupted: bool

    def without_timing(self) -> "Results":
        """Return the same without how long the computer took: nothing in it differs from day to day."""
        runs = tuple(msgspec.structs.replace(run, seconds=None) for run in self.runs)
        return msgspec.structs.replace(self, runs=runs)


def run_tasks(tasks: Sequence[SimulationTask], *, processes: int, on_progress: OnProgress) -> Results:
    """Run every task; after Ctrl-C or SIGTERM return at once with the runs that are over."""
    job = Job(work=_outcome_of, died=_report_death)
    done, interrupted = run_all(tasks, job, processes=processes, on_progress=on_progress)
    return Results(
        runs=tuple(result for result in done.values() if isinstance(result, ReportedRun)),
        failures=tuple(result for result in done.values() if isinstance(result, Failure)),
        interrupted=interrupted,
    )


def _report_death(task: SimulationTask, reason: str) -> ReportedRun | Failure:
    return Failure(policy=task.policy.label, seed=task.seed, reason=reason)


def _outcome_of(task: SimulationTask, on_progress: Note) -> ReportedRun | Failure:
    began = time.perf_counter()
    try:
        workload = task.workload.read(task.seed)
        settings = settings_for(workload)
        if policy_named(task.policy.name).clairvoyant:
            settings = preempting_freely(settings)
        outcome = simulate(
            workload,
            task.policy.name,
            parameters=task.policy.parameters,
            settings=read_settings(task.settings, settings),
            oracle=task.oracle,
            ticks_only=task.ticks_only,
            stays=task.stays,
            on_progress=on_progress,
        )
        return condense(outcome, task.policy.label, seed=task.seed, seconds=time.perf_counter() - began)
    except Exception as error:  # noqa: BLE001  (one broken policy takes nothing from the others)
        return Failure(policy=task.policy.label, seed=task.seed, reason=where(error))
