"""What else a machine did during a run: the processor time that others took of the CPUs of the nodes.

What a run took itself is what this process took, and every pod that it started and saw end.
"""

import resource
import time
from collections.abc import Collection
from typing import Final

import psutil
from msgspec import Struct

_LEAST_SEEN: Final = 0.8
"""Of our own time in what the system counted: less means that it does not count these CPUs."""


class Load(Struct, frozen=True, kw_only=True):
    """How busy the CPUs of the nodes were during a run, and by whom, in processor seconds."""

    cpus: int
    seconds: float
    """How long the run took."""
    own: float
    """What the run took: its manager, sidecars and trainers."""
    others: float | None
    """What anything else took; None where the system does not say."""

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
    """Measures from its making on."""

    def __init__(self, cpus: Collection[int]) -> None:
        """Look at these CPUs."""
        self._cpus = frozenset(cpus)
        self._began = time.monotonic()
        self._busy, self._own = self._busy_seconds(), _own_seconds()

    def load(self) -> Load:
        """Return the load until now; call it when everything that was started has ended."""
        own, busy = _own_seconds() - self._own, self._busy_seconds() - self._busy
        return Load(
            cpus=len(self._cpus),
            seconds=time.monotonic() - self._began,
            own=own,
            others=max(0.0, busy - own) if busy >= _LEAST_SEEN * own else None,
        )

    def _busy_seconds(self) -> float:
        times = psutil.cpu_times(percpu=True)
        return sum(_busy(times[cpu]) for cpu in self._cpus if cpu < len(times))


def _busy(times: object) -> float:
    # What the hypervisor gave to somebody else is lost to us as well; guests are in user and nice already.
    kinds = ("user", "nice", "system", "irq", "softirq", "steal")
    return sum(float(getattr(times, kind, 0.0)) for kind in kinds)


def _own_seconds() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)
