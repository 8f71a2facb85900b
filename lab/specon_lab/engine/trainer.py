"""How far a job has come, what of it is saved, and what a loss costs."""

import math
from typing import Final

from specon_lab.engine.loss import converged_part
from specon_lab.workloads.workload import Training

_SHORTEST_PERIOD: Final = 1e-3  # seconds; who saves more often saves all the time


class Trainer:
    """The progress of one job, in seconds of training alone at the size that its owner asked for.

    It saves by itself each `checkpoint_seconds` of training (time that passes while it trains, at whatever
    speed); with `saves` False it never writes anything that outlives it.
    """

    __slots__ = (
        "_converges",
        "_period",
        "_saves",
        "_since",
        "_trained",
        "converged_at",
        "done",
        "rate",
        "saved",
        "total",
    )

    def __init__(self, training: Training, *, saves: bool) -> None:
        self.total = training.seconds
        self.done = 0.0
        """At the last change of speed; `at` says how far it is at another time."""
        self.saved = 0.0
        self.rate = 0.0
        """Progress in seconds per second; 0 while it does not train."""
        self.converged_at: float | None = None
        """When it had made nearly all of its gain (`loss.CONVERGED`); None: not yet, or it has no curve."""
        self._converges = (
            math.inf if training.curve is None else converged_part(training.curve) * training.seconds
        )
        self._saves = saves
        self._period = training.checkpoint_seconds
        self._since = 0.0
        self._trained = 0.0  # seconds of training since it began or last went back to a checkpoint

    def at(self, now: float) -> float:
        """Return how far it is now; `now` is not before the last change of speed."""
        return min(self.total, self.done + self.rate * (now - self._since))

    def advance(self, now: float) -> None:
        """Take note of steps trained, and saved by itself, until now."""
        elapsed = now - self._since
        self._since = now
        if not self.rate or elapsed <= 0:
            return
        before, self.done = self.done, min(self.total, self.done + self.rate * elapsed)
        if before < self._converges <= self.done:
            self.converged_at = now - elapsed + (self._converges - before) / self.rate
        if not self._saves:
            return
        trained, self._trained = self._trained, self._trained + elapsed
        if self._period < _SHORTEST_PERIOD:
            self.saved = self.done
        elif (saves := math.floor(self._trained / self._period)) > math.floor(trained / self._period):
            last = saves * self._period - trained
            self.saved = max(self.saved, min(self.done, before + self.rate * last))

    def go_on(self, now: float, rate: float) -> None:
        """Train at another speed from now on; 0 stops it."""
        self.advance(now)
        self.rate = rate

    def keep(self, done: float | None = None) -> None:
        """Save the steps done now, or those done when the save began."""
        if self._saves:
            self.saved = max(self.saved, self.done if done is None else done)

    def fall_back(self) -> float:
        """Go back to the saved step, and return how many seconds of progress that costs."""
        lost = self.done - self.saved
        self.done, self._trained = self.saved, 0.0
        if self.done < self._converges:
            self.converged_at = None
        return lost

    @property
    def left(self) -> float:
        """How much is still to be done, from the last change of speed on."""
        return self.total - self.done
