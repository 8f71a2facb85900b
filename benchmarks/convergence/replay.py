"""Replays a recorded run as a sidecar would see it: its samples in so many equal intervals of time."""

from collections.abc import Iterator
from dataclasses import dataclass

from curves import Run

from specon_sidecar.classify import Interval
from specon_sidecar.classify.curve import Curve
from specon_sidecar.formats.sample import Sample


@dataclass(frozen=True, kw_only=True)
class View:
    """The knowledge at the end of one interval."""

    now: float
    """Seconds since the training began."""
    report: int
    """Index of the last report that was made."""
    interval: Interval
    curve: Curve
    """As it is now; it goes on changing."""


def replay(run: Run, intervals: int, *, total_known: bool) -> Iterator[View]:
    """Yield the view after each interval that begins after the first report."""
    length = run.seconds[-1] / intervals
    curve = Curve()
    taken = 0
    for number in range(1, intervals + 1):
        now = run.seconds[-1] if number == intervals else number * length
        while taken < len(run.values) and run.seconds[taken] <= now:
            total = run.total if total_known else None
            curve.add(Sample("loss", run.values[taken], taken + 1, total_steps=total), run.seconds[taken])
            taken += 1
        interval = curve.close_interval(now)
        if taken:
            yield View(now=now, report=taken - 1, interval=interval, curve=curve)
