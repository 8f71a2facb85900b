"""A picture of one run or of two: completion times, and which job was on which node when."""

import math
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from specon_manager.cli.run.placements import PlacementSpan
from specon_manager.cli.run.result import RunResult, format_seconds
from specon_manager.model.transactions import TransactionState
from specon_manager.views.names import job_label

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Colours = Mapping[str, Any]

_WIDTH, _HEIGHT, _DPI = 14.0, 9.0, 100  # inches: 1400 x 900 pixels
_LANE_INCHES: Final = 0.17  # the least height of a lane whose job can still be read
_BARS_INCHES: Final = 2.8
_LETTER_SHARE: Final = 0.007  # of the time axis that one letter takes
_PAIRED_COLOURS: Final = 20
_LEGEND_ROWS: Final = 20
_MARKED: Final = frozenset({TransactionState.ROLLED_BACK, TransactionState.FAILED})
_SECOND: Final[Mapping[str, Any]] = {"alpha": 0.45, "hatch": "////"}  # how bars of the second run differ


class _Layout(Struct, frozen=True):
    """Which lane each placement is drawn in, counted from the top; each node has its own lanes."""

    lanes: Sequence[tuple[PlacementSpan, int]]
    nodes: Sequence[tuple[str, int, int]]
    """Name, first lane and number of lanes."""
    count: int


def plot(path: Path, runs: Sequence[RunResult]) -> None:
    """Draw the runs into a file whose suffix says its format, for instance `.png`.

    Raises ModuleNotFoundError where matplotlib is not installed, ValueError where there is no run or the
    format is not known, and OSError where the file cannot be written.
    """
    if not runs:
        raise ValueError("runs: there is none to draw")
    try:
        import matplotlib as mpl  # noqa: PLC0415 - an extra, and slow to import
        from matplotlib.figure import Figure  # noqa: PLC0415 - the same
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("a picture needs matplotlib: pip install 'specon[demo]'") from error
    layouts = [_layout(run) for run in runs]
    charts = [_LANE_INCHES * layout.count + 0.7 for layout in layouts]
    height = max(_HEIGHT, _BARS_INCHES + sum(charts))
    # Names are shown as they are: a dollar sign starts no formula, a letter without a glyph is a box.
    with mpl.rc_context({"text.parse_math": False, "font.size": 9}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing", category=UserWarning)
        # No pyplot: a figure of its own needs no display and leaves no global state.
        figure = Figure(figsize=(_WIDTH, height), dpi=_DPI, layout="constrained")
        ratios = [_BARS_INCHES, *charts]
        axes = figure.subplots(len(runs) + 1, 1, height_ratios=ratios, squeeze=False)[:, 0]
        names = dict.fromkeys(each.name for run in runs for each in run.jobs)
        names |= dict.fromkeys(each.job for run in runs for each in run.placements)
        colours = _colours(list(names), mpl.colormaps)
        _bars(axes[0], runs, colours)
        end = max((each.end for run in runs for each in run.placements), default=1.0)
        for axis, run, layout in zip(axes[1:], runs, layouts, strict=True):
            _gantt(axis, run, layout, colours, end)
        _legend(axes[1], colours)
        figure.savefig(path)


def _colours(names: Sequence[str], tables: Mapping[str, Any]) -> Colours:
    """Return a colour per job, the same in every chart."""
    if len(names) > _PAIRED_COLOURS:
        return {name: tables["hsv"](index / len(names)) for index, name in enumerate(names)}
    # The colours come in pairs of dark and light: first all the dark ones.
    order = [*range(0, _PAIRED_COLOURS, 2), *range(1, _PAIRED_COLOURS, 2)]
    return {name: tables["tab20"](order[index]) for index, name in enumerate(names)}


def _bars(axis: "Axes", runs: Sequence[RunResult], colours: Colours) -> None:
    """Draw the completion time of each job, a bar per run; a job that did not succeed has a word instead."""
    from matplotlib.patches import Patch  # noqa: PLC0415 - an extra, and slow to import

    width = 0.8 / len(runs)
    for number, run in enumerate(runs):
        look = _SECOND if number else {}
        jobs = {job.name: job for job in run.jobs}
        for place, (name, colour) in enumerate(colours.items()):
            middle = place - 0.4 + (number + 0.5) * width
            job = jobs.get(name)
            if job is not None and job.completion_seconds is not None:
                bar = axis.bar(
                    middle,
                    job.completion_seconds,
                    width * 0.94,
                    color=colour,
                    edgecolor="black",
                    lw=0.5,
                    **look,
                )
                axis.bar_label(bar, fmt="%.0f", fontsize=7, padding=1)
            elif job is not None:
                word = "not ended" if job.finished_at is None else "failed"
                axis.text(middle, 0, f" {word}", rotation=90, ha="center", va="bottom", color="red")
    axis.set_xticks(range(len(colours)), [job_label(name) for name in colours], rotation=20, ha="right")
    axis.set_xlim(-0.6, max(0.6, len(colours) - 0.4))
    axis.margins(y=0.15)
    axis.set_ylabel("completion time (s)")
    axis.set_title("Completion time of each job, from submission to end", loc="left", fontweight="bold")
    axis.grid(axis="y", alpha=0.3)
    axis.set_axisbelow(True)
    patches = [
        Patch(facecolor="grey", edgecolor="black", label=run.policy, **(_SECOND if number else {}))
        for number, run in enumerate(runs)
    ]
    axis.legend(handles=patches, title="policy", loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)


def _layout(run: RunResult) -> _Layout:
    """Stack the placements that overlap on one node; a lane is taken again once it is free."""
    nodes, lanes, first = [], [], 0
    for name in dict.fromkeys([*run.machine.names, *(placement.node for placement in run.placements)]):
        free: list[float] = []
        for placement in run.placements:
            if placement.node != name:
                continue
            lane = next((index for index, end in enumerate(free) if end <= placement.start), len(free))
            free[lane : lane + 1] = [placement.end]
            lanes.append((placement, first + lane))
        nodes.append((name, first, max(1, len(free))))
        first += max(1, len(free))
    return _Layout(lanes=lanes, nodes=nodes, count=max(1, first))


def _gantt(axis: "Axes", run: RunResult, layout: _Layout, colours: Colours, end: float) -> None:
    """Draw when each job was on which node, and its moves from node to node."""
    for placement, lane in layout.lanes:
        length = placement.end - placement.start
        axis.barh(
            lane,
            length,
            0.86,
            placement.start,
            color=colours[placement.job],
            edgecolor="black",
            linewidth=0.4,
        )
        label = job_label(placement.job)
        letters = int(length / end / _LETTER_SHARE) if end > 0 else 0
        if letters >= len(label):
            axis.text(placement.start, lane, f" {label}", va="center", fontsize=7, clip_on=True)
    _arrows(axis, layout)
    _crosses(axis, run, layout)
    for _, first, _ in layout.nodes[1:]:
        axis.axhline(first - 0.5, color="black", linewidth=1.0)
    ticks = [first + (count - 1) / 2 for _, first, count in layout.nodes]
    axis.set_yticks(ticks, [name for name, _, _ in layout.nodes])
    axis.set_ylim(layout.count - 0.5, -0.5)
    axis.set_xlim(0, end * 1.01 or 1.0)
    axis.set_xlabel("time since the begin of the run (s)")
    axis.set_ylabel("node")
    average = format_seconds(run.average_completion_seconds, "-")
    makespan = format_seconds(run.makespan_seconds, "-")
    done = run.moves_by_outcome.get(TransactionState.SUCCEEDED, 0)
    title = (
        f"{run.policy}: average completion {average} s, makespan {makespan} s, moves that succeeded: {done}"
    )
    axis.set_title(title, loc="left", fontweight="bold")
    axis.grid(axis="x", alpha=0.3)
    axis.set_axisbelow(True)


def _arrows(axis: "Axes", layout: _Layout) -> None:
    """Point from where a replica was to where it was next, if that is another node."""
    last: dict[str, tuple[PlacementSpan, int]] = {}
    for placement, lane in sorted(layout.lanes, key=lambda item: item[0].start):
        known = last.get(placement.replica)
        if known is not None and known[0].node != placement.node:
            look = {"arrowstyle": "-|>", "linewidth": 1.4, "color": "black", "shrinkA": 0, "shrinkB": 0}
            start, stop = (known[0].end, known[1]), (placement.start, lane)
            axis.annotate("", xy=stop, xytext=start, arrowprops=look, zorder=5)
        last[placement.replica] = (placement, lane)


def _crosses(axis: "Axes", run: RunResult, layout: _Layout) -> None:
    """Mark where a move ended without success."""
    for move in run.moves:
        if move.ended_at is None or move.state in {TransactionState.SUCCEEDED, TransactionState.REFUSED}:
            continue
        own = [item for item in layout.lanes if item[0].replica == move.replica]
        around = [lane for placement, lane in own if placement.start <= move.ended_at <= placement.end]
        if around:
            axis.plot(move.ended_at, around[-1], marker="X", color="red", mec="white", ms=8, zorder=6)


def _legend(axis: "Axes", colours: Colours) -> None:
    """Say beside the first chart which colour is which job, and what the marks mean."""
    from matplotlib.lines import Line2D  # noqa: PLC0415 - an extra, and slow to import
    from matplotlib.patches import Patch  # noqa: PLC0415 - the same

    handles: list[Line2D | Patch] = [
        Patch(facecolor=colour, edgecolor="black", label=f" {job_label(name)}")
        for name, colour in colours.items()
    ]
    handles.append(Line2D([], [], color="black", marker=">", label=" moved"))
    handles.append(
        Line2D([], [], color="red", marker="X", mec="white", ls="", label=" move undone or failed")
    )
    axis.legend(
        handles=handles,
        loc="upper left",
        bbox_to_anchor=(1.0, 1.0),
        frameon=False,
        fontsize=8,
        ncols=math.ceil(len(handles) / _LEGEND_ROWS),
    )
