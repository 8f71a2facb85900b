"""Rows of FitGpp's tables: a figure is the mean over seeds of a measure, or of how two of them differ."""

from collections.abc import Callable
from typing import Final

from msgspec import Struct

from specon_lab.reproduction.experiment import Collected, Row, judge_figure
from specon_lab.results.statistics import Interval, interval


class FigureTerm(Struct, frozen=True, kw_only=True):
    """What a figure is made of: a measure of the runs under a key, by itself or beside another's, by seed."""

    key: str
    measure: str
    over: "FigureTerm | None" = None
    """The figure is by how many percent the measure is above this one (with `sign` -1: below)."""
    minus: "FigureTerm | None" = None
    """The figure is how far the measure is above this one."""
    sign: int = 1


class Tolerance(Struct, frozen=True):
    """What counts as reproduced, in words and as a test of (ours, the paper's)."""

    words: str
    met: Callable[[float, float], bool]


_ROUNDING: Final = 1e-9


def cell(
    key: str, measure: str, *, over: FigureTerm | None = None, minus: FigureTerm | None = None, sign: int = 1
) -> FigureTerm:
    """Return the description of a figure."""
    return FigureTerm(key=key, measure=measure, over=over, minus=minus, sign=sign)


def tolerance_of(share: float) -> Tolerance:
    """Return the tolerance of so large a share of the paper's figure."""
    return Tolerance(
        f"within {share:.0%}", lambda ours, paper: abs(ours - paper) <= share * abs(paper) + _ROUNDING
    )


def factor(most: float) -> Tolerance:
    """Return the tolerance of a factor, either way."""
    return Tolerance(f"within a factor of {most:g}", lambda ours, paper: paper / most <= ours <= paper * most)


def values(collected: Collected, one: FigureTerm | None) -> list[float]:
    """Return the figure of each seed for which all of it was measured, in the order of the seeds."""
    if one is None:
        return []
    own = _measure(collected, one)
    other = one.over or one.minus
    if other is None:
        return [value for value in own if value is not None]
    pairs = zip(own, _measure(collected, other), strict=False)
    both = [(mine, theirs) for mine, theirs in pairs if mine is not None and theirs is not None]
    if one.minus is not None:
        return [one.sign * (mine - theirs) for mine, theirs in both]
    return [one.sign * 100 * (mine - theirs) / theirs for mine, theirs in both if theirs]


def _measure(collected: Collected, one: FigureTerm) -> list[float | None]:
    return [measures.get(one.measure) for measures in collected.get(one.key, ())]


def compare_modes(
    collected: Collected,
    what: str,
    literal: FigureTerm,
    default: FigureTerm | None = None,
    *,
    paper: tuple[float, Tolerance | None] | None = None,
    unit: str = "",
    note: str = "",
) -> Row:
    """Return the row of a figure; the literal mode is the one that is compared with the paper's.

    Without a tolerance beside the paper's figure there is no verdict.
    """
    ours, repaired = interval(values(collected, literal)), interval(values(collected, default))
    printed, tolerance = (None, None) if paper is None else paper
    holds = None
    if printed is not None and tolerance is not None and ours is not None:
        holds = tolerance.met(ours.mean, printed)
    return Row(
        what=what,
        paper=printed,
        literal=_mean(ours),
        default=_mean(repaired),
        spread=None if ours is None else ours.half_width,
        unit=unit,
        tolerance="" if tolerance is None else tolerance.words,
        reproduced=judge_figure(holds, _runs(ours)),
        runs=_runs(ours),
        note=note,
    )


def trend(collected: Collected, what: str, figure: FigureTerm, *, unit: str = "") -> Row:
    """Return the row of something that the paper shows without a number: the figure is above 0."""
    ours = interval(values(collected, figure))
    return Row(
        what=what,
        paper=None,
        literal=_mean(ours),
        spread=None if ours is None else ours.half_width,
        unit=unit,
        tolerance="above 0",
        reproduced=None if ours is None else judge_figure(ours.mean > 0, ours.runs),
        runs=_runs(ours),
    )


def band(collected: Collected, what: str, figure: FigureTerm, most: float, *, unit: str = "%") -> Row:
    """Return the row of something that the paper calls independent: the figure is at most so far from 0."""
    ours = interval(values(collected, figure))
    return Row(
        what=what,
        paper=None,
        literal=_mean(ours),
        spread=None if ours is None else ours.half_width,
        unit=unit,
        tolerance=f"from -{most:g} to {most:g}",
        reproduced=None if ours is None else judge_figure(abs(ours.mean) <= most, ours.runs),
        runs=_runs(ours),
    )


def _runs(found: Interval | None) -> int:
    return 0 if found is None else found.runs


def _mean(found: Interval | None) -> float | None:
    return None if found is None else found.mean
