"""SpeCon's figures from the measurements: each seed's run beside the run without moves, then over seeds."""

import math
from collections.abc import Callable, Container, Mapping, Sequence
from statistics import median
from typing import Final

from specon_lab.reproduction.experiment import FEWEST, Collected, Measures, Row
from specon_lab.reproduction.specon_runs import DEFAULT, JOB, LITERAL, Cell, Mode
from specon_lab.results.statistics import CONFIDENCE, interval, mean, student_quantile

TOLERANCE: Final = "one run is expected there (95 % of runs)"
GAIN_TOLERANCE: Final = "the same, and the mean is above 0 (95 % confidence)"
_EQUAL: Final = 1e-6  # seconds: no difference

ModeComparison = Callable[[Measures, Measures], float | None]
"""Of a run with SpeCon and the baseline's of the same seed; None where it has no meaning."""


def average_reduction(run: Measures, baseline: Measures) -> float | None:
    """Return by how many percent the average completion time is shorter."""
    return _reduction(mean(list(_completions(run).values())), mean(list(_completions(baseline).values())))


def makespan_reduction(run: Measures, baseline: Measures) -> float | None:
    """Return by how many percent the makespan is shorter."""
    return _reduction(run["makespan"], baseline["makespan"])


def faster(run: Measures, baseline: Measures) -> float | None:
    """Return how many percent of the jobs complete sooner."""
    pairs = _pairs(run, baseline)
    return 100 * sum(new < old - _EQUAL for new, old in pairs) / len(pairs) if pairs else None


def best(run: Measures, baseline: Measures) -> float | None:
    """Return by how many percent the job that gains most is faster."""
    return max((100 * (1 - new / old) for new, old in _pairs(run, baseline)), default=None)


def gain_seconds(run: Measures, baseline: Measures) -> float | None:
    """Return the mean gain of the jobs that are faster, seconds."""
    return mean([old - new for new, old in _pairs(run, baseline) if new < old - _EQUAL])


def gain_percent(run: Measures, baseline: Measures) -> float | None:
    """Return the mean gain of the jobs that are faster, percent of each job's own time."""
    return mean([100 * (1 - new / old) for new, old in _pairs(run, baseline) if new < old - _EQUAL])


def loss_seconds(run: Measures, baseline: Measures) -> float | None:
    """Return the mean loss of the jobs that are slower, seconds."""
    return mean([new - old for new, old in _pairs(run, baseline) if new > old + _EQUAL])


def loss_percent(run: Measures, baseline: Measures) -> float | None:
    """Return the mean loss of the jobs that are slower, percent of each job's own time."""
    return mean([100 * (new / old - 1) for new, old in _pairs(run, baseline) if new > old + _EQUAL])


def average_seconds(run: Measures, baseline: Measures) -> float | None:
    """Return the average completion time, seconds; the baseline does not matter."""
    del baseline
    return mean(list(_completions(run).values()))


def makespan_seconds(run: Measures, baseline: Measures) -> float | None:
    """Return the makespan, seconds; the baseline does not matter."""
    del baseline
    return run["makespan"]


def pause_of_a_move(run: Measures, baseline: Measures) -> float | None:
    """Return how long a move pauses a job, seconds; None where nothing moved."""
    del baseline
    return run["paused"] / run["moves"] if run["moves"] else None


def moves(run: Measures, baseline: Measures) -> float | None:
    """Return how many moves there were."""
    del baseline
    return run["moves"]


GAINS: Final = frozenset({average_reduction, makespan_reduction, best})
"""Figures that must be above zero to count as a gain."""
DERIVED: Final = frozenset({average_seconds, makespan_seconds})
"""What follows from the runs without moves, to which the durations are fitted, and the reduction."""
_DERIVED: Final = "follows from the fitted runs and the reduction"


def values(
    collected: Collected,
    cell: Cell,
    mode: Mode | None,
    figure: ModeComparison,
    seeds: Container[float] | None = None,
) -> list[float]:
    """Return the figure of each seed that has both runs; without a mode, the figure of the baseline itself.

    `seeds` limits it to these seeds.
    """
    key = cell.baseline_key if mode is None else cell.key(mode)
    baselines = {measures["seed"]: measures for measures in collected.get(cell.baseline_key, ())}
    found = (
        figure(measures, baselines[measures["seed"]])
        for measures in collected.get(key, ())
        if measures["seed"] in baselines and (seeds is None or measures["seed"] in seeds)
    )
    return [value for value in found if value is not None]


def row(
    collected: Collected,
    cell: Cell,
    what: str,
    figure: ModeComparison,
    paper: float | None,
    *,
    unit: str = "%",
) -> Row | None:
    """Return the row of a figure in both modes, judged by the literal one; None where it was not run."""
    literal, default = (values(collected, cell, mode, figure) for mode in (LITERAL, DEFAULT))
    if not literal and not default:
        return None
    compared = literal or default
    gain, derived = figure in GAINS, figure in DERIVED
    judging = paper is not None and not derived
    return Row(
        what=what,
        paper=paper,
        literal=mean(literal),
        default=mean(default),
        spread=_half_width(compared),
        unit=unit,
        tolerance="" if not judging else GAIN_TOLERANCE if gain else TOLERANCE,
        reproduced=verdict(compared, paper, gain=gain) if judging else None,
        runs=len(compared),
        note="; ".join(
            filter(None, (_DERIVED * derived, seeds_note({"literal": literal, "default": default})))
        ),
    )


def baseline_row(
    collected: Collected, cell: Cell, what: str, figure: ModeComparison, paper: float | None
) -> Row | None:
    """Return the row of a figure of the runs without moves, which know no mode."""
    found = values(collected, cell, None, figure)
    if not found:
        return None
    return Row(
        what=what,
        paper=paper,
        literal=mean(found),
        default=mean(found),
        spread=_half_width(found),
        unit="s",
        runs=len(found),
        note=seeds_note({"": found}) if paper is None else f"fitted to it; {seeds_note({'': found})}",
    )


def verdict(found: Sequence[float], paper: float | None, *, gain: bool) -> bool | None:
    """Return whether the paper's run may be one of those found; None with too few seeds or no figure.

    The paper gives one run of each experiment, so that it is compared with the prediction interval of one
    further run (mean +- t s sqrt(1 + 1/n)), and not with the much narrower interval of the mean. That alone
    would be no test of a gain, as an interval around nothing holds small gains, too: with `gain` the
    interval of confidence of the mean lies above 0.
    """
    if paper is None or len(found) < FEWEST:
        return None
    known = interval(found)
    assert known is not None
    assert known.low is not None
    count = len(found)
    variance = math.fsum((value - known.mean) ** 2 for value in found) / (count - 1)
    reach = student_quantile(count - 1, (1 + CONFIDENCE) / 2) * math.sqrt(variance * (1 + 1 / count))
    return abs(paper - known.mean) <= reach and (not gain or known.low > 0)


def seeds_note(found: Mapping[str, Sequence[float]]) -> str:
    """Return lowest, median and highest of the seeds in words, for each mode that was run."""
    parts = [
        f"{len(seeds)} seeds {min(seeds):.1f} / {median(seeds):.1f} / {max(seeds):.1f}"
        + (f" ({name})" if name else "")
        for name, seeds in found.items()
        if seeds
    ]
    return ", ".join(parts)


def _half_width(found: Sequence[float]) -> float | None:
    known = interval(found)
    return None if known is None else known.half_width


def _completions(measures: Measures) -> dict[str, float]:
    return {name: value for name, value in measures.items() if name.startswith(JOB)}


def _pairs(run: Measures, baseline: Measures) -> list[tuple[float, float]]:
    """Return the completion times of each job that completes in both."""
    others = _completions(baseline)
    return [(value, others[name]) for name, value in _completions(run).items() if name in others]


def _reduction(new: float | None, old: float | None) -> float | None:
    return None if new is None or not old else 100 * (1 - new / old)
