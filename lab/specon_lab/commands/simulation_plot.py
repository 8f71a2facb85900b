"""A picture of simulations: completion times, how full the cluster was, and what ran on which node when."""

import math
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from specon_lab.commands.node_chart import TimeUnit, average_held, draw_nodes, job_colours, stack, time_unit
from specon_lab.engine.outcome import UsePoint
from specon_lab.results.report import ReportedRun
from specon_manager.views.names import printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_WIDTH, _DPI = 14.0, 100  # inches: 1400 pixels
_CURVES_INCHES: Final = 3.6
_LINE_BINS: Final = 80
_WIDE_RATIO: Final = 50  # between median and longest completion time: from here on the axis is logarithmic


def check_picture(path: Path) -> None:
    """Raise before anything is simulated what `plot_runs` would raise afterwards.

    ModuleNotFoundError, with what to install, and ValueError for a format that is not known.
    """
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415 - an extra, and slow to import
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("a picture needs matplotlib: pip install 'specon[simulate]'") from error
    known = Figure().canvas.get_supported_filetypes()
    if path.suffix[1:].lower() not in known:
        raise ValueError(f"{path}: the format is not one of {', '.join(sorted(known))}")


def plot_runs(path: Path, runs: Sequence[ReportedRun], *, title: str, nodes: Sequence[str]) -> None:
    """Draw the runs into a file whose suffix says its format, for instance `.png`.

    Completion times are those of all runs of a policy together; the rest is of its run with the smallest
    seed. `nodes` gives the nodes their order. Raises ModuleNotFoundError where matplotlib is not installed,
    ValueError where there is no run or the format is not known, and OSError where the file cannot be written.
    """
    if not runs:
        raise ValueError("runs: there is none to draw")
    check_picture(path)
    import matplotlib as mpl  # noqa: PLC0415 - an extra, and slow to import
    from matplotlib.figure import Figure  # noqa: PLC0415 - the same

    first = _first_runs(runs)
    charts = {name: stack(run.stays, nodes) for name, run in first.items() if run.stays}
    heights = [each.inches + 0.4 for each in charts.values()]
    # Names are shown as they are: a dollar sign starts no formula, a letter without a glyph is a box.
    with mpl.rc_context({"text.parse_math": False, "font.size": 9}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing", category=UserWarning)
        # No pyplot: a figure of its own needs no display and leaves no global state.
        figure = Figure(figsize=(_WIDTH, _CURVES_INCHES + sum(heights) + 0.4), dpi=_DPI, layout="constrained")
        figure.suptitle(printable(title), x=0.01, ha="left", fontweight="bold")
        curves, *rest = figure.subfigures(
            1 + len(charts), 1, height_ratios=[_CURVES_INCHES, *heights], squeeze=False
        )[:, 0]
        left, right = curves.subplots(1, 2)
        colours = {name: mpl.colormaps["tab10"](number % 10) for number, name in enumerate(first)}
        _completion(left, runs, colours)
        _utilisation(right, first, colours)
        end = max((each.end for run in first.values() for each in run.stays), default=0.0)
        # The same job has the same colour under every policy.
        jobs = job_colours((stay for run in first.values() for stay in run.stays), mpl.colormaps)
        crowded = [average_held(lanes, end) for lanes in charts.values() if lanes.crowded]
        most = max((count for counts in crowded for row in counts for count in row), default=0.0)
        for part, (name, lanes) in zip(rest, charts.items(), strict=True):
            axis = part.subplots()
            title = f"{printable(name)}, seed {first[name].seed}"
            axis.set_title(title, loc="left", color=colours[name], fontweight="bold")
            draw_nodes(axis, lanes, end, most, jobs)
        figure.savefig(path)


def _first_runs(runs: Sequence[ReportedRun]) -> dict[str, ReportedRun]:
    found: dict[str, ReportedRun] = {}
    for run in runs:
        known = found.get(run.policy)
        if known is None or run.seed < known.seed:
            found[run.policy] = run
    return found


def _completion(axis: "Axes", runs: Sequence[ReportedRun], colours: dict[str, Any]) -> None:
    """Draw which share of the jobs was complete how long after its submission; others never get there."""
    times = {
        name: [seconds for run in runs if run.policy == name for seconds in run.completion]
        for name in colours
    }
    known = sorted(seconds for values in times.values() for seconds in values if not math.isnan(seconds))
    longest = known[-1] if known else 1.0
    wide = bool(known) and longest > _WIDE_RATIO * max(known[len(known) // 2], 1e-9)
    unit = TimeUnit(1.0, "s") if wide else time_unit(longest)
    for name, values in times.items():
        done = sorted(seconds / unit.seconds for seconds in values if not math.isnan(seconds))
        shares = [(number + 1) / len(values) for number in range(len(done))]
        start = done[0] if wide and done else 0.0
        axis.step(
            [start, *done, longest / unit.seconds],
            [0.0, *shares, len(done) / max(1, len(values))],
            where="post",
            color=colours[name],
            label=printable(name),
            lw=1.5,
        )
    if wide:
        axis.set_xscale("log")
        axis.xaxis.set_major_formatter(lambda value, _: f"{value:,g}")
    axis.set_ylim(0, 1.02)
    axis.set_xlabel(f"completion time ({unit.name})")
    axis.set_ylabel("share of the jobs")
    axis.set_title("Completion times, all seeds", loc="left", fontweight="bold")
    axis.grid(alpha=0.3)
    axis.legend(loc="lower right", framealpha=0.9)


def _utilisation(axis: "Axes", first: dict[str, ReportedRun], colours: dict[str, Any]) -> None:
    """Draw the share that trained, averaged over short spans; of one or two policies also the allocated."""
    end = max((_find_end(run) for run in first.values()), default=0.0) or 1.0
    unit = time_unit(end)
    looks: dict[str, dict[str, Any]] = {"used": {"lw": 1.5}}
    if len(first) <= 2:  # noqa: PLR2004  (of more, nobody would find the way through the lines)
        looks["allocated"] = {"lw": 1.0, "ls": ":"}
    for name, run in first.items():
        until = _find_end(run)
        spans = max(1, round(_LINE_BINS * until / end))
        edges = [until * number / spans / unit.seconds for number in range(spans + 1)]
        for of, look in looks.items():
            percents = [100 * each for each in mean_by_bin(run.use, of, until, spans)]
            label = f"{printable(name)}, {of}" if len(looks) > 1 else None
            axis.stairs(percents, edges, color=colours[name], baseline=None, label=label, **look)
    axis.set_ylim(0, 102)
    axis.set_xlim(0, end / unit.seconds)
    axis.set_xlabel(f"time ({unit.name})")
    axis.set_ylabel("% of the cluster, used for training")
    seeds = sorted({run.seed for run in first.values()})
    axis.set_title(f"Utilisation, seed {', '.join(map(str, seeds))}", loc="left", fontweight="bold")
    axis.grid(alpha=0.3)
    if len(looks) > 1:
        axis.legend(loc="lower right", framealpha=0.9)


def _find_end(run: ReportedRun) -> float:
    """Return when the last thing of the run happened, seconds of the simulation."""
    return max([*(stay.end for stay in run.stays), *(point.at for point in run.use[-1:])], default=0.0)


def mean_by_bin(points: Sequence[UsePoint], of: str, end: float, count: int) -> list[float]:
    """Return the mean of a step function over each of `count` equal spans from 0 to `end`."""
    sums = [0.0] * count
    width = end / count
    ends = [*(point.at for point in points[1:]), end]
    for point, until in zip(points, ends, strict=False):  # of no point there is no end
        at, value = max(0.0, point.at), float(getattr(point, of))
        number = min(count - 1, int(at / width)) if width else count
        while at < min(until, end) and number < count:
            stop = min(until, end if number == count - 1 else (number + 1) * width)
            sums[number] += value * max(0.0, stop - at)
            at, number = max(at, stop), number + 1
    return [each / width if width else 0.0 for each in sums]
