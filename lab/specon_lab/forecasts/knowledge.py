"""How long jobs may train, as far as a state shows it: what possible worlds are drawn from. Pure."""

import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Final

from specon_lab.forecasts.chance import Chance
from specon_lab.forecasts.forecast import Remaining
from specon_lab.forecasts.kinds import Kinds
from specon_lab.forecasts.settled import compute_attained_service
from specon_manager.core.state import State
from specon_manager.model.cluster import Job

ENOUGH: Final = 3
"""Known durations of jobs that a forecast needs for a job without any knowledge of its own."""
_WIDTH: Final = 2.35
"""Half-width of a sidecar's interval, in standard deviations: it says 4 % at least, and errors in recorded
runs were 1.7 % (`engine/remaining.py`)."""
_DECLARED_SPREAD: Final = 0.25  # of the logarithm: owners err, and nobody measured by how much
_LEAST, _MOST = 1e-3, 1e9  # seconds
_LONGEST: Final = 20.0  # times what a job has trained, where it outlived all that is known
_ATTEMPTS: Final = 16  # at a duration that is longer than what the job has trained


class Knowledge:
    """The knowledge of durations at one moment."""

    def __init__(self, state: State, now: float, remaining: Sequence[Remaining]) -> None:
        """Take a state and the remaining work of the jobs in it, as `forecast` tells."""
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
                found.setdefault(job.kind, []).append(compute_attained_service(job, self._now) + each.seconds)
        return found

    @cached_property
    def everything(self) -> tuple[float, ...]:
        """Those of all kinds."""
        return tuple(each for durations in self.by_kind.values() for each in durations)

    @property
    def enough(self) -> bool:
        """Whether a forecast is possible for a job that has neither measurement nor declaration."""
        return len(self.everything) >= ENOUGH

    def whole(self, kind: str, chance: Chance, longer_than: float = 0.0) -> float:
        """Draw how long a job of a kind trains in all, more than `longer_than`, seconds.

        One of the kind's latest durations, and the rarer another the more of them are known. What outlived
        all that is known goes on as heavy tails teach: the longer it trained, the longer it will.
        """
        own = [each for each in self.by_kind.get(kind, ()) if each > longer_than]
        if own and chance.rng.random() < len(own) / (len(own) + 1.0):
            return chance.rng.choice(own)
        for _ in range(_ATTEMPTS if self.everything else 0):
            drawn = self._kinds.draw_unlike(kind, chance)
            if drawn > longer_than:
                return drawn
        # Pareto of exponent 1, cut off.
        return longer_than / max(1.0 / _LONGEST, 1.0 - chance.rng.random())

    @cached_property
    def _kinds(self) -> Kinds:
        return Kinds(self.by_kind)

    @cached_property
    def _idle(self) -> Sequence[float]:
        """How long jobs that started once occupied their nodes without training, seconds."""
        found = list[float]()
        for job in self._state.jobs.values():
            if job.admitted_at is None or job.preemptions or job.hang_restarts:
                continue
            if job.ended_at is not None:
                found.append(job.ended_at - job.admitted_at - job.attained_seconds)
            elif job.trains_since is not None and not job.attained_seconds:
                found.append(job.trains_since - job.admitted_at)
        return [max(0.0, each) for each in found]

    def start_seconds(self, chance: Chance, most: float) -> float:
        """Draw how long a job that starts does not train yet, at most so long; 0 where none started."""
        return min(most, chance.rng.choice(self._idle)) if self._idle else 0.0

    def draw(self, job: Job, chance: Chance) -> float:
        """Draw how long the job still trains, with what its owner asked for, seconds."""
        left = self.left[job.name]
        if left.basis == "measured":
            spread = (
                0.0 if left.uncertainty is None else left.uncertainty / max(_LEAST, left.seconds) / _WIDTH
            )
            return _bound(left.seconds * math.exp(min(2.0, spread) * chance.deviate(job.name)))
        if left.basis == "declared":
            return _bound(left.seconds * math.exp(_DECLARED_SPREAD * chance.deviate(job.name)))
        if not self.enough:
            return _MOST  # so that nothing is built upon its end
        so_far = compute_attained_service(job, self._now)
        return _bound(self.whole(job.kind, chance, so_far) - so_far)


def _bound(seconds: float) -> float:
    return min(_MOST, max(_LEAST, seconds))
