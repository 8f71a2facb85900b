"""How long jobs may train, as far as a state shows it: what possible worlds are drawn from. Pure."""

import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from random import Random
from typing import Final

from specon_lab.forecasts.forecast import Remaining
from specon_lab.forecasts.settled import attained
from specon_manager.core.state import State
from specon_manager.model.cluster import Job

ENOUGH: Final = 3
"""Durations of jobs that must be known before anything is said of a job of which nothing is."""
_WIDTH: Final = 2.0  # half-width of a sidecar's interval, in standard deviations (`engine/remaining.py`)
_MOST_DEVIATIONS: Final = 3.0
_DECLARED_SPREAD: Final = 0.25  # of the logarithm: owners err, and nobody measured by how much
_UNKNOWN_SPREAD: Final = 1.0  # likewise, of kinds of which nobody is complete
_LEAST, _MOST = 1e-3, 1e9  # seconds
_LONGEST: Final = 20.0  # times what a job has trained, where it outlived all that is known


class Knowledge:
    """What is known of durations at one moment."""

    def __init__(self, state: State, now: float, remaining: Sequence[Remaining]) -> None:
        """Take a state and what is left of the jobs in it, as `forecast` tells."""
        self._state, self._now, self._remaining = state, now, remaining
        self.left = {each.job: each for each in remaining}

    @cached_property
    def by_kind(self) -> Mapping[str, Sequence[float]]:
        """Durations, seconds: of completed jobs, and of those whose end is measured.

        Without the latter the long ones would be missing: the short ones of a kind are complete first.
        """
        found = {kind: list(served.latest) for kind, served in sorted(self._state.served.items())}
        for each in self._remaining:
            job = self._state.jobs[each.job]
            if each.basis == "measured":
                found.setdefault(job.kind, []).append(attained(job, self._now) + each.seconds)
        return found

    @cached_property
    def everything(self) -> tuple[float, ...]:
        """Those of all kinds."""
        return tuple(each for durations in self.by_kind.values() for each in durations)

    @property
    def enough(self) -> bool:
        """Whether anything can be said of a job of which nothing is measured or declared."""
        return len(self.everything) >= ENOUGH

    def whole(self, kind: str, rng: Random, longer_than: float = 0.0) -> float:
        """Draw how long a job of a kind trains in all, more than `longer_than`, seconds.

        One of the kind's latest durations, and the rarer of all kinds' the more of its own are known. What
        outlived all that is known goes on as heavy tails teach: the longer it trained, the longer it will.
        """
        own = [each for each in self.by_kind.get(kind, ()) if each > longer_than]
        others = [each for each in self.everything if each > longer_than]
        if own and rng.random() < len(own) / (len(own) + 1.0):
            return rng.choice(own)
        if others:
            drawn = rng.choice(others)
            # Of a kind of which nobody is complete nothing is known, perhaps since all of it takes so long.
            if kind in self.by_kind:
                return drawn
            return max(longer_than, _bound(drawn * _factor(rng, _UNKNOWN_SPREAD)))
        # Pareto of exponent 1, cut off.
        return longer_than / max(1.0 / _LONGEST, 1.0 - rng.random())

    def draw(self, job: Job, rng: Random) -> float:
        """Draw how long the job still trains, with what its owner asked for, seconds."""
        left = self.left[job.name]
        if left.basis == "measured":
            spread = (
                0.0 if left.uncertainty is None else left.uncertainty / max(_LEAST, left.seconds) / _WIDTH
            )
            return _bound(left.seconds * _factor(rng, spread))
        if left.basis == "declared":
            return _bound(left.seconds * _factor(rng, _DECLARED_SPREAD))
        if not self.enough:
            return _MOST  # so that nothing is built upon its end
        so_far = attained(job, self._now)
        return _bound(self.whole(job.kind, rng, so_far) - so_far)


def _factor(rng: Random, spread: float) -> float:
    deviate = max(-_MOST_DEVIATIONS, min(_MOST_DEVIATIONS, rng.gauss(0.0, 1.0)))
    return math.exp(min(2.0, spread) * deviate)


def _bound(seconds: float) -> float:
    return min(_MOST, max(_LEAST, seconds))
