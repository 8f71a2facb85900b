"""FitGpp's figures 4 to 7, the growth with the number of jobs, and what stands in for Table 5.

The figures have no printed numbers: their rows are ours, and what the text says of them is tested by sign.
"""

from collections.abc import Sequence
from typing import Final

from specon_lab.reproduction import fitgpp_runs as keys
from specon_lab.reproduction.experiment import Collected, Row, Section
from specon_lab.reproduction.fitgpp_tables import FigureTerm, band, cell, compare_modes, trend
from specon_lab.reproduction.remarks import remarks_of

_REMARKS: Final = remarks_of("fitgpp")
_LEVEL: Final = 10.0  # percent: a figure called independent of a parameter moves no further than that
_CLASSES: Final = ("trial", "best-effort")
_TAIL: Final = 95
_SHOWN: Final = (50, 95, 99)
_MUCH: Final = 8
_NORMAL: Final = 4.0


def figures(collected: Collected) -> list[Section]:
    """Return Figures 4 to 7."""
    return [_figure_4(collected), _figure_5(collected), _figure_6(collected), _figure_7(collected)]


def sizes(collected: Collected) -> Section:
    """Return how slowdowns grow with the number of jobs."""
    rows = [
        compare_modes(
            collected,
            f"{keys.NAMES[policy]}, {jobs} jobs, best-effort, {percent}th percentile",
            cell(keys.size(jobs, policy), f"best-effort-{percent}"),
        )
        for policy in ("fifo", "lrtp", "fitgpp")
        for jobs in keys.SIZES
        for percent in (50, 95)
    ]
    ends = keys.SIZES[0], keys.SIZES[-1]
    rows += [
        trend(
            collected,
            f"{keys.NAMES[policy]}: best-effort median with {ends[1]} jobs above that with {ends[0]}, by",
            _above(keys.size(ends[1], policy), keys.size(ends[0], policy), "best-effort-50"),
            unit="%",
        )
        for policy in ("fitgpp", "lrtp")
    ]
    return Section(
        title="The number of jobs",
        rows=_keep_known(rows),
        remarks=_REMARKS["number of jobs"],
    )


def trace(collected: Collected) -> Section:
    """Return what stands in for Table 5, whose trace is private: orderings alone."""
    rows = [
        compare_modes(
            collected,
            f"{keys.NAMES[policy]}, {name} jobs, {percent}th percentile",
            cell(keys.trace(policy, "literal"), f"{name}-{percent}"),
            cell(keys.trace(policy, "default"), f"{name}-{percent}") if policy == "fitgpp" else None,
        )
        for policy in keys.POLICIES
        for name in _CLASSES
        for percent in _SHOWN
    ]
    fitgpp = keys.trace("fitgpp", "literal")
    measures = (
        ("trial-95", "trials, 95th percentile"),
        ("trial-99", "trials, 99th percentile"),
        ("best-effort-50", "best-effort, median"),
        ("best-effort-95", "best-effort, 95th percentile"),
    )
    rows += [
        trend(
            collected,
            f"{what}: {keys.NAMES[policy]} above FitGpp by",
            _above(keys.trace(policy, "literal"), fitgpp, measure),
            unit="%",
        )
        for measure, what in measures
        for policy in ("fifo", "lrtp", "rand")
    ]
    return Section(
        title="Table 5: a workload in place of the private trace (orderings only)",
        rows=_keep_known(rows),
        remarks=tuple(each.format(trace=keys.TRACE) for each in _REMARKS["Table 5"]),
    )


def _figure_4(collected: Collected) -> Section:
    rows = [
        _plain(collected, f"s = {value:g}, {name} jobs", percent, keys.weight(value), name)
        for value in keys.WEIGHTS
        for name in _CLASSES
        for percent in (_TAIL, 99)
    ]
    none, chosen = keys.weight(0.0), keys.weight(_NORMAL)
    rows += [
        trend(
            collected,
            "trials, 99th percentile: s = 0 above s = 4 by",
            _above(none, chosen, "trial-99"),
            unit="%",
        ),
        band(
            collected,
            "trials, 99th percentile: s = 8 above s = 4 by (saturated)",
            _above(keys.weight(8.0), chosen, "trial-99"),
            _LEVEL,
        ),
        band(
            collected,
            "best-effort, 95th percentile: s = 0 above s = 4 by (independent)",
            _above(none, chosen, "best-effort-95"),
            _LEVEL,
        ),
    ]
    return Section(title="Figure 4: s, the weight of the grace period", rows=_keep_known(rows))


def _figure_5(collected: Collected) -> Section:
    rows = [
        _plain(
            collected,
            f"P = {'infinite' if most is None else most}, {name} jobs",
            _TAIL,
            keys.cap(most),
            name,
        )
        for most in keys.CAPS
        for name in _CLASSES
    ]
    rows += [
        band(
            collected,
            f"{name}, 95th percentile: P infinite above P = 1 by (independent)",
            _above(keys.cap(None), keys.cap(1), f"{name}-95"),
            _LEVEL,
        )
        for name in _CLASSES
    ]
    return Section(title="Figure 5: P, the most preemptions of one job", rows=_keep_known(rows))


def _figure_6(collected: Collected) -> Section:
    rows = [
        _plain(
            collected,
            f"{keys.NAMES[policy]}, {share:.0%} trials, {name} jobs",
            _TAIL,
            keys.proportion(share, policy),
            name,
        )
        for share in keys.PROPORTIONS
        for policy in keys.POLICIES
        for name in _CLASSES
    ]
    few, many = keys.PROPORTIONS[0], keys.PROPORTIONS[-1]
    rows.append(
        trend(
            collected,
            f"FitGpp, trials, 95th percentile: {many:.0%} trials above {few:.0%} by",
            _above(keys.proportion(many, "fitgpp"), keys.proportion(few, "fitgpp"), "trial-95"),
            unit="%",
        )
    )
    rows += [
        trend(
            collected,
            f"{share:.0%} trials, best-effort, 95th percentile: {keys.NAMES[policy]} above FitGpp by",
            _above(keys.proportion(share, policy), keys.proportion(share, "fitgpp"), "best-effort-95"),
            unit="%",
        )
        for share in keys.PROPORTIONS
        for policy in ("lrtp", "rand")
    ]
    return Section(title="Figure 6: the proportion of trials", rows=_keep_known(rows))


def _figure_7(collected: Collected) -> Section:
    variants = (("lrtp", _NORMAL), ("rand", _NORMAL), ("fitgpp", _NORMAL), ("fitgpp", 8.0))
    rows = [
        _plain(
            collected,
            f"{_variant(policy, value)}, grace periods x{times}, {name} jobs",
            _TAIL,
            keys.grace(times, policy, value),
            name,
        )
        for times in keys.GRACE_FACTORS
        for policy, value in variants
        for name in _CLASSES
    ]
    rows += [
        trend(
            collected,
            f"{_variant(policy, value)}, {name} jobs: grace periods x{_MUCH} above x1 by",
            _above(keys.grace(_MUCH, policy, value), keys.grace(1, policy, value), f"{name}-95"),
            unit="%",
        )
        for policy, value, name in (
            ("lrtp", _NORMAL, "best-effort"),
            ("rand", _NORMAL, "best-effort"),
            ("lrtp", _NORMAL, "trial"),
            ("fitgpp", _NORMAL, "trial"),
        )
    ]
    rows += [
        trend(
            collected,
            f"x{_MUCH}, best-effort: {keys.NAMES[policy]} above FitGpp (s = 4) by",
            _above(keys.grace(_MUCH, policy), keys.grace(_MUCH, "fitgpp"), "best-effort-95"),
            unit="%",
        )
        for policy in ("lrtp", "rand")
    ]
    rows.append(
        trend(
            collected,
            f"x{_MUCH}, trials, 95th percentile: FitGpp with s = 4 above s = 8 by",
            _above(keys.grace(_MUCH, "fitgpp"), keys.grace(_MUCH, "fitgpp", 8.0), "trial-95"),
            unit="%",
        )
    )
    return Section(title="Figure 7: the length of the grace periods", rows=_keep_known(rows))


def _variant(policy: str, value: float) -> str:
    return keys.NAMES[policy] + (f" (s = {value:g})" if policy == "fitgpp" else "")


def _plain(collected: Collected, what: str, percent: int, key: str, name: str) -> Row:
    return compare_modes(collected, f"{what}, {percent}th percentile", cell(key, f"{name}-{percent}"))


def _above(key: str, than: str, measure: str) -> FigureTerm:
    return cell(key, measure, over=cell(than, measure))


def _keep_known(rows: Sequence[Row]) -> tuple[Row, ...]:
    """Return the rows that have a figure: those without a number of the paper say nothing else."""
    return tuple(row for row in rows if row.literal is not None or row.default is not None)
