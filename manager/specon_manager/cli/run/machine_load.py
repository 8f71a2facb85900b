"""What else a machine did during a run: the processor time that others took of the CPUs of the nodes.

What a run took itself is what this process and all that descends from it took.
"""

import contextlib
import time
from bisect import bisect_right
from collections.abc import Collection
from typing import Final

import psutil
from msgspec import Struct

_LEAST_SEEN: Final = 0.8
"""Of our own time in what the system counted: less means that it does not count these CPUs."""
_LEAST_LEFT: Final = 0.02
"""Of a CPU: the kernel never leaves a run with nothing."""
_LEAST_SECONDS: Final = 0.1
"""Between two looks: the system counts in hundredths."""


class Load(Struct, frozen=True, kw_only=True):
    """How busy the CPUs of the nodes were during a run, and by whom, in processor seconds."""

    cpus: int
    seconds: float
    """How long the run took."""
    own: float
    """What the run took: its manager, sidecars and trainers."""
    others: float | None
    """What anything else took; None where the system does not say."""
    left: tuple[tuple[float, float], ...] = ()
    """What others left of each CPU by then: seconds of the run, and processor seconds, both rising from 0."""

    def left_until(self, at: float) -> float:
        """Return what others left of each CPU from the begin to `at`: how far a run alone would have come."""
        index = min(max(1, bisect_right(self.left, at, key=lambda each: each[0])), len(self.left) - 1)
        (before, here), (after, there) = self.left[index - 1 : index + 1]
        return here + (there - here) * (at - before) / (after - before)

    @property
    def room(self) -> float:
        """What there was to take."""
        return self.cpus * self.seconds

    @property
    def others_share(self) -> float | None:
        """Which part of all others took."""
        return None if self.others is None or not self.room else min(1.0, self.others / self.room)

    @property
    def idle_share(self) -> float | None:
        """Which part nobody took."""
        if self.others is None or not self.room:
            return None
        return max(0.0, 1.0 - (self.own + self.others) / self.room)


class LoadMeter:
    """Measures from its making on; look every second or so."""

    def __init__(self, cpus: Collection[int]) -> None:
        """Look at these CPUs."""
        self._cpus = frozenset(cpus)
        self._began = time.monotonic()
        self._busy, self._own = self._busy_seconds(), _own_seconds()
        self._left = [(0.0, 0.0)]
        self._latest = (0.0, 0.0, 0.0)

    def look(self) -> None:
        """Note what others left since the last look."""
        at = time.monotonic() - self._began
        own, busy = _own_seconds() - self._own, self._busy_seconds() - self._busy
        before, own_before, busy_before = self._latest
        passed = at - before
        if passed < _LEAST_SECONDS:
            return
        others = max(0.0, busy - busy_before - (own - own_before)) / len(self._cpus)
        self._left.append((at, self._left[-1][1] + max(_LEAST_LEFT * passed, passed - others)))
        self._latest = (at, own, busy)

    def load(self) -> Load:
        """Return the load until now; call it when everything that was started has ended."""
        self.look()
        own, busy = _own_seconds() - self._own, self._busy_seconds() - self._busy
        known = busy >= _LEAST_SEEN * own
        return Load(
            cpus=len(self._cpus),
            seconds=time.monotonic() - self._began,
            own=own,
            others=max(0.0, busy - own) if known else None,
            left=tuple(self._left) if known and len(self._left) > 1 else (),
        )

    def _busy_seconds(self) -> float:
        times = psutil.cpu_times(percpu=True)
        return sum(_busy(times[cpu]) for cpu in self._cpus if cpu < len(times))


def _busy(times: object) -> float:
    # What the hypervisor gave to somebody else is lost to us as well; guests are in user and nice already.
    kinds = ("user", "nice", "system", "irq", "softirq", "steal")
    return sum(float(getattr(times, kind, 0.0)) for kind in kinds)


def _own_seconds() -> float:
    """Return what this process and its descendants took, those that have ended and were reaped included."""
    this = psutil.Process()
    total = 0.0
    for process in (this, *this.children(recursive=True)):
        with contextlib.suppress(psutil.Error):
            times = process.cpu_times()
            total += times.user + times.system + times.children_user + times.children_system
    return total
