"""What specon's own policy is judged by: means, differences on the same seeds, jobs that lose."""

from collections.abc import Sequence
from typing import Final

import msgspec

from specon_lab.reproduction.experiment import Collected, Line, Measures, Row, judge_figure
from specon_lab.reproduction.ours_runs import (
    AVERAGE,
    CONVERGENCE,
    FAIRNESS,
    INCOMPLETE,
    JOB,
    PAUSED,
    PREEMPTIONS,
    QUOTA,
)
from specon_lab.results.statistics import change, interval, mean
from specon_sidecar.counts import format_count

LATER_PERCENT: Final = 1.0
"""A job finishes later where it takes more than so much longer."""
MOST_LATER: Final = 10.0
LEAST_WAY: Final = 70.0
"""Percent of the way from quota FIFO to SRPT."""
_APART: Final = 2.0  # percent that SRPT is to be lower, before there is a way to speak of
COLUMNS: Final = (
    "completion (s)",
    "to convergence (s)",
    "finish-time fairness, p99",
    f"later than with {QUOTA} (%)",
    "preemptions of a job",
    "paused (s)",
)
"""Of `side_by_side`: means over the jobs, then over the runs."""


def values(collected: Collected, key: str, figure: str = AVERAGE) -> list[float] | None:
    """Return a figure of each seed; None where the runs were not made, or a run lacks it."""
    found = [measures.get(figure) for measures in collected.get(key, ())]
    known = [value for value in found if value is not None]
    return known if found and len(known) == len(found) else None


def count_unfinished(collected: Collected, key: str) -> int:
    """Return how many jobs did not complete, over all seeds."""
    return int(sum(measures.get(INCOMPLETE, 0.0) for measures in collected.get(key, ())))


def compare_means(
    what: str, theirs: Sequence[float], ours: Sequence[float], *, note: str = "", unit: str = "s"
) -> Row | None:
    """Return both means; ours is better where it is lower and the 95 % intervals do not overlap."""
    their, our = interval(theirs), interval(ours)
    if their is None or our is None:
        return None
    apart = None if their.low is None or our.high is None else our.high < their.low
    width = "" if their.half_width is None else f"± {their.half_width:.1f} of theirs"
    return Row(
        what=what,
        paper=their.mean,
        default=our.mean,
        spread=our.half_width,
        unit=unit,
        tolerance="lower, the intervals do not overlap",
        reproduced=judge_figure(apart, our.runs),
        runs=our.runs,
        note="; ".join(filter(None, (note, width))),
    )


def compare_pairs(what: str, theirs: Sequence[float], ours: Sequence[float], *, note: str = "") -> Row | None:
    """Return by how many percent ours differ from theirs on the same seeds; negative: ours is lower."""
    if len(theirs) != len(ours):
        return None
    found = change(ours, theirs)
    if found is None or found.percent is None:
        return None
    percent = found.percent
    lower = sum(our < their for our, their in zip(ours, theirs, strict=True))
    high = percent.mean if percent.high is None else percent.high
    return Row(
        what=what,
        paper=None,
        default=percent.mean,
        spread=percent.half_width,
        unit="%",
        tolerance="the whole interval is below 0",
        reproduced=judge_figure(high < 0, len(ours)),
        runs=len(ours),
        note="; ".join(filter(None, (note, f"lower in {lower} of {format_count(len(ours), 'run')}"))),
    )


def share_later(ours: Sequence[Measures], theirs: Sequence[Measures]) -> float | None:
    """Return which part of the jobs takes more than 1 % longer with ours, percent; mean over the seeds.

    A job that did not complete with ours counts, one that did not complete with theirs does not.
    """
    shares = []
    for our, their in zip(ours, theirs, strict=False):
        jobs = [name for name in {**our, **their} if name.startswith(JOB)]
        if not jobs:
            continue
        longest = 1 + LATER_PERCENT / 100
        lost = sum(name in their and (name not in our or our[name] > longest * their[name]) for name in jobs)
        shares.append(100 * lost / len(jobs))
    return mean(shares)


def later_row(what: str, collected: Collected, ours: str, baselines: Sequence[str]) -> Row | None:
    """Return how many jobs finish later than under the baseline with the lowest mean; arguments are keys."""
    known = {key: average for key in baselines if (average := mean(values(collected, key) or ())) is not None}
    parts = {key: share_later(collected.get(ours, ()), collected[key]) for key in known}
    best = min(known, key=known.__getitem__, default=None)
    if best is None or (part := parts[best]) is None:
        return None
    runs = len(collected[best])
    others = [
        f"{_policy(key)}: {each:.1f} %" for key, each in parts.items() if key != best and each is not None
    ]
    row = _share(what, part, f"at most {MOST_LATER:g} %", kept=part <= MOST_LATER, runs=runs)
    note = "; ".join((f"the better is {_policy(best)}", *others))
    return msgspec.structs.replace(row, note=note)


def way_row(what: str, collected: Collected, start: str, ours: str, end: str) -> Row | None:
    """Return how far ours is on the way between the runs of two keys; None where they do not differ."""
    part = part_of_the_way(*(values(collected, key) or () for key in (start, ours, end)))
    if part is None:
        return None
    runs = len(collected[ours])
    row = _share(what, part, f"at least {LEAST_WAY:g} %", kept=part >= LEAST_WAY, runs=runs)
    return msgspec.structs.replace(row, note=restarts(collected, end))


def _share(what: str, part: float, bound: str, *, kept: bool, runs: int) -> Row:
    """Return a row about a share in percent that no paper has, judged by whether its bound is kept."""
    return Row(
        what=what,
        paper=None,
        default=part,
        unit="%",
        tolerance=bound,
        reproduced=judge_figure(kept, runs),
        runs=runs,
    )


def restarts(collected: Collected, key: str) -> str:
    """Return in words what preemptions cost the jobs of these runs."""
    often, paused = (mean(values(collected, key, figure) or ()) for figure in (PREEMPTIONS, PAUSED))
    if often is None or paused is None:
        return ""
    return f"{_policy(key)}: a job is preempted {often:.2f} times and pauses for {paused:.0f} s"


def side_by_side(what: str, collected: Collected, key: str, quota: str) -> Line | None:
    """Return the figures of one policy, by its key; `quota` is that of quota FIFO on the same jobs."""
    average, convergence, fairness, preemptions, paused = (
        mean(values(collected, key, figure) or ())
        for figure in (AVERAGE, CONVERGENCE, FAIRNESS, PREEMPTIONS, PAUSED)
    )
    if average is None:
        return None
    hurt = None if key == quota else share_later(collected[key], collected.get(quota, ()))
    return Line(what=what, figures=(average, convergence, fairness, hurt, preemptions, paused))


def _policy(key: str) -> str:
    return key.split("/")[1]


def part_of_the_way(start: Sequence[float], ours: Sequence[float], end: Sequence[float]) -> float | None:
    """Return how far the mean of ours is on the way from the start to the end, percent; None: no way."""
    first, reached, last = mean(start), mean(ours), mean(end)
    if first is None or reached is None or last is None or first * (1 - _APART / 100) < last:
        return None
    return 100 * (first - reached) / (first - last)
