"""What the page remembers of each replica's loss: a few points, thinned as they become many."""

import math
from array import array
from typing import Final

from specon_manager.model.events import ReportReceived
from specon_manager.runtime.controller import Stepped
from specon_manager.views.page import POINTS, Point
from specon_sidecar.classify import Category

REPLICAS: Final = 5000
_SILENT_SECONDS: Final = 600.0
_CATEGORIES: Final = tuple(Category)
_NUMBER_OF: Final = {category: number for number, category in enumerate(_CATEGORIES)}


class _Curve:
    """Points evenly spread over all that came, and the newest: of too many every other one goes."""

    def __init__(self) -> None:
        self.newest: Point | None = None
        self._times, self._values, self._categories = array("d"), array("d"), bytearray()
        self._stride = 1  # every so manieth point is kept
        self._seen = 0

    def add(self, point: Point, *, most: int) -> None:
        last = self.newest
        if last is not None and (self._seen - 1) % self._stride == 0:
            self._times.append(last.at)
            self._values.append(last.value)
            self._categories.append(_NUMBER_OF[last.category])
            if len(self._times) >= most:
                del self._times[1::2], self._values[1::2], self._categories[1::2]
                self._stride *= 2
        self.newest = point
        self._seen += 1

    def points(self, most: int) -> list[Point]:
        if self.newest is None:
            return []
        stride = -(-len(self._times) // (most - 1)) or 1
        kept = range(0, len(self._times), stride)
        old = [Point(self._times[i], self._values[i], _CATEGORIES[self._categories[i]]) for i in kept]
        return [*old, self.newest]


class Curves:
    """The recent past of each replica's metric; an observer of the controller.

    At most `points` of at most `replicas`. Where there is no room for another one, the replica that was
    silent longest gives way if that is long enough; else the new one has no curve.
    """

    def __init__(
        self, *, points: int = POINTS, replicas: int = REPLICAS, silent_seconds: float = _SILENT_SECONDS
    ) -> None:
        self._most_points = max(2, points)
        self._most_replicas = replicas
        self._silent_seconds = silent_seconds
        self._curves: dict[str, _Curve] = {}  # the one that was heard last comes last

    def observe(self, stepped: Stepped) -> None:
        """Take the report in, where the step was one and it was believed."""
        if not isinstance(stepped.event, ReportReceived) or stepped.after is stepped.before:
            return
        name = stepped.event.report.replica
        replica, former = stepped.after.replicas.get(name), stepped.before.replicas.get(name)
        if replica is None or former is None or replica.progress.reported_at != stepped.now:
            return
        progress = replica.progress
        if progress.value is None or not math.isfinite(progress.value):
            return
        same = (former.progress.step, former.progress.value) == (progress.step, progress.value)
        if same and former.progress.category is progress.category and name in self._curves:
            return  # a heartbeat without news
        curve = self._curves.pop(name, None) or self._room_for_another(stepped.now)
        if curve is None:
            return
        point = Point(stepped.now, progress.value, progress.category)
        curve.add(point, most=self._most_points)
        self._curves[name] = curve

    def of(self, replica: str, most: int = POINTS) -> list[Point]:
        """Return at most that many points (2 at least), oldest first, the newest always among them."""
        curve = self._curves.get(replica)
        return [] if curve is None else curve.points(max(2, most))

    def __len__(self) -> int:
        return len(self._curves)

    def _room_for_another(self, now: float) -> _Curve | None:
        if len(self._curves) >= self._most_replicas:
            silent = next(iter(self._curves), None)
            newest = None if silent is None else self._curves[silent].newest
            if silent is None or newest is None or now - newest.at < self._silent_seconds:
                return None
            del self._curves[silent]
        return _Curve()
