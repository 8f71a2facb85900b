"""SpeCon's experiments: its figures beside the paper's, over many seeds.

Mao et al., arXiv 2010.11307, section VI: Figures 1, 5, 6, 7 and 12, Table III.
"""

from collections.abc import Iterator, Sequence
from statistics import fmean
from typing import Final, NamedTuple

from specon_lab.engine.loss import Losses
from specon_lab.reproduction.experiment import Collected, Reproduction, Row, Section
from specon_lab.reproduction.remarks import remarks_of
from specon_lab.reproduction.specon_runs import (
    DEFAULT,
    EXPERIMENTS,
    GATED,
    HORIZON,
    LONGER,
    NO_CONTENTION,
    TABLE_3,
    UNBOUNDED,
    Cell,
    runs,
)
from specon_lab.reproduction.specon_tables import (
    ModeComparison,
    average_reduction,
    average_seconds,
    baseline_row,
    best,
    faster,
    gain_percent,
    gain_seconds,
    loss_percent,
    loss_seconds,
    makespan_reduction,
    makespan_seconds,
    moves,
    pause_of_a_move,
    row,
    seeds_note,
    values,
)
from specon_lab.results.statistics import mean
from specon_lab.workloads.table import workload_named


class Printed(NamedTuple):
    """A figure of the paper."""

    what: str
    figure: ModeComparison
    paper: float | None
    unit: str = "%"


_REMARKS: Final = remarks_of("specon")
_BASELINE: Final = {
    "fixed": (275.2, 1260.0),
    "random": (None, None),
    # 15 jobs gained 165.7 s and 5 lost 110.8 s, 96.6 s on average, and that was 13.6 %.
    "mixed-20": (710.0, 1421.0),
    "mixed-30": (865.7, 1760.0),
    "mixed-50": (596.3, 2070.0),
}
_TITLES: Final = {
    "fixed": "Figure 5: 20 VAE jobs, one every 50 s, 4 workers",
    "mixed-20": "Figure 6: 20 mixed jobs at random within 300 s, 4 workers",
    "mixed-30": "Figure 7: 30 mixed jobs at random within 600 s, 4 workers",
    "mixed-50": "Figure 12: 50 mixed jobs at random within 1200 s, 8 workers",
}
_PRINTED: Final = {
    "fixed": (
        Printed("average completion time", average_seconds, 234.7, "s"),
        Printed("makespan", makespan_seconds, 1190.0, "s"),
        Printed("average, reduction", average_reduction, 14.7),
        Printed("makespan, reduction", makespan_reduction, 5.6),
        Printed("jobs that are faster", faster, 55.0),
        Printed("gain of the faster", gain_seconds, 83.6, "s"),
        Printed("gain of the faster", gain_percent, 26.7),
        Printed("loss of the slower", loss_seconds, 18.3, "s"),
        Printed("loss of the slower", loss_percent, 8.1),
        Printed("best job, reduction", best, 37.6),
        Printed("pause of a move (printed: less than 5 s)", pause_of_a_move, 5.0, "s"),
    ),
    "mixed-20": (
        Printed("makespan", makespan_seconds, 1070.0, "s"),
        Printed("average, reduction", average_reduction, 13.6),
        Printed("makespan, reduction", makespan_reduction, 24.7),
        Printed("jobs that are faster", faster, 75.0),
        Printed("gain of the faster", gain_seconds, 165.7, "s"),
        Printed("loss of the slower", loss_seconds, 110.8, "s"),
        Printed("best job, reduction", best, 31.6),
    ),
    "mixed-30": (
        Printed("average completion time", average_seconds, 800.2, "s"),
        Printed("makespan", makespan_seconds, 1498.0, "s"),
        Printed("average, reduction", average_reduction, 7.6),
        Printed("makespan, reduction", makespan_reduction, 14.8),
        Printed("jobs that are faster", faster, 60.0),
        Printed("gain of the faster", gain_percent, 15.1),
        Printed("loss of the slower", loss_percent, 10.6),
        Printed("best job, reduction", best, 28.8),
    ),
    "mixed-50": (
        Printed("average completion time", average_seconds, 553.0, "s"),
        Printed("makespan", makespan_seconds, 1840.0, "s"),
        Printed("average, reduction", average_reduction, 7.2),
        Printed("makespan, reduction", makespan_reduction, 11.1),
        Printed("jobs that are faster", faster, 60.0),
        Printed("best job, reduction", best, 41.5),
    ),
}
_TABLE_3: Final = (
    (60.0, 5.7, 29.1, 6.1),
    (60.0, 6.8, 27.8, 7.5),
    (55.0, 3.2, 21.3, 4.0),
    (65.0, 9.6, 31.0, 8.2),
    (60.0, 6.4, 23.9, 3.1),
)
"""In the order of `TABLE_3`: jobs reduced, overall, best job and makespan, percent."""
_TABLE_3_COLUMNS: Final = (
    ("jobs that are faster", faster),
    ("average, reduction", average_reduction),
    ("best job, reduction", best),
    ("makespan, reduction", makespan_reduction),
)
_FIGURE_1: Final = {"vae": 65.0, "bi-rnn": 98.0, "gru": 90.0}
_EARLY: Final = 0.2  # of the training
_REDUCTIONS: Final = (
    ("average, reduction", average_reduction),
    ("makespan, reduction", makespan_reduction),
)


def sections(collected: Collected) -> Sequence[Section]:
    """Return the paper's tables and figures as far as their runs are there, then our own."""
    found = [_figure_1(), _baselines(collected)]
    for cell in EXPERIMENTS:
        if cell.name in _PRINTED:
            figures = _PRINTED[cell.name]
            rows = [row(collected, cell, p.what, p.figure, p.paper, unit=p.unit) for p in figures]
            if cell.name == "mixed-50":
                rows += _longer(collected)
            found.append(_section(_TITLES[cell.name], rows, _REMARKS.get(cell.name, ())))
    found += [_table_3(collected), _no_contention(collected), _of_the_manager(collected)]
    return [section for section in found if section.rows]


def _section(title: str, rows: Sequence[Row | None], said: Sequence[str] = ()) -> Section:
    return Section(title=title, rows=[each for each in rows if each is not None], remarks=said)


def _figure_1() -> Section:
    """Return which part of all reduction is reached after a fifth of the training, as jobs print it."""
    workload = workload_named("specon-mixed-50", 0)
    parts: dict[str, list[float]] = {model: [] for model in _FIGURE_1}
    for job in workload.jobs:
        model = next(
            (name for name in _FIGURE_1 if job.spec.kind in {f"{name}-pytorch", f"{name}-tensorflow"}), None
        )
        curve, steps = job.training.curve, job.training.steps
        if model is None or curve is None:
            continue
        losses = Losses(curve, steps, f"{workload.seed}/{job.spec.name}")
        first, last = losses.at(0), losses.at(steps)
        parts[model].append(100 * (first - losses.at(round(_EARLY * steps))) / (first - last))
    rows = [
        Row(
            what=f"{model}: part of the reduction after 20 % of the time",
            paper=paper,
            literal=fmean(parts[model]),
            default=fmean(parts[model]),
            unit="%",
            note=f"a check of the generator; {len(parts[model])} jobs",
        )
        for model, paper in _FIGURE_1.items()
    ]
    return _section("Figure 1: how early most of the reduction is reached", rows, _REMARKS["Figure 1"])


def _baselines(collected: Collected) -> Section:
    rows: list[Row | None] = []
    for cell in EXPERIMENTS:
        average, makespan = _BASELINE[cell.name]
        rows.append(baseline_row(collected, cell, f"{cell.name}: average", average_seconds, average))
        rows.append(baseline_row(collected, cell, f"{cell.name}: makespan", makespan_seconds, makespan))
    return _section("The paper's DS: the same placement without moves", rows, _REMARKS["baseline"])


def _table_3(collected: Collected) -> Section:
    rows: list[Row | None] = []
    for cell, printed in zip(TABLE_3, _TABLE_3, strict=True):
        label = f"{cell.alpha:g}, {cell.workload.rpartition('=')[2]} s"
        for (what, figure), paper in zip(_TABLE_3_COLUMNS, printed, strict=True):
            rows.append(row(collected, cell, f"{label}: {what}", figure, paper))
    return _section(
        "Table III: 20 VAE jobs at random within 300 s, by alpha and interval", rows, _REMARKS["Table III"]
    )


def _longer(collected: Collected) -> Iterator[Row | None]:
    label = "1.25 times as long"
    yield baseline_row(collected, LONGER, f"{label}: average without moves", average_seconds, None)
    for what, figure in _REDUCTIONS:
        yield row(collected, LONGER, f"{label}: {what}", figure, None)


def _no_contention(collected: Collected) -> Section:
    rows = [
        row(collected, cell, f"{cell.name.removesuffix('-contention-0')}: {what}", figure, None)
        for cell in NO_CONTENTION
        for what, figure in _REDUCTIONS
    ]
    return _section("Without contention", rows, _REMARKS["no contention"])


def _of_the_manager(collected: Collected) -> Section:
    rows: list[Row | None] = []
    for cell in EXPERIMENTS:
        rows += _ours(collected, cell)
    return _section("Of the manager: gate, budgets and the other classifier", rows, _REMARKS["manager"])


def _ours(collected: Collected, cell: Cell) -> Iterator[Row]:
    """Yield the rows of one experiment; all of them of the same seeds, those of the gate's runs."""
    seeds = {measures["seed"] for measures in collected.get(cell.key(GATED), ())}
    for words, mode in (
        ("as shipped, with the gate", GATED),
        ("gate off, with budgets", DEFAULT),
        ("gate off, without budgets", UNBOUNDED),
        ("gate off, with budgets, classifier horizon", HORIZON),
    ):
        for what, figure, unit in (
            ("average, reduction", average_reduction, "%"),
            ("moves", moves, ""),
        ):
            if found := values(collected, cell, mode, figure, seeds):
                yield Row(
                    what=f"{cell.name}, {words}: {what}",
                    paper=None,
                    default=mean(found),
                    unit=unit,
                    note=seeds_note({"": found}),
                )


REPRODUCTION: Final = Reproduction(
    name="specon",
    title=(
        "Y. Mao, Y. Fu, W. Zheng, L. Cheng, Q. Liu, D. Tao: Speculative Container Scheduling for Deep "
        "Learning Applications in a Kubernetes Cluster, IEEE Systems Journal 2021, arXiv 2010.11307"
    ),
    runs=runs,
    sections=sections,
    remarks=_REMARKS["general"],
)
