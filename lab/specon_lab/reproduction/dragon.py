"""DRAGON's experiments: Figures 6 to 8 with the jobs of Table 1, Figures 9 and 10 with random jobs.

Lin, Yeh and Chou: DRAGON: A Dynamic Scheduling and Scaling Controller for Managing Distributed Deep Learning
Jobs in Kubernetes Cluster, CLOSER 2019, section 4.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from specon_lab.reproduction.dragon_runs import (
    DEFAULT,
    JOBS,
    KUBEFLOW,
    LITERAL,
    LOCALITY,
    SECONDS,
    runs,
    table_key,
)
from specon_lab.reproduction.dragon_tables import (
    RunComparison,
    SweepPoint,
    allocation_with_a_tail,
    elapsed_reduction,
    figure_of_table_1,
    mean_over_seeds,
    part,
    slowdowns,
    sweep_points,
    waiting_share,
)
from specon_lab.reproduction.experiment import Collected, Measures, Reproduction, Row, Section, judge_figure
from specon_lab.reproduction.remarks import remarks_of
from specon_lab.results.statistics import Interval, mean

_POINTS: Final = 10.0
_FIRST: Final = 5
"""Jobs that, as the paper says, the locality-aware scheduler runs for about as long."""
_HEAVY: Final = 3.0
"""Above this intensity the paper saw jobs that run for longer under DRAGON."""
_HARDLY: Final = 2.0
"""Percent of the elapsed time: whether less waiting than this gets more or less says nothing."""

_REMARKS: Final = remarks_of("dragon")
_Verdict = Callable[[float], bool]


def sections(collected: Collected) -> Sequence[Section]:
    """Return the tables, with the rows that have runs."""
    points = sweep_points(collected)
    found = (
        Section(
            title="Figure 7: elapsed time of a job, in units of Kubeflow's",
            rows=tuple(_list_elapsed(collected)),
            remarks=_REMARKS["Figure 7"],
        ),
        Section(
            title="Figure 8: average utilisation of the GPUs",
            rows=tuple(_use_rows(collected)),
            remarks=_REMARKS["Figure 8"],
        ),
        Section(
            title="Figure 6: running time of a job, in units of DRAGON's",
            rows=tuple(_running_rows(collected)),
            remarks=_REMARKS["Figure 6"],
        ),
        Section(
            title="Figure 9: time saved against the locality-aware scheduler",
            rows=tuple(_sweep_rows(points, LOCALITY)),
            remarks=_REMARKS["Figures 9 and 10"],
        ),
        Section(
            title="Figure 10: time saved against Kubeflow",
            rows=tuple(_sweep_rows(points, KUBEFLOW)),
            remarks=_REMARKS["Figures 9 and 10"],
        ),
        Section(
            title="Table 1: the unit of the arrivals",
            rows=tuple(_unit_rows(collected)),
            remarks=_REMARKS["Table 1"],
        ),
    )
    return tuple(section for section in found if section.rows)


_FITTED: Final = "the workload was fitted to Figures 6 to 8"
_SUM: Final = "follows from the bars"


def _list_elapsed(collected: Collected) -> Iterator[Row]:
    waiting = part("waiting", "paused")
    for what, scheduler, figure, paper in (
        ("Kubeflow, running", KUBEFLOW, part("running"), 0.66),
        ("Kubeflow, waiting", KUBEFLOW, waiting, 0.34),
        ("locality-aware, running", LOCALITY, part("running"), 0.38),
        ("locality-aware, waiting", LOCALITY, waiting, 0.04),
        ("DRAGON, running", "", part("running"), 0.30),
        ("DRAGON, scaling", "", part("paused"), 0.03),
        ("DRAGON, waiting", "", part("waiting"), 0.02),
    ):
        yield from _row(what, _figures(collected, scheduler, figure), paper, None, note=_FITTED)
    for what, scheduler, paper in (
        ("saved by the locality-aware scheduler", LOCALITY, 60.0),
        ("saved by DRAGON", "", 65.0),
    ):
        yield from _row(
            what, _figures(collected, scheduler, elapsed_reduction), paper, None, unit="%", note=_SUM
        )
    for what, scheduler in (("locality-aware", LOCALITY), ("DRAGON", "")):
        yield from _row(
            f"{what}, jobs launched at once",
            _figures(collected, scheduler, _at_once),
            None,
            lambda jobs: jobs > JOBS / 2,
            unit=f"of {JOBS}",
            tolerance="more than half",
        )


def _use_rows(collected: Collected) -> Iterator[Row]:
    for what, scheduler, paper in (
        ("Kubeflow", KUBEFLOW, 57.0),
        ("locality-aware", LOCALITY, 45.0),
        ("DRAGON", "", 79.0),
    ):
        yield from _row(
            what, _figures(collected, scheduler, _measure_allocated), paper, None, unit="%", note=_FITTED
        )
    apart = (None, allocation_with_a_tail(collected))
    yield from _row("Kubeflow, runs with a long tail only", apart, None, None, unit="%")


def _running_rows(collected: Collected) -> Iterator[Row]:
    def from_kubeflow(choose: Callable[[list[float]], float]) -> tuple[Interval | None, Interval | None]:
        return _pair(
            lambda mode: figure_of_table_1(collected, mode, lambda run, base: choose(slowdowns(run, base)))
        )

    def from_locality(jobs: slice) -> tuple[Interval | None, Interval | None]:
        def figure(run: Measures, base: Measures) -> float:
            return mean(slowdowns(run, base)[jobs]) or 0.0

        return _pair(lambda mode: figure_of_table_1(collected, mode, figure, LOCALITY))

    for what, choose, paper in (
        ("Kubeflow, the least of a job", min, 1.2),
        ("Kubeflow, the most of a job", max, 6.3),
    ):
        yield from _row(what, from_kubeflow(choose), paper, None, note=_FITTED)
    early = f"locality-aware, mean of jobs 1 to {_FIRST}"
    yield from _row(early, from_locality(slice(_FIRST)), 1.0, None, note=_FITTED)
    late = f"locality-aware, mean of jobs {_FIRST + 1} to {JOBS}"
    yield from _row(late, from_locality(slice(_FIRST, None)), None, lambda x: x > 1, tolerance="above 1")


def _sweep_rows(points: Sequence[SweepPoint], baseline: str) -> Iterator[Row]:
    of_mode = {(point.intensity, point.mode): point for point in points if point.baseline == baseline}
    for what in ("elapsed", "running", "waiting"):
        for intensity in dict.fromkeys(intensity for intensity, _ in of_mode):
            literal, default = (
                getattr(of_mode[intensity, mode], what) if (intensity, mode) in of_mode else None
                for mode in ("literal", "default")
            )
            tolerance = "above 0"
            verdict: _Verdict | None = _positive
            if what == "running" and baseline == LOCALITY and intensity >= _HEAVY:
                tolerance, verdict = "either sign: the paper has both", None
            waits = next(point.waits.mean for (at, _), point in of_mode.items() if at == intensity)
            if what == "waiting" and waits < _HARDLY:
                tolerance, verdict = f"none: the other waits for {waits:.1f} % of its time", None
            note = ""
            if verdict is not None and (_open(literal) or _open(default)):
                verdict, note = None, "the interval over the seeds has both signs"
            words = f"{what} time, intensity {intensity:g}"
            figures = literal, default
            yield from _row(words, figures, None, verdict, unit="%", tolerance=tolerance, note=note)


def _unit_rows(collected: Collected) -> Iterator[Row]:
    paper = 100 * 0.04 / (0.38 + 0.04)
    for what, key in (("minutes", table_key(LOCALITY)), ("seconds, as printed", SECONDS)):
        found = mean_over_seeds(collected, key, key, waiting_share)
        yield from _row(
            f"waiting in the locality-aware scheduler's elapsed time, arrivals in {what}",
            (None, found),
            paper,
            _near(paper, _POINTS) if key != SECONDS else None,
            unit="%",
            tolerance=f"within {_POINTS:g} points" if key != SECONDS else "",
        )


def _measure_allocated(run: Measures, _: Measures) -> float:
    return 100 * run["allocated"]


def _at_once(run: Measures, _: Measures) -> float:
    return run["at once"]


def _figures(
    collected: Collected, scheduler: str, figure: RunComparison
) -> tuple[Interval | None, Interval | None]:
    """Return a figure in literal and in default mode; that of another scheduler stands as default."""
    if scheduler:
        return None, figure_of_table_1(collected, scheduler, figure)
    return _pair(lambda mode: figure_of_table_1(collected, mode, figure))


def _pair(figure: Callable[[str], Interval | None]) -> tuple[Interval | None, Interval | None]:
    return figure(LITERAL), figure(DEFAULT)


def _row(
    what: str,
    figures: tuple[Interval | None, Interval | None],
    paper: float | None,
    holds: _Verdict | None,
    *,
    tolerance: str = "",
    unit: str = "",
    note: str = "",
) -> Iterator[Row]:
    """Yield the row, if there are runs; it is reproduced where that holds in every mode that was run."""
    literal, default = figures
    known = [figure for figure in figures if figure is not None]
    if known:
        runs = min(figure.runs for figure in known)
        yield Row(
            what=what,
            paper=paper,
            literal=None if literal is None else literal.mean,
            default=None if default is None else default.mean,
            spread=known[0].half_width,
            unit=unit,
            tolerance=tolerance,
            reproduced=judge_figure(
                None if holds is None else all(holds(figure.mean) for figure in known), runs
            ),
            runs=runs,
            note=note,
        )


def _near(paper: float, tolerance: float) -> _Verdict:
    return lambda ours: abs(ours - paper) <= tolerance


def _positive(ours: float) -> bool:
    return ours > 0


def _open(figure: Interval | None) -> bool:
    """Whether more seeds might change the sign."""
    return figure is not None and figure.half_width is not None and abs(figure.mean) <= figure.half_width


REPRODUCTION: Final = Reproduction(
    name="dragon",
    title=(
        "C.-Y. Lin, T.-A. Yeh, J. Chou: DRAGON: A Dynamic Scheduling and Scaling Controller for Managing "
        "Distributed Deep Learning Jobs in Kubernetes Cluster, CLOSER 2019"
    ),
    runs=runs,
    sections=sections,
    remarks=_REMARKS["general"],
)
