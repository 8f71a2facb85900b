"""What specon's own policy is judged by: means, differences on the same seeds, jobs that lose."""

from collections.abc import Sequence
from typing import Final

from specon_lab.reproduction.experiment import Collected, Measures, Row
from specon_lab.reproduction.ours_runs import AVERAGE, INCOMPLETE, JOB
from specon_lab.results.statistics import change, interval, mean

LATER_PERCENT: Final = 1.0
"""A job finishes later where it takes more than so much longer."""
_ENOUGH: Final = 5  # runs before an interval is judged by; a single one is that of a workload without chance


def values(collected: Collected, key: str, figure: str = AVERAGE) -> list[float] | None:
    """Return a figure of each seed; None where the runs were not made, or a run lacks it."""
    found = [measures.get(figure) for measures in collected.get(key, ())]
    known = [value for value in found if value is not None]
    return known if found and len(known) == len(found) else None


def unfinished(collected: Collected, key: str) -> int:
    """Return how many jobs did not complete, over all seeds."""
    return int(sum(measures.get(INCOMPLETE, 0.0) for measures in collected.get(key, ())))


def beside(
    what: str, theirs: Sequence[float], ours: Sequence[float], *, note: str = "", unit: str = "s"
) -> Row | None:
    """Return both means; ours is better where it is lower and the 95 % intervals do not overlap."""
    their, our = interval(theirs), interval(ours)
    if their is None or our is None:
        return None
    if their.low is None or our.high is None:
        apart, rule = our.mean < their.mean, "lower (one run)"
    else:
        apart, rule = our.high < their.low, "lower, the intervals do not overlap"
    width = "" if their.half_width is None else f"± {their.half_width:.1f} of theirs"
    return Row(
        what=what,
        paper=their.mean,
        default=our.mean,
        spread=our.half_width,
        unit=unit,
        tolerance=rule,
        reproduced=apart if _judged(len(ours)) else None,
        note="; ".join(filter(None, (note, width))),
    )


def paired(what: str, theirs: Sequence[float], ours: Sequence[float], *, note: str = "") -> Row | None:
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
        reproduced=high < 0 if _judged(len(ours)) else None,
        note="; ".join(filter(None, (note, f"lower in {lower} of {len(ours)} runs"))),
    )


def _judged(count: int) -> bool:
    return count == 1 or count >= _ENOUGH


def later(ours: Sequence[Measures], theirs: Sequence[Measures]) -> float | None:
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


def part_of_the_way(start: Sequence[float], ours: Sequence[float], end: Sequence[float]) -> float | None:
    """Return how far the mean of ours is on the way from the start to the end, percent; None: no way."""
    first, reached, last = mean(start), mean(ours), mean(end)
    if first is None or reached is None or last is None or first <= last:
        return None
    return 100 * (first - reached) / (first - last)
