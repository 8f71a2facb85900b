"""How well it is told when waiting jobs start, beside a moving average of past waits.

`python benchmarks/starts.py [--json FILE]`. Jobs are simulated to their ends, which is the truth. At
moments in between it is worked out, of what was known then, when those start that wait at positions 1,
2, 4, ... of the queue. Without `TRACES`, a directory of published traces as `specon reproduce traces`
takes them, jobs are made up from seeds. With it the cuts are such that nothing was chosen on: that was
done on workloads 3 and 4 of Pollux (`CHOOSE=1` prints 1 to 4). `CASE=NAME` runs one alone.
"""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import median
from typing import NamedTuple

import msgspec

import figure
from figure import Figure
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

POSITIONS = (1, 2, 4, 8, 16, 32)
LATEST = 64
"""Waits of which the moving average is taken, as many as durations are remembered."""
SHORTEST = 60.0
"""Errors of what starts sooner are relative to this, seconds."""
_POLLUX = "pollux/workloads/workload-{}.csv:elastic=false,limit=60,nodes=8"
_PHILLY = "philly/philly.csv:start={},limit=60,nodes=4"
CHOSEN_ON = {f"pollux {number}": _POLLUX.format(number) for number in (1, 2, 3, 4)}
JUDGED_ON = {
    **{f"pollux {number}": _POLLUX.format(number) for number in (5, 6, 7, 8)},
    "philly, day 54": _PHILLY.format(4592000),
}
POLICIES = ("progress", "fifo")
_MOMENTS, _EVERY = 20, 3
"""Of so many moments, spread evenly, those at which jobs wait count, and of these each third."""
_BUDGET = msgspec.structs.replace(PATIENT, seconds=3000.0)
"""What a manager spends, on however slow a machine."""


class Snapshot(NamedTuple):
    """What was known at a moment."""

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

    truth: float
    middle: float
    inside: bool
    width: float
    """Of the interval."""
    average: float | None
    """By the moving average; None where nobody has waited yet."""


def run(workload: Workload, policy: str, moments: int) -> Truth:
    """Simulate the workload, and keep what was known at moments between the arrivals."""
    last = max(job.at for job in workload.jobs)
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
                snapshots.append(Snapshot(moment.now, moment.after.flattened()))
            following = next((each for each in due if each > moment.now), None)

    simulate(workload, policy, settings=settings_for(workload), check=check)
    return Truth(snapshots, starts, waits)


def told(truth: Truth, policy: str, budget: Budget) -> Iterator[tuple[Told | None, str]]:
    """Yield each estimate, or None with the reason where there is none."""
    for now, seen in truth.snapshots:
        settings = msgspec.structs.replace(seen.settings, policy=policy, parameters={})
        state = msgspec.structs.replace(seen, settings=settings)
        waiting = waiting_jobs(state)
        asked = [waiting[place - 1] for place in POSITIONS if place <= len(waiting)]
        answers = expected_starts(state, now, [job.name for job in asked], budget)
        past = [wait for at, wait in truth.waits if at <= now][-LATEST:]
        for job in asked:
            answer = answers[job.name]
            later = [at for at in truth.starts.get(job.name, ()) if at > now]
            if not later or answer.in_seconds is None:
                yield None, answer.why or "it never starts"
                continue
            assert answer.earliest_seconds is not None
            assert answer.latest_seconds is not None
            wait = later[0] - now
            waited = now - (job.queued_at or job.submitted_at)
            average = max(0.0, sum(past) / len(past) - waited) if past else None
            # What falls into the same second is the same.
            inside = answer.earliest_seconds - 1 <= wait <= answer.latest_seconds + 1
            width = answer.latest_seconds - answer.earliest_seconds
            yield Told(wait, answer.in_seconds, inside, width, average), ""


def workloads() -> dict[str, Workload]:
    """Return what is judged on."""
    directory = os.environ.get("TRACES")
    if directory is None:
        made = PoissonWorkload(jobs=150, nodes=8, interarrival=180.0, curves=0.0)
        return {f"made up, seed {seed}": generate(made, seed) for seed in (1, 2)}
    cuts = CHOSEN_ON if os.environ.get("CHOOSE") else JUDGED_ON
    found = {}
    for name, cut in cuts.items():
        path, _, options = cut.partition(":")
        if (Path(directory) / path).is_file():
            parsed = parameters_of(options, TraceOptions)
            found[name] = read_workload(Path(directory) / path, options=parsed)
    return found


def measure(moments: int = _MOMENTS, budget: Budget = _BUDGET) -> list[Figure]:
    """Judge every policy on every workload, and all of it together."""
    everything, figures = list[Told](), list[Figure]()
    missing = 0
    only = os.environ.get("CASE")
    for name, workload in workloads().items():
        for policy in POLICIES:
            title = f"{name}, {policy}"
            if only is not None and title != only:
                continue
            truth = run(workload, policy, moments)
            truth = truth._replace(snapshots=truth.snapshots[1::_EVERY])
            answers = list(told(truth, policy, budget))
            given = [each for each, _ in answers if each is not None]
            everything += given
            missing += len(answers) - len(given)
            figures += _figures(title, given, len(answers), judged=False)
    return figures + _figures("all", everything, len(everything) + missing, judged=True)


def _figures(title: str, given: list[Told], asked: int, *, judged: bool) -> list[Figure]:
    share = 100 * len(given) / asked if asked else 0.0
    counted = Figure(what=f"{title}: waiting jobs with an estimate", value=share, unit="%")
    if not given:
        return [counted]
    covered = 100 * sum(each.inside for each in given) / len(given)
    errors = [abs(each.middle - each.truth) / max(SHORTEST, each.truth) for each in given]
    theirs = [
        abs(each.average - each.truth) / max(SHORTEST, each.truth)
        for each in given
        if each.average is not None
    ]
    widths = [each.width / max(SHORTEST, each.truth) for each in given]
    note = f"{len(given)} of {asked} got an estimate"
    found = [
        counted,
        Figure(
            what=f"{title}: truth within the interval of 90 %",
            value=covered,
            unit="%",
            note=note,
        ),
        Figure(
            what=f"{title}: median width of the interval", value=100 * median(widths), unit="% of the wait"
        ),
        Figure(
            what=f"{title}: median error",
            value=100 * median(errors),
            unit="%",
            at_most=20.0 if judged else None,
        ),
    ]
    if judged:
        what = f"{title}: how far that is from 90 %"
        found.append(Figure(what=what, value=abs(covered - 90), unit="points", at_most=3.0))
    if theirs:
        what = f"{title}: median error of the average of past waits"
        found.append(Figure(what=what, value=100 * median(theirs), unit="%"))
    return found


def smallest() -> list[Figure]:
    """Give every figure, of next to nothing."""
    workload = generate(PoissonWorkload(jobs=25, nodes=2, curves=0.0), 1)
    answers = list(told(run(workload, "fifo", 1), "fifo", Budget(work=40_000.0, seconds=60.0)))
    given = [each for each, _ in answers if each is not None]
    return _figures("smallest", given, len(answers), judged=True)


if __name__ == "__main__":
    figure.main(__doc__, measure, smallest)
