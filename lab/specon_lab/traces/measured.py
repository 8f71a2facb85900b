"""What the authors of Pollux measured of an application: steps to the end, and seconds of a step.

A folder for each application holds `validation-<batch>.csv` (progress, iteration, metric, one row for each
epoch), `placements.csv` (placement, local_bsz, step_time, sync_time; a placement is the number of replicas
on each node, `44` for two nodes with four each) and `scalability.csv` (the same for larger numbers of
replicas).
"""

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Final, TypeVar

import msgspec
from msgspec import Meta, Struct

from specon_lab.traces.mistakes import TraceError
from specon_lab.traces.records import Table

PER_NODE: Final = 4
"""GPUs of the nodes that were measured."""
LARGEST_LOCAL_BATCH: Final = {"yolov3": 8}
"""Where it is less than the largest that was measured, as the authors' simulator has it."""

MeasuredValue = Annotated[float, Meta(gt=0, le=1e9)]
Whole = Annotated[int, Meta(ge=1, le=10**9)]


class Epoch(Struct, frozen=True, kw_only=True):
    """One row of a validation curve."""

    iteration: Annotated[float, Meta(gt=0, le=1e15)]
    metric: Annotated[float, Meta(ge=-1e15, le=1e15)]


class Placed(Struct, frozen=True, kw_only=True):
    """One row of the placements."""

    placement: Annotated[str, Meta(pattern=r"^[1-9]{1,64}\Z")]
    local_bsz: MeasuredValue
    step_time: MeasuredValue
    sync_time: Annotated[float, Meta(ge=0, le=1e9)]


class Scaled(Struct, frozen=True, kw_only=True):
    """One row of the scalability measurements."""

    num_nodes: Whole
    num_replicas: Whole
    local_bsz: MeasuredValue
    step_time: MeasuredValue
    sync_time: Annotated[float, Meta(ge=0, le=1e9)]


Row = TypeVar("Row", bound=Struct)
Point = tuple[float, float, float]
"""Local batch, seconds of a step, seconds of these that replicas wait for each other."""


class Application:
    """The measurements of one application, read at once."""

    def __init__(self, folder: Path) -> None:
        """Read the folder; raises TraceError that names the file."""
        self.name = folder.name
        curves = {_batch_of(path): _rows(path, Epoch) for path in sorted(folder.glob("validation-*.csv"))}
        if not curves:
            raise TraceError([f"{folder}: holds no validation-<batch>.csv"])
        self._curves: Mapping[int, Sequence[Epoch]] = {batch: curves[batch] for batch in sorted(curves)}
        self._points = _consolidate(
            _rows(folder / "placements.csv", Placed), _rows(folder / "scalability.csv", Scaled)
        )
        if not self._points:
            raise TraceError(
                [f"{folder}: placements.csv has no placement that fills one node after the other"]
            )
        local = [point[0] for points in self._points.values() for point in points]
        self.smallest_local = math.ceil(min(local))
        self._largest_local = LARGEST_LOCAL_BATCH.get(self.name, math.floor(max(local)))

    def seconds(self, batch: int, replicas: int) -> float:
        """Return how long it trains with that batch, on replicas that fill one node after the other.

        Steps to the end, as measured for the batch, times the seconds of a step, with gradients accumulated
        where the replicas' memory does not hold their parts of the batch.
        """
        batches = list(self._curves)
        largest = batches[-1]
        local = max(1, math.ceil(batch / replicas))
        accumulated = math.ceil(local / self._largest_local) - 1
        if replicas == 1 and batch > batches[0]:
            accumulated = max(1, accumulated)  # the authors' simulator needs it to measure the noise
        rounds = replicas * (accumulated + 1)
        atomic = max(1, min(math.ceil(local / (accumulated + 1)), largest // rounds))
        step, sync = self._step(replicas, atomic)
        return self._steps(min(atomic * rounds, largest)) * (step + accumulated * (step - sync))

    def decay(self, batch: int) -> float:
        """Return the rate k of 1 - exp(-k p), by when the metric had made 63 % of its way."""
        nearest = min(self._curves, key=lambda known: abs(known - batch))
        metrics = [epoch.metric for epoch in self._curves[nearest]]
        first = metrics[0]
        best = max(metrics) if metrics[-1] >= first else min(metrics)
        reached = next(
            index
            for index, metric in enumerate(metrics, start=1)
            if abs(metric - first) >= (1 - 1 / math.e) * abs(best - first)
        )
        return min(50.0, max(1.0, len(metrics) / reached))

    def _steps(self, batch: float) -> float:
        """Return the steps to the end, linear between the batches that were measured."""
        ends = [(float(known), epochs[-1].iteration) for known, epochs in self._curves.items()]
        return _between(ends, batch)

    def _step(self, replicas: int, local: float) -> tuple[float, float]:
        """Return seconds of a step and of waiting in it, linear between the measurements."""
        steps, syncs = [], []
        for count, points in self._points.items():
            steps.append((float(count), _between([(size, step) for size, step, _ in points], local)))
            syncs.append((float(count), _between([(size, sync) for size, _, sync in points], local)))
        return _between(steps, replicas), _between(syncs, replicas)


def _between(points: Sequence[tuple[float, float]], at: float) -> float:
    """Return the value at `at`, linear between sorted points, and that of the nearest beyond them."""
    index = bisect_left(points, at, key=lambda point: point[0])
    if index == 0:
        return points[0][1]
    if index == len(points):
        return points[-1][1]
    (left, low), (right, high) = points[index - 1], points[index]
    return low + (high - low) * (at - left) / (right - left)


def _consolidate(placed: Sequence[Placed], scaled: Sequence[Scaled]) -> dict[int, list[Point]]:
    """Return the measurements by number of replicas, ascending, of those on as few nodes as possible."""
    found: dict[int, dict[float, Point]] = {}
    for row in placed:
        replicas = sum(map(int, row.placement))
        full, rest = divmod(replicas, PER_NODE)
        # The files name the smallest rotation of a placement.
        if row.placement == (str(rest) if rest else "") + str(PER_NODE) * full:
            found.setdefault(replicas, {})[row.local_bsz] = (row.local_bsz, row.step_time, row.sync_time)
    known = set(found)
    for entry in scaled:
        if entry.num_nodes == math.ceil(entry.num_replicas / PER_NODE) and entry.num_replicas not in known:
            point = (entry.local_bsz, entry.step_time, entry.sync_time)
            found.setdefault(entry.num_replicas, {})[entry.local_bsz] = point
    return {
        replicas: [by_size[size] for size in sorted(by_size)] for replicas, by_size in sorted(found.items())
    }


def _batch_of(path: Path) -> int:
    number = path.stem.partition("-")[2]
    if not (number.isascii() and number.isdigit() and 0 < int(number[:12]) < 10**9):
        raise TraceError([f"{path.name}: the name must end in a batch size"])
    return int(number)


def _rows(path: Path, kind: type[Row]) -> list[Row]:
    """Return the rows of a small table."""
    rows = []
    for number, record in Table(path):
        if isinstance(record, str):
            raise TraceError([f"{path}, row {number}: {record}"])
        try:
            rows.append(msgspec.convert(record, kind, strict=False))
        except msgspec.ValidationError as error:
            raise TraceError([f"{path}, row {number}: {error}"]) from error
    if not rows:
        raise TraceError([f"{path}: has no rows"])
    return rows
