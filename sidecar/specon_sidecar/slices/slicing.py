"""Slices of time: a trainer runs in its turns of a period and is stopped in those of others.

Only the standard library: the supervisor of a local pod loads this file too.
"""

from __future__ import annotations

import math
import time

from specon_sidecar.slices.lease import LONGEST_STOP

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from specon_sidecar.slices.freezing import Frozen
    from specon_sidecar.slices.lease import Lease

    Told = Callable[[float], Lease | None]  # what holds at a time, monotonic seconds; None: nobody is stopped
    Account = Callable[[float, float | None], object]  # takes seconds stopped so far, and since when now

LEAST_TURN = 0.01  # after a stop of the longest kind


class Slicing:
    """Stops and continues one trainer."""

    def __init__(self, told: Told, account: Account, frozen: Frozen) -> None:
        """Take what tells the lease, what takes the account of stops, and the processes to stop."""
        self._told, self._account, self._frozen = told, account, frozen
        self._seconds = 0.0
        self._since: float | None = None
        self._runs_until = -math.inf

    def look(self) -> float:
        """Do what the lease says now; return when to look again, monotonic seconds."""
        now = time.monotonic()
        lease = self._told(now)
        runs, until = (True, math.inf) if lease is None else lease.turn(now)
        if not runs and self._since is not None and now - self._since >= LONGEST_STOP:
            # Another schedule came in between: no row of stops is longer than one may be.
            self._runs_until = now + LEAST_TURN
        if not runs and now < self._runs_until:
            runs, until = True, self._runs_until
        if runs:
            self.go()
            return until
        if self._since is None:
            self._stop()
        return min(until, LONGEST_STOP + (now if self._since is None else self._since))

    @property
    def stopped(self) -> bool:
        """Whether the trainer is stopped now."""
        return self._since is not None

    def go(self) -> None:
        """Let the trainer run."""
        if self._since is None:
            return
        self._frozen.go()
        self._seconds += time.monotonic() - self._since
        self._since = None
        self._account(self._seconds, None)

    def end(self) -> None:
        """Let the trainer run, and stop it never again."""
        self.go()
        self._frozen.end()

    def note_reaped(self, pid: int) -> None:
        """Take note of a child that is about to be reaped: without its guardian nothing stays stopped."""
        if self._frozen.note_reaped(pid):
            self.go()

    def _stop(self) -> None:
        self._since = time.monotonic()
        # Told before: a log that says nothing meanwhile is not called silent.
        self._account(self._seconds, self._since)
        if not self._frozen.stop():
            self._since = None
            self._account(self._seconds, None)
