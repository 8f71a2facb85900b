"""The simulations of reproductions: in which order they run, and the results collected of them."""

import time
from collections import Counter
from collections.abc import Mapping, Sequence

from msgspec import Struct

from specon_lab.commands.simulation_workload import Source
from specon_lab.engine.run import simulate
from specon_lab.process_pool import Job, Note, OnProgress, run_all, where
from specon_lab.reproduction.experiment import Collected, Measures, Reproduction, Run, Section
from specon_lab.workloads.parameters import parameters_of
from specon_lab.workloads.table import WORKLOADS


class ReproductionTask(Struct, frozen=True, kw_only=True):
    """One simulation of a reproduction."""

    reproduction: str
    run: Run

    @property
    def label(self) -> str:
        """What it is called on the screen."""
        return f"{self.reproduction} {self.run.key}, seed {self.run.seed}"


class Measured(Struct, frozen=True, kw_only=True):
    """What came of a run: its measures, or why it came to nothing."""

    key: str
    seed: int
    measures: Measures | None = None
    failure: str = ""
    cpu_seconds: float = 0.0
    """Of the computer."""


class Reproduced(Struct, frozen=True, kw_only=True):
    """One reproduction after its runs."""

    reproduction: Reproduction
    quick: bool
    asked: int
    """How many runs it consists of."""
    runs: tuple[Measured, ...]
    """Those that were made, in the order in which the reproduction names them."""
    measures: Collected
    """By key, of the keys all of whose runs came to their end."""
    sections: tuple[Section, ...]
    """Made of these."""
    trouble: str = ""
    """Why there are no tables, where none could be made."""

    @property
    def complete(self) -> bool:
        """Whether every run came to its end and the tables could be made of them."""
        return len(self.runs) == self.asked and not self.failures and not self.trouble

    @property
    def failures(self) -> tuple[Measured, ...]:
        """The runs that came to nothing."""
        return tuple(run for run in self.runs if run.measures is None)

    @property
    def cpu_seconds(self) -> float:
        """What its runs took of the computer."""
        return sum(run.cpu_seconds for run in self.runs)


class Plan(Struct, frozen=True, kw_only=True):
    """A reproduction and the runs that were asked for."""

    reproduction: Reproduction
    quick: bool
    runs: tuple[Run, ...]


def make_plan(reproduction: Reproduction, *, quick: bool) -> Plan:
    """Return the plan; raises what the reproduction raises where it cannot be made."""
    return Plan(reproduction=reproduction, quick=quick, runs=tuple(reproduction.runs(quick)))


def run_plans(
    plans: Sequence[Plan], tasks: Sequence[ReproductionTask], *, processes: int, on_progress: OnProgress
) -> tuple[tuple[Reproduced, ...], bool]:
    """Run the tasks of the plans; return what came of each plan, and whether it was interrupted."""
    job = Job(work=_measure, died=_note_death)
    done, interrupted = run_all(tasks, job, processes=processes, on_progress=on_progress)
    found = []
    for plan in plans:
        measured = {
            (tasks[number].run.key, tasks[number].run.seed): result
            for number, result in done.items()
            if tasks[number].reproduction == plan.reproduction.name
        }
        found.append(collect(plan, measured))
    return tuple(found), interrupted


def tasks_of(plans: Sequence[Plan]) -> list[ReproductionTask]:
    """Return all runs, those of the most jobs first, so that no process is left with a long one at the end.

    Those of the same workload and seed follow each other: a process then makes it up once.
    """
    tasks = [
        ReproductionTask(reproduction=plan.reproduction.name, run=run) for plan in plans for run in plan.runs
    ]
    return sorted(tasks, key=lambda task: (-_size(task.run.workload), task.run.workload, task.run.seed))


def collect(plan: Plan, measured: Mapping[tuple[str, int], Measured]) -> Reproduced:
    """Return the tables of the measurements, by key and seed; a key that lacks a run is left out of them."""
    asked = [(run.key, run.seed) for run in plan.runs]
    counts = Counter(key for key, _ in asked)
    seeds: dict[str, list[Measures]] = {}
    for key, seed in asked:
        result = measured.get((key, seed))
        if result is not None and result.measures is not None:
            seeds.setdefault(key, []).append(result.measures)
    whole = {key: found for key, found in seeds.items() if len(found) == counts[key]}
    sections: tuple[Section, ...] = ()
    trouble = ""
    try:
        sections = tuple(plan.reproduction.sections(whole))
    except Exception as error:  # noqa: BLE001  (one broken table takes nothing from the other papers)
        trouble = where(error)
    return Reproduced(
        reproduction=plan.reproduction,
        quick=plan.quick,
        asked=len(asked),
        runs=tuple(measured[each] for each in asked if each in measured),
        measures=whole,
        sections=sections,
        trouble=trouble,
    )


def _size(workload: str) -> int:
    """Return how many jobs a made-up workload has, 0 where nothing says so; runs take longer with more."""
    name, _, given = workload.partition(":")
    if name not in WORKLOADS:
        return 0
    return int(getattr(parameters_of(given, WORKLOADS[name].settings), "jobs", 0))


def _measure(task: ReproductionTask, on_progress: Note) -> Measured:
    run, began = task.run, time.process_time()
    measures: Measures | None = None
    failure = ""
    try:
        outcome = simulate(
            Source(text=run.workload).read(run.seed),
            run.policy,
            parameters=run.parameters,
            settings=run.settings,
            classifier=run.classifier,
            ticks_only=run.ticks_only,
            on_progress=on_progress,
        )
        measures = dict(run.measure(outcome))
    except Exception as error:  # noqa: BLE001  (one broken run takes nothing from the others)
        failure = where(error)
    spent = time.process_time() - began
    return Measured(key=run.key, seed=run.seed, measures=measures, failure=failure, cpu_seconds=spent)


def _note_death(task: ReproductionTask, reason: str) -> Measured:
    return Measured(key=task.run.key, seed=task.run.seed, failure=reason)
