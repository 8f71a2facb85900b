"""How full the simulated cluster is, over time. Bounded, however much happens."""

from collections.abc import Iterator
from typing import Final, Protocol

from specon_lab.engine.outcome import UsePoint

_POINTS: Final = 2000  # before neighbours are taken together

_Piece = tuple[float, float, float, float, int, int]
"""From when, how long; shares held and used, as means over that; jobs that wait and that are placed."""


class Holder(Protocol):
    """A node as far as the books need it."""

    amount: float
    held: float
    used: float


class Utilisation:
    """The held part of the nodes, and the part that trains, as shares of `capacity`."""

    def __init__(self, capacity: float) -> None:
        """Begin at time 0 with nothing held; `capacity` is that of all nodes."""
        self.waiting = self.running = 0
        """How many jobs wait and how many are placed, for the course."""
        self.demanded = 0.0
        """What the jobs that are there would take together with all that their owners asked for."""
        self.contended = 0.0
        """Seconds until now, each times the contention then: demand over capacity, at least 1."""
        self._capacity = capacity
        self._held = self._used = 0.0
        self._held_area = self._used_area = 0.0
        self._since = 0.0
        self._course = _Course()

    def hold(self, node: Holder, amount: float) -> None:
        """Take note that so much more of a node is held; less, where it is negative."""
        before = min(node.held, node.amount)
        node.held = _rid_of_dust(node.held + amount)
        self._held += min(node.held, node.amount) - before

    def train(self, node: Holder, amount: float) -> None:
        """Take note that so much more of a node trains; less, where it is negative."""
        before = min(node.used, node.amount)
        node.used = _rid_of_dust(node.used + amount)
        self._used += min(node.used, node.amount) - before

    def pass_time(self, now: float) -> None:
        """Close the books until now, before anything changes at this moment."""
        seconds = now - self._since
        if seconds <= 0:
            return
        held, used = self._shares()
        self._held_area += held * seconds
        self._used_area += used * seconds
        demanded = self.demanded / self._capacity if self._capacity > 0 else 0.0
        self.contended += max(1.0, demanded) * seconds
        self._course.add((self._since, seconds, held, used, self.waiting, self.running))
        self._since = now

    def _shares(self) -> tuple[float, float]:
        if self._capacity <= 0:
            return 0.0, 0.0
        return (
            min(1.0, max(0.0, self._held / self._capacity)),
            min(1.0, max(0.0, self._used / self._capacity)),
        )

    def mean(self, seconds: float) -> tuple[float, float]:
        """Return the shares of the capacity that were allocated and used, over so many seconds."""
        if seconds <= 0:
            return 0.0, 0.0
        return min(1.0, self._held_area / seconds), min(1.0, self._used_area / seconds)

    def points(self) -> tuple[UsePoint, ...]:
        """Return the course of the use until now, at most a few thousand points."""
        held, used = self._shares()
        last = UsePoint(at=self._since, allocated=held, used=used, waiting=self.waiting, running=self.running)
        return (*self._course.points(), last)


def _rid_of_dust(value: float) -> float:
    """Return the value, without the rest of rounding when everything was given back."""
    return value if value > 1e-9 else 0.0  # noqa: PLR2004  (of cores or devices)


class _Course:
    """The use of the cluster in so many pieces of time; each piece has the means of what it covers."""

    def __init__(self) -> None:
        self._pieces: list[_Piece] = []
        self._shortest = 0.0

    def add(self, piece: _Piece) -> None:
        """Append a piece of time that follows on the last one."""
        last = self._pieces[-1] if self._pieces else None
        if last is not None and (last[1] < self._shortest or last[2:] == piece[2:]):
            self._pieces[-1] = _together(last, piece)
            return
        self._pieces.append(piece)
        if len(self._pieces) >= 2 * _POINTS:
            whole = piece[0] + piece[1] - self._pieces[0][0]
            self._shortest = max(2 * self._shortest, whole / _POINTS)
            self._pieces = list(self._join())

    def points(self) -> Iterator[UsePoint]:
        """Yield the pieces by time."""
        for at, _, held, used, waiting, running in self._pieces:
            yield UsePoint(at=at, allocated=held, used=used, waiting=waiting, running=running)

    def _join(self) -> Iterator[_Piece]:
        """Yield the pieces, those that are too short together with the next ones."""
        grown = None
        for piece in self._pieces:
            grown = piece if grown is None else _together(grown, piece)
            if grown[1] >= self._shortest:
                yield grown
                grown = None
        if grown is not None:
            yield grown


def _together(one: _Piece, other: _Piece) -> _Piece:
    """Return one piece for two: shares as means over time, counts as they were at the end."""
    seconds = one[1] + other[1]
    part = other[1] / seconds
    return (
        one[0],
        seconds,
        one[2] + part * (other[2] - one[2]),
        one[3] + part * (other[3] - one[3]),
        other[4],
        other[5],
    )
