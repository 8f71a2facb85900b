"""A chart of nodes: what ran where and when, or, where bars would be too many, how many replicas."""

import heapq
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from specon_lab.engine.outcome import Stay
from specon_manager.model.cluster import job_of
from specon_manager.views.names import job_label, printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LEAST_CHART_INCHES: Final = 1.1
_LANE_INCHES: Final = 0.13
_MAP_INCHES: Final = 2.2
_MAX_LANES: Final = 64  # more cannot be told apart: a map of how full each node was is drawn instead
_MAX_STAYS: Final = 5000
_MAX_NODE_NAMES: Final = 16
_MAP_BINS: Final = 240
_PALE: Final = 0.35  # of white in the colour of a job: its name is written on it
_LETTER_SHARE: Final = 0.0065  # of the time axis that one letter takes
_JOB_COLOURS: Final = 20

_UNITS: Final = ((2 * 86400.0, 86400.0, "d"), (2 * 3600.0, 3600.0, "h"), (300.0, 60.0, "min"))

Colour = tuple[float, ...]
"""Red, green and blue, 0 to 1."""


class TimeUnit(Struct, frozen=True):
    """In which unit times are drawn."""

    seconds: float
    name: str


class Lanes(Struct, frozen=True):
    """Which lane each stay is drawn in, counted from the top; each node has its own lanes."""

    stays: Sequence[tuple[Stay, int]]
    nodes: Sequence[tuple[str, int, int]]
    """Name, first lane and number of lanes."""
    count: int

    @property
    def crowded(self) -> bool:
        """Whether bars could not be told apart."""
        return self.count > _MAX_LANES or len(self.stays) > _MAX_STAYS

    @property
    def inches(self) -> float:
        """How high its chart is."""
        return _MAP_INCHES if self.crowded else max(_LEAST_CHART_INCHES, _LANE_INCHES * self.count)


def time_unit(seconds: float) -> TimeUnit:
    """Return the largest unit in which so long a time is still more than a few."""
    return next(
        (TimeUnit(unit, name) for least, unit, name in _UNITS if seconds >= least), TimeUnit(1.0, "s")
    )


def stack(stays: Sequence[Stay], nodes: Sequence[str]) -> Lanes:
    """Stack the stays that overlap on one node; a lane is taken again once it is free."""
    by_node: dict[str, list[Stay]] = {name: [] for name in nodes}
    for stay in stays:
        by_node.setdefault(stay.node, []).append(stay)
    placed, bands, first = [], [], 0
    for name, own in by_node.items():
        free: list[int] = []
        busy: list[tuple[float, int]] = []
        count = 0
        for stay in sorted(own, key=lambda each: (each.start, each.replica)):
            while busy and busy[0][0] <= stay.start:
                heapq.heappush(free, heapq.heappop(busy)[1])
            if free:
                lane = heapq.heappop(free)
            else:
                lane, count = count, count + 1
            heapq.heappush(busy, (stay.end, lane))
            placed.append((stay, first + lane))
        bands.append((name, first, max(1, count)))
        first += max(1, count)
    return Lanes(placed, bands, max(1, first))


def job_colours(stays: Iterable[Stay], tables: Mapping[str, Any]) -> dict[str, Colour]:
    """Return a colour for each job, in turn by name, job-2 before job-10."""
    names = sorted({job_of(stay.replica) for stay in stays}, key=lambda name: (len(name), name))
    colours: dict[str, Colour] = {}
    for number, name in enumerate(names):
        dark = tables["tab20"](number % _JOB_COLOURS)
        colours[name] = tuple(part + (1 - part) * _PALE for part in dark[:3])
    return colours


def draw_nodes(axis: "Axes", lanes: Lanes, end: float, most: float, colours: Mapping[str, Colour]) -> None:
    """Draw which job was on which node when, or, where there is too much of it, how many were."""
    unit = time_unit(end)
    if lanes.crowded:
        _map(axis, lanes, end, most)
    else:
        _gantt(axis, lanes, end, colours)
    axis.set_xlim(0, end / unit.seconds or 1.0)
    axis.set_xlabel(f"time ({unit.name})")


def _gantt(axis: "Axes", lanes: Lanes, end: float, colours: Mapping[str, Colour]) -> None:
    from matplotlib.collections import PolyCollection  # noqa: PLC0415 - an extra, and slow to import

    unit = time_unit(end)
    boxes, faces = [], []
    for stay, lane in lanes.stays:
        start, stop = stay.start / unit.seconds, stay.end / unit.seconds
        job = job_of(stay.replica)
        boxes.append([(start, lane - 0.43), (start, lane + 0.43), (stop, lane + 0.43), (stop, lane - 0.43)])
        faces.append(colours[job])
        label = job_label(job)
        if end > 0 and (stay.end - stay.start) / end / _LETTER_SHARE >= len(label) + 1:
            axis.text(start, lane, f" {label}", va="center", fontsize=6, clip_on=True)
    axis.add_collection(PolyCollection(boxes, facecolors=faces, edgecolors="black", linewidths=0.3))
    for at, lane in _moves(lanes):
        axis.plot(at / unit.seconds, lane, marker=">", color="black", mec="white", mew=0.5, ms=5, zorder=5)
    for _, first, _ in lanes.nodes[1:]:
        axis.axhline(first - 0.5, color="black", lw=0.6)
    _name_nodes(axis, [(name, first + (count - 1) / 2) for name, first, count in lanes.nodes])
    axis.set_ylim(lanes.count - 0.5, -0.5)
    axis.grid(axis="x", alpha=0.3)
    axis.set_axisbelow(True)


def _moves(lanes: Lanes) -> list[tuple[float, int]]:
    """Return when and in which lane each replica came from another node."""
    last: dict[str, str] = {}
    arrivals = []
    for stay, lane in sorted(lanes.stays, key=lambda item: (item[0].start, item[0].replica)):
        if last.get(stay.replica, stay.node) != stay.node:
            arrivals.append((stay.start, lane))
        last[stay.replica] = stay.node
    return arrivals


def _map(axis: "Axes", lanes: Lanes, end: float, most: float) -> None:
    """Draw how many replicas each node held; `most` is what the brightest colour stands for."""
    names = [name for name, _, _ in lanes.nodes]
    image = axis.imshow(
        average_held(lanes, end),
        aspect="auto",
        interpolation="nearest",
        cmap="viridis",
        vmin=0,
        vmax=most,
        extent=(0, end / time_unit(end).seconds or 1.0, len(names) - 0.5, -0.5),
    )
    axis.figure.colorbar(image, ax=axis, label="replicas", pad=0.01)
    _name_nodes(axis, [(name, float(number)) for number, name in enumerate(names)])


def average_held(lanes: Lanes, end: float) -> list[list[float]]:
    """Return how many replicas each node held on average in each of equal spans of time."""
    rows = {name: number for number, (name, _, _) in enumerate(lanes.nodes)}
    counts = [[0.0] * _MAP_BINS for _ in rows]
    width = end / _MAP_BINS or 1.0
    for stay, _ in lanes.stays:
        row = counts[rows[stay.node]]
        for number in range(int(stay.start / width), min(_MAP_BINS, int(stay.end / width) + 1)):
            overlap = min(stay.end, (number + 1) * width) - max(stay.start, number * width)
            row[number] += max(0.0, overlap) / width
    return counts


def _name_nodes(axis: "Axes", places: Sequence[tuple[str, float]]) -> None:
    every = math.ceil(len(places) / _MAX_NODE_NAMES)
    named = places[::every]
    axis.set_yticks([place for _, place in named], [printable(name) for name, _ in named])
    axis.set_ylabel("node")
