"""Of jobs that share something one with the least left goes first, until another has clearly less."""

from typing import Protocol

from specon_manager.model.cluster import Job
from specon_manager.policies.expectation import Expectation


class OrderSettings(Protocol):
    """What a policy that uses this lets its users set."""

    @property
    def probe_seconds(self) -> float:
        """How long a job whose rest is not known is served first."""

    @property
    def probe_rank(self) -> float:
        """How much it counts as having left meanwhile."""

    @property
    def margin(self) -> float:
        """By how much less another must have left before it takes the turn."""


class TurnOrder:
    """Orders jobs; an unknown job is tried for a while, unless others are over soon."""

    def __init__(self, expected: Expectation, settings: OrderSettings) -> None:
        """Take the expectations of jobs."""
        self._expected, self._settings = expected, settings

    def key(self, job: Job, *, has_it: bool, tries: bool = True) -> tuple[float, int, str]:
        """Return by what jobs are ordered, the first least; `has_it`: whether it is its turn already.

        `tries`: whether an unknown job is tried.
        """
        tried = tries and self.on_trial(job)
        seconds = self._settings.probe_rank if tried else self._expected.rank(job)
        if has_it:
            seconds *= 1 - self._settings.margin
        return seconds, job.order, job.name

    def explain(self, job: Job, jobs: int, place: str, *, first: bool) -> str:
        """Return why it is the turn of one of so many jobs at a place, or why it is not."""
        left = self._expected.remaining(job)
        if jobs == 1:
            return f"it is alone on {place}"
        if first and self.on_trial(job):
            return f"its remaining time is not known yet: it is tried for {self._settings.probe_seconds:g} s"
        if first:
            return f"of {jobs} on {place} it has the least left, about {left:.0f} s"
        return f"another on {place} goes first; this one has about {left:.0f} s left"

    def on_trial(self, job: Job) -> bool:
        """Whether nothing is known of the job yet, and it is to be tried."""
        expected = self._expected
        return not expected.measured(job) and expected.attained(job) < self._settings.probe_seconds
