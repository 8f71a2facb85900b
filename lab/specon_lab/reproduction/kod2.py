"""KOD2's experiment: Figures 7 and 8 in four models and five batches, and what the paper does not say.

Jeong and Yu: Dynamic Resource Adjustment Operator Based on Autoscaling for Improving Distributed Training Job
Performance on Kubernetes, KIPS Transactions on Computer and Communication Systems 11(7), 2022, section 5.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from specon_lab.reproduction.experiment import Collected, Reproduction, Row, Section, judge_figure
from specon_lab.reproduction.kod2_runs import (
    CELLS,
    MODES,
    SWEPT,
    SWEPT_CELLS,
    USE_BATCH,
    BatchCell,
    runs,
)
from specon_lab.reproduction.kod2_tables import (
    BatchComparison,
    average,
    computed_increase,
    held_increase,
    largest,
    mean_of,
    mean_over_seeds,
    minutes_later,
    reduction,
    reduction_of_killed,
    spread_of,
    used_increase,
)
from specon_lab.reproduction.remarks import remarks_of
from specon_lab.results.statistics import Interval

_REMARKS: Final = remarks_of("kod2")
_REDUCTION: Final = 84.0
_REDUCTION_BOUNDS: Final = (74.0, 90.0)
_INCREASE: Final = 92.0
_INCREASE_BOUNDS: Final = (72.0, 112.0)
_PEAK: Final = BatchCell(model="vgg-16", batch=128)
_USE_CELLS: Final = tuple(cell for cell in CELLS if cell.batch == USE_BATCH)


def sections(collected: Collected) -> Sequence[Section]:
    """Return the tables, with the rows that have runs."""
    found = (
        Section(
            title="Figure 7: average completion time, reduction by KOD2",
            rows=tuple(_completion_rows(collected)),
            remarks=_REMARKS["Figure 7"],
        ),
        Section(
            title=f"Figure 8: average CPU utilisation with batch {USE_BATCH}, increase by KOD2",
            rows=tuple(_use_rows(collected)),
            remarks=_REMARKS["Figure 8"],
        ),
        Section(
            title=f"The baseline with batch {USE_BATCH}",
            rows=tuple(_baseline_rows(collected)),
            remarks=_REMARKS["baseline"],
        ),
        Section(
            title="What the paper does not say: average completion time by STARVELIMIT, cooldown and more",
            rows=tuple(_sweep_rows(collected)),
            remarks=_REMARKS["what the paper does not say"],
        ),
    )
    return tuple(section for section in found if section.rows)


def _completion_rows(collected: Collected) -> Iterator[Row]:
    cells = [cell for cell in CELLS if _figures(collected, cell, reduction)[1] is not None]
    for cell in cells:
        yield _row(
            f"reduction, {cell.words}",
            _figures(collected, cell, reduction),
            paper=_REDUCTION if cell == _PEAK else None,
            bounds=_REDUCTION_BOUNDS if cell == _PEAK else (0.0, 100.0),
            tolerance=_between(_REDUCTION_BOUNDS) if cell == _PEAK else "above 0",
            note="the paper's largest" if cell == _PEAK else "",
        )
    for what, figure in (
        (f"largest of {len(cells)} cells", reduction),
        ("the same, killed jobs counted until they were killed", reduction_of_killed),
    ):
        if cells:
            largest_of = _largest_of(collected, cells, figure)
            yield _row(what, largest_of, paper=None, note=_where(collected, cells, figure))


def _use_rows(collected: Collected) -> Iterator[Row]:
    cells = [cell for cell in _USE_CELLS if _figures(collected, cell, held_increase)[1] is not None]
    for cell in cells:
        yield _row(
            f"processor time, {cell.model}",
            _figures(collected, cell, used_increase),
            paper=None,
            bounds=(0.0, float("inf")),
            tolerance="above 0",
        )
    if cells:
        yield _row(
            f"processor time, largest of {len(cells)} models",
            _largest_of(collected, cells, used_increase),
            paper=_INCREASE,
            bounds=_INCREASE_BOUNDS,
            tolerance=_between(_INCREASE_BOUNDS),
            note=_where(collected, cells, used_increase),
        )
    for name, figure in (("cores held by what trains", held_increase), ("computing", computed_increase)):
        for cell in cells:
            yield _row(f"{name}, {cell.model}", _figures(collected, cell, figure), paper=None)


def _baseline_rows(collected: Collected) -> Iterator[Row]:
    for cell in _USE_CELLS:
        figures = _figures(collected, cell, minutes_later)
        if figures[1] is not None:
            yield _row(
                f"through later than KOD2, {cell.model}",
                figures,
                paper=None,
                unit="min",
                note="printed: about 30 to over 60 min; fitted to it with other parameters and seeds",
            )
    for cell in _USE_CELLS:
        killed = average(collected, cell, "tf-operator", "killed")
        if killed is not None:
            yield Row(
                what=f"jobs that the time-out ended, {cell.model}",
                paper=None,
                default=killed.mean,
                spread=killed.half_width,
                unit="of 10",
                tolerance='"some"',
                reproduced=judge_figure(killed.mean > 0, killed.runs),
                runs=killed.runs,
            )
    for cell in _USE_CELLS:
        in_order = _figures(collected, cell, reduction, baseline="tf-operator-in-order")
        if in_order[1] is not None:
            yield Row(
                what=f"reduction if pods were retried in their order, {cell.model}",
                paper=None,
                literal=mean_of(in_order[0]),
                default=mean_of(in_order[1]),
                spread=spread_of(in_order[1]),
                unit="%",
            )


def _sweep_rows(collected: Collected) -> Iterator[Row]:
    for model, batch in SWEPT_CELLS:
        cell = BatchCell(model=model, batch=batch)
        for name, _ in SWEPT:
            figure = average(collected, cell, f"kod2/{name}", "jct")
            scalings = average(collected, cell, f"kod2/{name}", "scalings")
            if figure is not None and scalings is not None:
                yield Row(
                    what=f"{cell.words}: {name.replace('=', ' = ')}",
                    paper=None,
                    default=figure.mean,
                    spread=figure.half_width,
                    unit="s",
                    note=f"{scalings.mean:.1f} scalings in a run",
                )


_Pair = tuple[Interval | None, Interval | None]
"""In the literal and in the default mode."""


def _figures(
    collected: Collected, cell: BatchCell, figure: BatchComparison, baseline: str = "tf-operator"
) -> _Pair:
    literal, default = (mean_over_seeds(collected, cell, f"kod2/{mode}", figure, baseline) for mode in MODES)
    return literal, default


def _largest_of(collected: Collected, cells: Sequence[BatchCell], figure: BatchComparison) -> _Pair:
    pairs = [_figures(collected, cell, figure) for cell in cells]
    return largest([literal for literal, _ in pairs]), largest([default for _, default in pairs])


def _where(collected: Collected, cells: Sequence[BatchCell], figure: BatchComparison) -> str:
    best = max(cells, key=lambda cell: mean_of(_figures(collected, cell, figure)[1]) or 0.0)
    return f"{best.words} (paper: vgg-16)"


def _row(
    what: str,
    figures: _Pair,
    *,
    paper: float | None,
    bounds: tuple[float, float] | None = None,
    tolerance: str = "",
    unit: str = "%",
    note: str = "",
) -> Row:
    """Return a row; it is reproduced where every mode that was run is within the bounds, if there are any."""
    literal, default = figures
    known = [figure for figure in figures if figure is not None]
    runs = min((figure.runs for figure in known), default=0)
    within = None if bounds is None else all(bounds[0] < figure.mean < bounds[1] for figure in known)
    return Row(
        what=what,
        paper=paper,
        literal=mean_of(literal),
        default=mean_of(default),
        spread=spread_of(default),
        unit=unit,
        tolerance=tolerance,
        reproduced=judge_figure(within, runs),
        runs=runs,
        note=note,
    )


def _between(bounds: tuple[float, float]) -> str:
    return f"{bounds[0]:g} to {bounds[1]:g}"


REPRODUCTION: Final = Reproduction(
    name="kod2",
    title=(
        "J. Jeong, H. Yu: Dynamic Resource Adjustment Operator Based on Autoscaling for Improving "
        "Distributed Training Job Performance on Kubernetes, KIPS Transactions on Computer and "
        "Communication Systems 11(7), 2022"
    ),
    runs=runs,
    sections=sections,
    remarks=_REMARKS["general"],
)
