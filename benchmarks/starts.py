"""How well it is told when waiting jobs start, beside averages of past waits.

`python benchmarks/starts.py [--json FILE]`. Jobs are simulated to their ends, which is the truth. At
moments in between it is worked out, from the knowledge of then, when those start that wait at positions 1,
2, 4, ... of the queue; where later jobs may go first, when each of the first 32 does. Without `TRACES`, a
directory of published traces as `specon reproduce traces` takes them, jobs are made up from seeds. With
it the cuts are such that nothing was chosen on. `CALIBRATE=1` takes those on which it was, and prints the
factor by which their intervals would have to be longer. `CASE=NAME` runs one alone, and `POLICY=NAME[,...]`
other policies.
"""

import math
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

import msgspec

import figure
from figure import Figure
from interval_cases import FEWEST_CASES, SAME, Case, calibrate
from specon_lab.engine.engine import Moment
from specon_lab.engine.run import settings_for, simulate
from specon_lab.forecasts.start import PATIENT, Budget, expected_starts
from specon_lab.traces.options import TraceOptions
from specon_lab.traces.read import read_workload
from specon_lab.workloads.parameters import parameters_of
from specon_lab.workloads.poisson import PoissonWorkload, generate
from specon_lab.workloads.workload import Workload
from specon_manager.core.state import State
from specon_manager.core.waiting import waiting_jobs
from specon_manager.model.actions import StartReplica
from specon_manager.model.events import Tick
from specon_manager.policies.table import policy_named

POSITIONS = (1, 2, 4, 8, 16, 32)
LATEST = 64
"""Waits in the moving average, as many as durations are remembered."""
SHORTEST = 60.0
"""Errors of what starts sooner are relative to this, seconds."""
_POLLUX = "pollux/workloads/workload-{}.csv:elastic=false,limit=110,nodes=8,start={}"
_TWICE = "pollux/workloads-2.0/workload-{}.csv:elastic=false,limit=110,nodes=8"
_PHILLY = "philly/philly.csv:start={},limit=110,nodes=4"
_SIXTIETH = (0, 13759, 15101, 13958, 12291, 12252, 12938, 14199, 13797)
"""When the 61st job of a workload comes, seconds."""


def _pollux(numbers: Iterable[int]) -> dict[str, str]:
    """Return the first 60 jobs of these workloads."""
    return {f"pollux {number}": _POLLUX.format(number, 0) for number in numbers}


def _later(numbers: Iterable[int]) -> dict[str, str]:
    """Return the 60 jobs after them, on empty nodes."""
    return {f"pollux {n}, later": _POLLUX.format(n, _SIXTIETH[n]) for n in numbers}


def _twice(numbers: Iterable[int]) -> dict[str, str]:
    """Return the first 60 jobs at twice the load."""
    return {f"pollux {number}, twice the load": _TWICE.format(number) for number in numbers}


def _philly(starts: Iterable[int]) -> dict[str, str]:
    """Return 60 jobs from these seconds on: there are enough of them that jobs wait."""
    return {f"philly, day {start // 86400}": _PHILLY.format(start) for start in starts}


_CALIBRATED, _JUDGED = (1, 2, 3, 4), (5, 6, 7, 8)
CALIBRATED_ON = {
    True: _pollux(_CALIBRATED) | _later(_CALIBRATED) | _philly((4000000, 6500000)),
    False: _pollux(_CALIBRATED) | _twice(_CALIBRATED),
}
"""By whether jobs start in the order of their submission: where later ones may go first fewer wait."""
JUDGED_ON = {
    True: _pollux(_JUDGED) | _later(_JUDGED) | _philly((4592000, 5000000)),
    False: _pollux(_JUDGED) | _twice(_JUDGED),
}
_NEAR = 1200.0
"""Waits below this, seconds, are judged by themselves too: a share of the work does not look much farther."""
CALIBRATE = bool(os.environ.get("CALIBRATE"))
POLICIES = ("fifo", "progress", "quota-fifo")
_MOMENTS, _EVERY = 20, 3
"""Of so many moments, spread evenly, those at which jobs wait count, and of these each third."""
_TURNED_MOMENTS = 6
"""The same where later jobs may go first: each of these moments counts, and all who wait at it."""
_LAST = 60
"""The submission until which moments are: others come after it, as they do where nobody knows the end."""
_BUDGET = msgspec.structs.replace(PATIENT, seconds=3000.0)
"""What a manager spends, on however slow a machine."""
_TURNED_BUDGET = msgspec.structs.replace(_BUDGET, work=800_000 / 3)
"""Where later jobs may go first: a tenth of that, so that the benchmark has an end; it looks less far."""


class Snapshot(NamedTuple):
    """The knowledge at a moment."""

    now: float
    state: State


class Truth(NamedTuple):
    """What became of a workload."""

    snapshots: list[Snapshot]
    starts: Mapping[str, list[float]]
    waits: list[tuple[float, float]]
    """When each wait was over, and how long it was."""


class Told(NamedTuple):
    """One estimate beside the truth, seconds from the moment."""

    case: Case
    middle: float
    averages: tuple[float, ...]
    """By the moving averages, less what the job has waited and whole; empty where nobody waited yet."""


class Answers(NamedTuple):
    """The answers about all jobs that were asked for."""

    given: list[Told]
    """Those with an interval."""
    asked: int
    bounds: list[bool]
    """Of those that are only told not to start before a time: whether that is so."""
    seconds: list[float]
    """Of a processor, for each moment."""

    def __add__(self, other: "Answers") -> "Answers":  # type: ignore[override]
        """Return both together."""
        return Answers(*(one + another for one, another in zip(self, other, strict=True)))


def run(workload: Workload, policy: str, moments: int) -> Truth:
    """Simulate the workload, and keep the knowledge at moments between the arrivals."""
    last = sorted(job.at for job in workload.jobs)[:_LAST][-1]
    due = iter(last * (number + 1) / (moments + 1) for number in range(moments))
    following = next(due, None)
    snapshots, starts, waits = list[Snapshot](), dict[str, list[float]](), list[tuple[float, float]]()

    def check(moment: Moment) -> None:
        nonlocal following
        for action in moment.actions:
            if isinstance(action, StartReplica):
                job = moment.before.jobs[moment.before.replicas[action.replica].job]
                known = starts.setdefault(job.name, [])
                if not known or known[-1] != moment.now:
                    known.append(moment.now)
                    waits.append((moment.now, moment.now - (job.queued_at or job.submitted_at)))
        if following is not None and isinstance(moment.event, Tick) and moment.now >= following:
            if waiting_jobs(moment.after):
                snapshots.append(Snapshot(moment.now, moment.after.flatten()))
            following = next((each for each in due if each > moment.now), None)

    simulate(workload, policy, settings=settings_for(workload), check=check)
    return Truth(snapshots, starts, waits)


def told(truth: Truth, policy: str, budget: Budget) -> Answers:
    """Return each estimate beside the truth."""
    found = Answers([], 0, [], [])
    for now, seen in truth.snapshots:
        settings = msgspec.structs.replace(seen.settings, policy=policy, parameters={})
        state = msgspec.structs.replace(seen, settings=settings)
        waiting = waiting_jobs(state)
        places = POSITIONS if policy_named(policy).in_order else range(1, POSITIONS[-1] + 1)
        asked = [waiting[place - 1] for place in places if place <= len(waiting)]
        began = time.process_time()
        answers = expected_starts(state, now, [job.name for job in asked], budget)
        found.seconds.append(time.process_time() - began)
        found = found._replace(asked=found.asked + len(asked))
        past = [wait for at, wait in truth.waits if at <= now][-LATEST:]
        for job in asked:
            answer = answers[job.name]
            # Also at this very moment: what ended at the Tick made room in a step after it.
            later = [at for at in truth.starts.get(job.name, ()) if at >= now]
            wait = later[0] - now if later else math.inf
            if answer.in_seconds is None or answer.latest_seconds is None or not later:
                if answer.earliest_seconds:
                    found.bounds.append(answer.earliest_seconds - SAME <= wait)
                continue
            assert answer.earliest_seconds is not None
            case = Case(
                earliest=answer.earliest_seconds,
                latest=answer.latest_seconds,
                truth=wait,
                tick=state.settings.tick,
            )
            mean = sum(past) / len(past) if past else 0.0
            waited = now - (job.queued_at or job.submitted_at)
            averages = (max(0.0, mean - waited), mean) if past else ()
            found.given.append(Told(case, answer.in_seconds, averages))
    return found


def workloads(policy: str) -> dict[str, Workload]:
    """Return what a policy is judged on."""
    directory = os.environ.get("TRACES")
    if directory is None:
        made = PoissonWorkload(jobs=150, nodes=8, interarrival=180.0, curves=0.0)
        return {f"made up, seed {seed}": generate(made, seed) for seed in (1, 2)}
    cuts = (CALIBRATED_ON if CALIBRATE else JUDGED_ON)[policy_named(policy).in_order]
    found = {}
    for name, cut in cuts.items():
        path, _, options = cut.partition(":")
        if (Path(directory) / path).is_file():
            parsed = parameters_of(options, TraceOptions)
            found[name] = read_workload(Path(directory) / path, options=parsed)
    return found


def measure() -> list[Figure]:
    """Judge every policy on every workload, and all of it together."""
    figures = list[Figure]()
    only = os.environ.get("CASE")
    policies = tuple(filter(None, os.environ.get("POLICY", "").split(","))) or POLICIES
    for policy in policies:
        together = Answers([], 0, [], [])
        for name, workload in workloads(policy).items():
            if only not in {None, name}:
                continue
            if policy_named(policy).in_order:
                truth = run(workload, policy, _MOMENTS)
                truth = truth._replace(snapshots=truth.snapshots[1::_EVERY])
                answers = told(truth, policy, _BUDGET)
            else:
                answers = told(run(workload, policy, _TURNED_MOMENTS), policy, _TURNED_BUDGET)
            together += answers
            figures += _figures(f"{name}, {policy}", answers, judged=False)
        figures += _figures(f"all, {policy}", together, judged=only is None and not CALIBRATE)
        if CALIBRATE:
            figures += _factor(policy, [each.case for each in together.given])
    return figures


def _factor(policy: str, cases: Sequence[Case]) -> list[Figure]:
    if len(cases) < FEWEST_CASES:
        return []
    what = f"all, {policy}: factor with which intervals would hold in 90 of 100 cases"
    note = f"of {len(cases)}; at most 1: they do as they are"
    return [Figure(what=what, value=calibrate(cases), unit="", note=note)]


def _figures(title: str, answers: Answers, *, judged: bool) -> list[Figure]:
    given, asked = answers.given, answers.asked
    note = f"{len(given)} of {asked} got an estimate"
    share = 100 * len(given) / asked if asked else 0.0
    figures = [Figure(what=f"{title}: waiting jobs with an estimate", value=share, unit="%", note=note)]
    if answers.seconds:
        what, most = f"{title}: processor time of an answer at most", max(answers.seconds)
        figures.append(Figure(what=what, value=most, unit="s", at_most=PATIENT.seconds))
    if answers.bounds:
        what = f"{title}: true start not before the told one where there is no interval"
        value, note = 100 * sum(answers.bounds) / len(answers.bounds), f"of {len(answers.bounds)}"
        figures.append(Figure(what=what, value=value, unit="%", note=note))
    if not given:
        return figures
    cases = [each.case for each in given]
    within = sum(case.inside for case in cases)
    covered = 100 * within / len(given)
    note = f"{within} of {len(given)}"
    figures.append(
        Figure(what=f"{title}: truth within the interval of 90 %", value=covered, unit="%", note=note)
    )
    near = [case.inside for case in cases if case.truth < _NEAR]
    if near:
        what = f"{title}: the same of waits below {_NEAR / 60:g} minutes"
        note = f"{sum(near)} of {len(near)}"
        figures.append(Figure(what=what, value=100 * sum(near) / len(near), unit="%", note=note))
    if judged:
        what = f"{title}: how far that is from 90 %"
        figures.append(Figure(what=what, value=abs(covered - 90), unit="points", at_most=3.0))
    widths = [(case.latest - case.earliest) / max(SHORTEST, case.truth) for case in cases]
    what = f"{title}: median width of the interval"
    figures.append(Figure(what=what, value=100 * median(widths), unit="% of the wait"))
    error = 100 * median(_error(each.middle, each.case.truth) for each in given)
    bound = 20.0 if judged else None
    figures.append(Figure(what=f"{title}: median error", value=error, unit="%", at_most=bound))
    for place, words in enumerate(("less the time waited", "whole")):
        errors = [_error(each.averages[place], each.case.truth) for each in given if each.averages]
        if errors:
            what = f"{title}: median error of the average of past waits, {words}"
            figures.append(
                Figure(
                    what=what,
                    value=100 * median(errors),
                    unit="%",
                    at_least=error if judged else None,
                )
            )
    return figures


def _error(told: float, truth: float) -> float:
    return abs(told - truth) / max(SHORTEST, truth)


def smallest() -> list[Figure]:
    """Give every figure, of next to nothing."""
    workload = generate(PoissonWorkload(jobs=60, nodes=4, interarrival=120.0, curves=0.0), 1)
    answers = told(run(workload, "fifo", 4), "fifo", _BUDGET)
    cases = [each.case for each in answers.given]
    return [*_figures("smallest", answers, judged=True), *_factor("smallest", cases)]


if __name__ == "__main__":
    figure.main(__doc__, measure, smallest)
