"""FitGpp's experiments: its tables and figures beside ours.

Yabuuchi, Taniwaki and Omura, "Low-latency job scheduling with preemption for the development of deep
learning", OpML 2019 and arXiv 1902.01613: Tables 1 to 5 and Figures 4 to 7. In the literal mode the policies
run as printed (FIFO taken strictly), without gate and budgets; in the default mode with the repairs, and
within the manager's budgets.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from specon_lab.reproduction import fitgpp_runs as keys
from specon_lab.reproduction.experiment import Collected, Reproduction, Row, Section
from specon_lab.reproduction.fitgpp_tables import Tolerance, cell, compare_modes, factor, tolerance_of, trend
from specon_lab.reproduction.fitgpp_trends import figures, sizes, trace
from specon_lab.reproduction.remarks import remarks_of

_REMARKS: Final = remarks_of("fitgpp")
_SLOWDOWNS: Final = {
    "fifo": ((9.38, 33.4, 48.5), (2.78, 4.89, 8.21)),
    "lrtp": ((1.00, 1.17, 1.58), (3.78, 7.25, 12.5)),
    "rand": ((1.00, 1.17, 1.58), (3.87, 7.49, 12.9)),
    "fitgpp": ((1.00, 1.15, 1.54), (3.28, 6.06, 10.3)),
}
_INTERVALS: Final = {"lrtp": (4, 4, 5, 7), "rand": (4, 4, 6, 7), "fitgpp": (2, 2, 4, 6)}
_PREEMPTED: Final = {"lrtp": 9.6, "rand": 9.7, "fitgpp": 0.63}
_PREEMPTED_UNLIMITED: Final = {
    "lrtp": (6.3, 1.2, 0.34),
    "rand": (8.8, 0.48, 0.019),
    "fitgpp": (0.52, 0.038, 0.0098),
}
_SHOWN: Final = (50, 95, 99)
_TENTH: Final = tolerance_of(0.10)
_LAST: Final = tolerance_of(0.15)
_FIFTH_AWAY: Final = Tolerance("within 0.2", lambda ours, paper: abs(ours - paper) <= 0.2)  # noqa: PLR2004
_MINUTE_AWAY: Final = Tolerance("within 1 min", lambda ours, paper: abs(ours - paper) <= 1)
_POINTS: Final = Tolerance("within 8 points", lambda ours, paper: abs(ours - paper) <= 8)  # noqa: PLR2004


def sections(collected: Collected) -> Sequence[Section]:
    """Return the paper's tables and figures with the measurements; a run that was not made has no value."""
    found = [_table_1(collected), _abstract(collected), _table_2(collected), _table_3(collected)]
    found += [_table_4(collected), *figures(collected), sizes(collected), trace(collected)]
    return [section for section in found if section.rows]


def _table_1(collected: Collected) -> Section:
    return Section(
        title="Table 1: slowdowns",
        rows=tuple(_slowdown_rows(collected)),
        remarks=_REMARKS["Table 1"],
    )


def _slowdown_rows(collected: Collected) -> Iterator[Row]:
    for policy, classes in _SLOWDOWNS.items():
        for name, printed in zip(("trial", "best-effort"), classes, strict=True):
            for percent, paper in zip(_SHOWN, printed, strict=True):
                tolerance: Tolerance | None = _TENTH
                if percent == max(_SHOWN):
                    tolerance = _FIFTH_AWAY if name == "trial" and policy != "fifo" else _LAST
                default = None
                if policy == "fifo":
                    tolerance = None
                else:
                    default = cell(keys.table(policy, "default"), f"{name}-{percent}")
                yield compare_modes(
                    collected,
                    f"{keys.NAMES[policy]}, {name} jobs, {percent}th percentile",
                    cell(keys.table(policy, "literal"), f"{name}-{percent}"),
                    default,
                    paper=(paper, tolerance),
                    note="fitted to it" if policy == "fifo" else "",
                )


def _abstract(collected: Collected) -> Section:
    figures_of = (
        ("trials, 95th percentile: shorter by", "trial-95", 96.6, -1),
        ("best-effort jobs, 50th percentile: longer by", "best-effort-50", 18.0, 1),
        ("best-effort jobs, 95th percentile: longer by", "best-effort-95", 23.9, 1),
    )
    rows = []
    for what, measure, paper, sign in figures_of:
        fifo = cell(keys.table("fifo", ""), measure)
        literal, default = (
            cell(keys.table("fitgpp", mode), measure, over=fifo, sign=sign) for mode in ("literal", "default")
        )
        name = f"FitGpp against FIFO, {what}"
        rows.append(compare_modes(collected, name, literal, default, paper=(paper, _POINTS), unit="%"))
    return Section(title="Abstract: what trials gain and best-effort jobs lose", rows=tuple(rows))


def _table_2(collected: Collected) -> Section:
    rows = [
        compare_modes(
            collected,
            f"{keys.NAMES[policy]}, {percent}th percentile",
            *(cell(keys.table(policy, mode), f"interval-{percent}") for mode in ("literal", "default")),
            paper=(paper, _MINUTE_AWAY),
            unit="min",
        )
        for policy, printed in _INTERVALS.items()
        for percent, paper in zip(keys.PERCENTILES, printed, strict=True)
    ]
    return Section(
        title="Table 2: from preemption to the next start",
        rows=tuple(rows),
        remarks=_REMARKS["Table 2"],
    )


def _table_3(collected: Collected) -> Section:
    rows = [
        compare_modes(
            collected,
            f"{keys.NAMES[policy]}, jobs that are preempted",
            *(cell(keys.table(policy, mode), "preempted") for mode in ("literal", "default")),
            paper=(paper, factor(1.5)),
            unit="%",
        )
        for policy, paper in _PREEMPTED.items()
    ]
    return Section(
        title="Table 3: jobs preempted, P = 1",
        rows=tuple(rows),
        remarks=_REMARKS["Table 3"],
    )


def _table_4(collected: Collected) -> Section:
    rows = [
        compare_modes(
            collected,
            f"{keys.NAMES[policy]}, jobs preempted {count} times"
            if count > 1
            else f"{keys.NAMES[policy]}, once",
            cell(keys.unlimited_key(policy), f"preempted-{count}"),
            paper=(paper, factor(2.0 if count == 1 else 4.0)),
            unit="%",
        )
        for policy, printed in _PREEMPTED_UNLIMITED.items()
        for count, paper in zip(keys.COUNTS, printed, strict=True)
    ]
    rows.append(
        trend(
            collected,
            "LRTP preempts the same jobs again and again: its share of those preempted 3 times above RAND's",
            cell(
                keys.unlimited_key("lrtp"),
                "preempted-3",
                minus=cell(keys.unlimited_key("rand"), "preempted-3"),
            ),
            unit="points",
        )
    )
    return Section(
        title="Table 4: jobs by the number of their preemptions, P infinite",
        rows=tuple(rows),
        remarks=_REMARKS["Table 4"],
    )


REPRODUCTION: Final = Reproduction(
    name="fitgpp",
    title=(
        "H. Yabuuchi, D. Taniwaki, S. Omura, Low-latency Job Scheduling with Preemption for the Development "
        "of Deep Learning, OpML 2019, arXiv 1902.01613"
    ),
    runs=keys.runs,
    sections=sections,
    remarks=_REMARKS["general"],
)
