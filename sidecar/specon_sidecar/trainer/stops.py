"""For how long the trainer was stopped so that others could train: time in which nobody can say how it does.

Where another process stops it, that says so in a file: `seconds` in all, and `since` when it is stopped now,
on the clock of this machine that never goes back (null: it runs).
"""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from specon_sidecar.clock import Time

_LONGEST = 1024  # bytes
_LONGEST_STOP = (
    10.0  # seconds; who is said to be stopped for longer runs, and the disk was full when that was told
)
_Seconds = Annotated[float, Meta(ge=0, le=1e10)]


class Stops(Struct, frozen=True):
    """For how long it was stopped in all, and since when it is stopped now."""

    seconds: _Seconds
    since: _Seconds | None = None


class TrainingTime:
    """A clock that stands still while the trainer is stopped."""

    def __init__(self, time: Time, read: Callable[[], Stops | None] | None) -> None:
        """Take the clock of this machine and what tells of stops; without that there are none."""
        self._time, self._tells = time, read
        self._account = Stops(0.0)
        self._latest = 0.0

    def now(self) -> float:
        """Return the time, less what the trainer was stopped."""
        now = self._time.now()
        self._latest = max(self._latest, now - self._read_stopped(now))
        return self._latest

    @property
    def stopped(self) -> float:
        """For how long the trainer was stopped so far, seconds."""
        return self._read_stopped(self._time.now())

    async def sleep_until(self, due: float, step: float) -> None:
        """Return when this clock shows `due`; while it stands still it is looked at every `step` seconds."""
        left = due - self.now()
        while left > 0:
            await self._time.sleep(left)
            left = due - self.now()
            left = max(left, step) if left > step * 1e-6 else 0.0

    def _read_stopped(self, now: float) -> float:
        self._read()
        since = self._account.since
        stopped = 0.0 if since is None else min(max(0.0, now - since), _LONGEST_STOP)
        return self._account.seconds + stopped

    def _read(self) -> None:
        """Read the told number; less than before changes nothing."""
        account = None if self._tells is None else self._tells()
        if account is not None and account.seconds >= self._account.seconds:
            self._account = account


def stops_in(file: Path) -> Stops | None:
    """Return what a file says; None where there is none, or garbage in its place."""
    try:
        with file.open("rb") as opened:
            return msgspec.json.decode(opened.read(_LONGEST), type=Stops)
    except (OSError, msgspec.DecodeError):
        return None
