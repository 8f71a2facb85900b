"""After which part of their training jobs converge, as far as a state shows it. Pure.

`progress` ranks and preempts by it, so that worlds without it let other jobs go first than the cluster will.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import Final

from specon_lab.forecasts.chance import Chance
from specon_lab.forecasts.settled import compute_attained_service
from specon_manager.core.state import State
from specon_manager.model.cluster import Job
from specon_manager.model.progress import Progress
from specon_sidecar.classify import Category

_GAINS: Final = frozenset({Category.PROGRESSING, Category.WATCHING})
_NEVER: Final = 1.0
_LEAST: Final = 1e-3  # seconds


class Convergence:
    """The knowledge of it at one moment."""

    def __init__(self, state: State, now: float) -> None:
        """Take a state; nothing is looked at before it is asked for."""
        self._state, self._now = state, now

    def draw(self, job: Job, chance: Chance, done: float) -> float | None:
        """Return the part, 0 to 1, after which a job with `done` behind it converges; None: nobody will know.

        The answer comes from its sidecar, else from a job of its kind, else from a job of any kind.
        """
        told = self._find_told(job)
        if told is not None and (part := _part(told, done)) is not None:
            return part
        return self.draw_kind(job.kind, chance, done)

    def draw_kind(self, kind: str, chance: Chance, done: float = 0.0) -> float | None:
        """Return the same for a job with a kind and no reports."""
        known = self._by_kind.get(kind) or self._by_kind.get("", ())
        if not known:
            return None
        drawn = chance.rng.choice(known)
        return _NEVER if drawn is not None and drawn <= done else drawn

    def _find_told(self, job: Job) -> Progress | None:
        heard = (self._state.replicas[name].progress for name in job.spec.replicas)
        return next((each for each in heard if each.step is not None), None)

    @cached_property
    def _by_kind(self) -> dict[str, Sequence[float | None]]:
        """Parts by kind, and of all as the kind "": None of each whose log cannot be judged."""
        found: dict[str, list[float | None]] = {}
        for job in self._state.jobs.values():
            told = self._find_told(job)
            if told is None:
                continue
            part = self._find_convergence(job, told)
            if part is not None or told.category is Category.UNKNOWN:
                found.setdefault(job.kind, []).append(part)
                found.setdefault("", []).append(part)
        return dict(found)

    def _find_convergence(self, job: Job, told: Progress) -> float | None:
        """Return after which part a job converged, or is to as its sidecar says; None: nobody can tell."""
        if told.total_steps is None or told.step is None:
            return None
        done = min(1.0, told.step / max(1, told.total_steps))
        if told.category is not Category.CONVERGED:
            return _part(told, done)
        if job.preemptions or job.admitted_at is None:
            return None  # since it converged it may have waited
        trained = max(_LEAST, compute_attained_service(job, self._now))
        until = self._now if job.ended_at is None else job.ended_at
        return done * max(0.0, 1.0 - max(0.0, until - told.category_since) / trained)


def _part(told: Progress, done: float) -> float | None:
    """Return the part after which a job with `done` behind it converges, as its sidecar says."""
    if told.category is Category.CONVERGED:
        return 0.0
    if told.category in _GAINS and told.until_converged is not None:
        return done + (1.0 - done) * told.until_converged
    return None
