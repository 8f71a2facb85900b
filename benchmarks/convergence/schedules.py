"""What an order of jobs is worth: recorded runs on two processors, served by what sidecars say of them.

A model of one machine: a processor serves one job at a time, switching costs nothing, and the order is
renewed after each second. All orders are compared with equal shares. The one that knows when each job
converges, by hindsight, is the best to hope for.
"""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Final

from curves import Run
from replay import replay
from truth import Kind, truth

from specon_manager.policies.prospects import rank
from specon_sidecar.classify import Category, ClassifierSettings
from specon_sidecar.classify.horizon import judge_by_horizon
from specon_sidecar.classify.judgement import Judgement, begin

LIMIT: Final = 0.02
WORLDS: Final = 100
_PROCESSORS: Final = 2
_JOBS: Final = 12
_GAP: Final = 2  # seconds between arrivals
_LENGTHS: Final = (16, 30, 55)  # seconds of a processor, drawn for each job
_WEIGHT: Final = 0.5  # of convergence: the objective `balanced`
_GAINS: Final = frozenset({Category.PROGRESSING, Category.WATCHING})


@dataclass(frozen=True, kw_only=True)
class Job:
    """A recorded run as a job of so many seconds."""

    arrives: int
    seconds: int
    converges: float
    """Seconds of training until all but `LIMIT` of the gain is made."""
    said: Sequence[Judgement]
    """By second of training: the sidecar's judgement."""


Rule = Callable[[Job, int], float]
"""How much a job counts as having left after so many seconds of training; the least is served first."""


def compare(runs: Sequence[Run]) -> Iterator[tuple[str, float, float, float]]:
    """Yield for each order how much longer jobs take to converge and to complete than with equal shares.

    Both are ratios of sums, and means over the worlds. The last figure is the completion of the job that
    fares worst in a world.
    """
    usable = [run for run in runs if truth(run).kind is Kind.LEARNS and len(run.values) == run.total]
    said: dict[tuple[str, int], tuple[float, Sequence[Judgement]]] = {}
    ratios: dict[str, list[tuple[float, float, float]]] = {}
    for number in range(WORLDS):
        jobs = _draw(usable, random.Random(number), said)
        converged, completed = _serve_equally(jobs)
        for name, rule in ORDERS.items():
            sooner, ended = _serve(jobs, rule)
            worst = max(ours / theirs for ours, theirs in zip(ended, completed, strict=True))
            found = sum(sooner) / sum(converged) - 1, sum(ended) / sum(completed) - 1, worst - 1
            ratios.setdefault(name, []).append(found)
    for name, found in ratios.items():
        converged, completed, worst = (fmean(each) for each in zip(*found, strict=True))
        yield name, converged, completed, worst


def _draw(
    runs: Sequence[Run], chance: random.Random, said: dict[tuple[str, int], tuple[float, Sequence[Judgement]]]
) -> Sequence[Job]:
    jobs = []
    for index in range(_JOBS):
        run, seconds = chance.choice(runs), chance.choice(_LENGTHS)
        key = f"{run.family}/{run.name}", seconds
        if key not in said:
            said[key] = _find_convergence(run), _judge(run, seconds)
        part, judgements = said[key]
        job = Job(arrives=index * _GAP, seconds=seconds, converges=part * seconds, said=judgements)
        jobs.append(job)
    return jobs


def _find_convergence(run: Run) -> float:
    hindsight = truth(run)
    report = next(index for index in range(run.total) if hindsight.converged(index, LIMIT))
    return run.seconds[report] / run.seconds[-1]


def _judge(run: Run, seconds: int) -> Sequence[Judgement]:
    settings = ClassifierSettings(interval=1.0, goal=run.goal)
    judgement, judgements = begin(0.0, settings), []
    for number, view in enumerate(replay(run, seconds, total_known=True), 1):
        values, done = view.curve.values, view.curve.done
        judgement = judge_by_horizon(
            judgement, view.interval, values, done, now=float(number), settings=settings
        )
        judgements.append(judgement)
    # Seconds before the first report have no view.
    return [begin(0.0, settings)] * (seconds - len(judgements)) + judgements


def _by_end(job: Job, trained: int) -> float:
    return job.seconds - trained


def _by_hindsight(job: Job, trained: int) -> float:
    remaining = job.seconds - trained
    return rank(remaining, max(0.0, job.converges - trained) / remaining, _WEIGHT)


def _by_sidecar(job: Job, trained: int) -> float:
    if not trained:
        return 0.0  # it is tried first
    judgement = job.said[trained - 1]
    if judgement.category is Category.CONVERGED:
        part: float | None = 0.0
    else:
        part = judgement.until_converged if judgement.category in _GAINS else None
    return rank(job.seconds - trained, part, _WEIGHT)


ORDERS: Final[Mapping[str, Rule]] = {
    "least left to the end, as it is": _by_end,
    "`balanced`, convergence as it is": _by_hindsight,
    "`balanced`, convergence as sidecars say": _by_sidecar,
}


def _serve(jobs: Sequence[Job], rule: Rule) -> tuple[list[float], list[float]]:
    """Return times to convergence and completion times of the jobs, each from its arrival, seconds."""
    trained = [0] * len(jobs)
    converged, completed = [0.0] * len(jobs), [0.0] * len(jobs)
    now = 0
    while not all(completed):
        here = [i for i, job in enumerate(jobs) if job.arrives <= now and not completed[i]]
        for i in sorted(here, key=lambda i: (rule(jobs[i], trained[i]), i))[:_PROCESSORS]:
            job = jobs[i]
            if trained[i] < job.converges <= trained[i] + 1:
                converged[i] = now + job.converges - trained[i] - job.arrives
            trained[i] += 1
            if trained[i] == job.seconds:
                completed[i] = now + 1 - job.arrives
        now += 1
    return converged, completed


def _serve_equally(jobs: Sequence[Job]) -> tuple[list[float], list[float]]:
    """Return the same where all that are there train at the same pace."""
    trained = [0.0] * len(jobs)
    converged, completed = [0.0] * len(jobs), [0.0] * len(jobs)
    step, ticks = 0.1, 0
    while not all(completed):
        now = ticks * step
        here = [i for i, job in enumerate(jobs) if job.arrives <= now and not completed[i]]
        for i in here:
            job = jobs[i]
            trained[i] += step * min(1.0, _PROCESSORS / len(here))
            if not converged[i] and trained[i] >= job.converges:
                converged[i] = now + step - job.arrives
            if trained[i] >= job.seconds:
                completed[i] = now + step - job.arrives
        ticks += 1
    return converged, completed
