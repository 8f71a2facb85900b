"""A picture of one run or of two: completion times, and which job was on which node when."""

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from specon_manager.cli import job_label
from specon_manager.cli.placements import Placement
from specon_manager.cli.result import RunResult, in_seconds
from specon_manager.model.moves import MoveState

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Colours = Mapping[str, Any]

_WIDTH, _HEIGHT, _DPI = 14.0, 9.0, 100  # inches: 1400 x 900 pixels
_LANE_INCHES: Final = 0.16  # the least height of a lane that still shows its job
_BARS_INCHES: Final = 2.6
_NAME_SHARE: Final = 0.0085  # of the time axis that one letter takes
_TAB_COLOURS: Final = 20


def plot(path: Path, runs: Sequence[RunResult]) -> None:
    """Draw the runs into a file whose suffix says its format, PNG for one.

    Raises ModuleNotFoundError where matplotlib is not installed, ValueError where there is no run or the
    format is not known, and OSError where the file cannot be written.
    """
    if not runs:
        raise ValueError("runs: none to draw")
    try:
        import matplotlib as mpl  # noqa: PLC0415 - an extra, and slow to import
        from matplotlib.figure import Figure  # noqa: PLC0415 - the same
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "a picture needs matplotlib: pip install 'specon[demo]'", name=error.name
        ) from error
    colours = _colours(runs)
    lanes = [_lanes(run) for run in runs]
    charts = [max(1.5, _LANE_INCHES * _count(lane, run) + 0.8) for lane, run in zip(lanes, runs, strict=True)]
    height = max(_HEIGHT, _BARS_INCHES + sum(charts) + 1.0)
    # Names are shown as they are: a dollar sign starts no formula, and a letter without a glyph is a box.
    with mpl.rc_context({"text.parse_math": False, "font.size": 9}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing", category=UserWarning)
        figure = Figure(figsize=(_WIDTH, height), dpi=_DPI, layout="constrained")
        axes = figure.subplots(len(runs) + 1, 1, height_ratios=[_BARS_INCHES, *charts], squeeze=False)[:, 0]
        _bars(axes[0], runs, colours)
        end = max((placement.end for run in runs for placement in run.placements), default=1.0)
        for axis, run, lane in zip(axes[1:], runs, lanes, strict=True):
            _gantt(axis, run, lane, colours, end=end)
        figure.savefig(path)


def _colours(runs: Sequence[RunResult]) -> Colours:
    """Return a colour per job, the same in every run."""
    import matplotlib as mpl  # noqa: PLC0415 - an extra, and slow to import

    names = list(dict.fromkeys(job.name for run in runs for job in run.jobs))
    names += [each.job for run in runs for each in run.placements if each.job not in names]
    names = list(dict.fromkeys(names))
    if len(names) <= _TAB_COLOURS:
        table = mpl.colormaps["tab20"]
        # Its colours come in pairs of dark and light: first all the dark ones.
        order = [*range(0, _TAB_COLOURS, 2), *range(1, _TAB_COLOURS, 2)]
        return {name: table(order[index]) for index, name in enumerate(names)}
    table = mpl.colormaps["hsv"]
    return {name: table(index / len(names)) for index, name in enumerate(names)}


def _bars(axis: "Axes", runs: Sequence[RunResult], colours: Colours) -> None:
    """Draw the completion time of each job, a bar per run; a job that did not succeed has a word instead."""
    from matplotlib.patches import Patch  # noqa: PLC0415 - an extra, and slow to import

    names = list(colours)
    width = 0.8 / len(runs)
    for number, run in enumerate(runs):
        hatch = "" if number == 0 else "////"
        jobs = {job.name: job for job in run.jobs}
        for place, name in enumerate(names):
            left = place - 0.4 + (number + 0.5) * width
            job = jobs.get(name)
            if job is None or job.completion_seconds is None:
                word = "" if job is None else "not ended" if job.finished_at is None else "failed"
                axis.text(left, 0, f" {word}", rotation=90, ha="center", va="bottom", color="red")
                continue
            bar = axis.bar(
                left,
                job.completion_seconds,
                width * 0.92,
                color=colours[name],
                alpha=1.0 if number == 0 else 0.45,
                hatch=hatch,
                edgecolor="white" if number == 0 else "black",
                linewidth=0.5,
            )
            axis.bar_label(bar, fmt="%.0f", fontsize=7, padding=1)
    axis.set_xticks(range(len(names)), [job_label(name) for name in names], rotation=25, ha="right")
    axis.set_xlim(-0.6, max(0.6, len(names) - 0.4))
    axis.margins(y=0.15)
    axis.set_ylabel("completion time (s)")
    axis.set_title("Completion time of each job, from submission to end", loc="left", fontweight="bold")
    axis.grid(axis="y", alpha=0.3)
    axis.set_axisbelow(True)
    patches = [
        Patch(facecolor="grey", alpha=1.0 if n == 0 else 0.45, hatch="" if n == 0 else "////", label=_in_words(run))
        for n, run in enumerate(runs)
    ]
    axis.legend(handles=patches, loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)


def _in_words(run: RunResult) -> str:
    average = in_seconds(run.average_completion_seconds, "unknown")
    makespan = in_seconds(run.makespan_seconds, "unknown")
    return f"{run.policy}\naverage completion {average} s\nmakespan {makespan} s"
