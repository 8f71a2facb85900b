"""When a trainer runs, told for a while to come. Pure.

The clock is its writer's: pods whose turns come from one schedule alternate on it without
talking to each other. A lease that nobody renews is over soon, and the trainer runs on undisturbed.
"""

from __future__ import annotations

import math

from specon_sidecar.counts import format_count

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

LONGEST_STOP = 5.0
"""Seconds for which a trainer is stopped at most: c10d gives a silent rank up after three times that."""
LONGEST_LEASE = 10.0
LONGEST_PERIOD = 60.0
MOST_TURNS = 64
LOOK_SECONDS = 1.0
ROUNDING = 1e-6


class Lease:
    """When a trainer runs; valid until a time."""

    def __init__(self, period: float, on: Sequence[tuple[float, float]], until: float) -> None:
        """Take turns of the period, each its begin and its length, in order. Raises ValueError for others."""
        if not (0 < period <= LONGEST_PERIOD and 0 < len(on) <= MOST_TURNS and math.isfinite(until)):
            raise ValueError(f"a period of {period} s with {format_count(len(on), 'turn')} until {until}")
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
