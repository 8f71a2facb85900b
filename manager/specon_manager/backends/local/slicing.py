"""Slices of time: a trainer runs in its turns of a period and is stopped in those of others.

The manager says when (`LEASE_FILE`), and renews that every second. A lease that nobody renews is over soon,
and the trainer runs on undisturbed. The clock is CLOCK_MONOTONIC, which is the same for all processes of a
machine: pods whose turns come from one schedule alternate without talking to each other.

Only the standard library: the supervisor loads this file once its pod is to share (see `supervise`).
"""

# ruff: noqa: PTH105, PTH118, PTH123 # importing pathlib lengthens the start of a supervisor by a fifth

from __future__ import annotations

import json
import math
import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from specon_manager.backends.local.freezing import Frozen

LEASE_FILE = "share.json"  # in: {"period": seconds, "on": [[begin, length], ...], "until": monotonic seconds}
STOPPED_FILE = "stopped.json"  # out: {"seconds": stopped so far, "since": monotonic seconds, or null}

LONGEST_STOP = 5.0
"""Seconds for which a trainer is stopped at most: c10d gives a silent rank up after three times that."""
LONGEST_LEASE = 10.0
LONGEST_PERIOD = 60.0
MOST_TURNS = 64
LOOK_SECONDS = 1.0
LEAST_TURN = 0.01  # after a stop of the longest kind
ROUNDING = 1e-6
_LONGEST_FILE = 8192


class Lease:
    """When a trainer runs; valid until a time."""

    def __init__(self, period: float, on: Sequence[tuple[float, float]], until: float) -> None:
        """Take turns of the period, each its begin and its length, in order. Raises ValueError for others."""
        if not (0 < period <= LONGEST_PERIOD and 0 < len(on) <= MOST_TURNS and math.isfinite(until)):
            raise ValueError(f"a period of {period} s with {len(on)} turns until {until}")
        ends = [begin + length for begin, length in on]
        gaps = [
            begin - end for (begin, _), end in zip([*on[1:], (on[0][0] + period, 0.0)], ends, strict=True)
        ]
        if not all(0 <= begin <= period and 0 <= length <= period for begin, length in on) or any(
            not -ROUNDING <= gap <= LONGEST_STOP + ROUNDING for gap in gaps
        ):
            raise ValueError(f"turns {on} of a period of {period} s: out of order, or a stop is too long")
        self.period, self.on, self.until = period, on, until

    def turn(self, now: float) -> tuple[bool, float]:
        """Return whether the trainer runs at `now`, and when that changes (at the latest: look then)."""
        if now >= self.until:
            return True, now + LOOK_SECONDS  # the manager may only have been busy
        at = now % self.period
        for begin, length in self.on:
            # A turn may go on at the begin of the next period.
            for shift in (0.0, -self.period):
                if begin + shift <= at < begin + shift + length:
                    return True, now + begin + shift + length - at
        begins = [begin if begin > at else begin + self.period for begin, _ in self.on]
        return False, min(now + min(begins) - at, self.until)


def read_lease(path: str, now: float) -> Lease | None:
    """Read a lease; None where there is none, or garbage in its place, or one that is too long."""
    try:
        with open(path, "rb") as file:
            content = json.loads(file.read(_LONGEST_FILE + 1)[:_LONGEST_FILE])
        on = [(float(begin), float(length)) for begin, length in content["on"]]
        lease = Lease(float(content["period"]), on, float(content["until"]))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError, RecursionError, OverflowError) as error:
        sys.stderr.write(f"{path}: {error!r}\n"[:300])
        return None
    return lease if lease.until <= now + LONGEST_LEASE else None


class Slicing:
    """Stops and continues the trainer of one pod."""

    def __init__(self, directory: str, frozen: Frozen) -> None:
        """Take the directory of the lease and of the account, and what is to be stopped."""
        self._lease = os.path.join(directory, LEASE_FILE)
        self._account = os.path.join(directory, STOPPED_FILE)
        self._frozen = frozen
        self._seconds = 0.0
        self._since: float | None = None
        self._runs_until = -math.inf

    def look(self) -> float:
        """Do what the lease says now; return when to look again, monotonic seconds."""
        now = time.monotonic()
        lease = read_lease(self._lease, now)
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

    def go(self) -> None:
        """Let the trainer run."""
        if self._since is None:
            return
        self._frozen.go()
        self._seconds += time.monotonic() - self._since
        self._since = None
        self._write()

    def end(self) -> None:
        """Let the trainer run, and stop it never again."""
        self.go()
        self._frozen.end()

    def reaped(self, pid: int) -> None:
        """Take note of a child that is about to be reaped: without its guardian nothing stays stopped."""
        if self._frozen.reaped(pid):
            self.go()

    def _stop(self) -> None:
        self._since = time.monotonic()
        # Told before: a log that says nothing meanwhile is not called silent.
        self._write()
        if not self._frozen.stop():
            self._since = None
            self._write()

    def _write(self) -> None:
        """Tell how long the trainer was stopped; what finds no room on the disk is told the next time."""
        temporary = f"{self._account}.tmp"
        try:
            with open(temporary, "w", encoding="utf-8") as file:
                json.dump({"seconds": self._seconds, "since": self._since}, file)
            os.replace(temporary, self._account)
        except OSError:
            pass
