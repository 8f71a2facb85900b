"""Which jobs are so far behind that nobody may go before them any more."""

from collections.abc import Mapping
from functools import cached_property
from math import fsum
from typing import Final, Protocol

from specon_manager.model.cluster import Job
from specon_manager.model.renewal import Tally
from specon_manager.model.resources import Resources
from specon_manager.model.snapshot import Snapshot
from specon_manager.policies.expectation import Expectation


class LatenessSettings(Protocol):
    """What a policy that uses this lets its users set."""

    @property
    def patience(self) -> float:
        """No job is late sooner after its submission, seconds."""

    @property
    def patience_factor(self) -> float:
        """How many times as long as with a fair share of the cluster a job may take."""


class Lateness:
    """Says of each job of one snapshot whether it is late.

    With a fair share a job takes c times as long as alone, c being how many times its capacity the present
    jobs ask of the cluster: the finish-time fairness of Themis (K. Mahajan et al., NSDI 2020).
    """

    def __init__(self, snapshot: Snapshot, expected: Expectation, settings: LatenessSettings) -> None:
        """Take the jobs that are there now."""
        self._snapshot, self._expected, self._settings = snapshot, expected, settings

    def __call__(self, job: Job) -> bool:
        """Whether the job is older than `patience`, and than it may become by its fair share."""
        age = self._snapshot.now - job.submitted_at
        if age <= self._settings.patience:
            return False
        alone = self._expected.attained(job) + self._expected.remaining(job)
        if age <= self._settings.patience_factor * alone:
            return False  # whatever others ask for, which takes a look at every job
        return age > self._settings.patience_factor * self.contention * alone

    @cached_property
    def contention(self) -> float:
        """How many times the capacity of the ready nodes all jobs that have not ended ask for, at least 1."""
        asked = _add_up(_asked(self._snapshot.jobs))
        return max(1.0, *asked.shares(self._snapshot.free.total))


_Asks = tuple[tuple[Resources, int], ...]
"""An amount, and how many replicas reserve it."""


def _asks(job: Job) -> _Asks | None:
    """Return what a job reserves with all workers that its owner asked for; None: it has ended."""
    if job.ended_at is not None:
        return None
    spec = job.spec
    servers, workers = spec.ps, spec.worker_names[: spec.wanted_workers]
    if spec.unlike:
        return tuple([(spec.requests_of(name), 1) for name in (*servers, *workers)])
    own = (spec.requests, len(workers))
    return (own, (spec.requests_of(servers[0]), len(servers))) if servers else (own,)


_asked: Final = Tally(_asks)


def _add_up(asked: Mapping[_Asks, int]) -> Resources:
    """Return the sum, exactly rounded: it does not depend on the order."""
    parts = [(each, jobs * number) for asks, jobs in asked.items() for each, number in asks]
    return Resources(
        cpu=fsum(number * each.cpu for each, number in parts),
        memory=fsum(number * each.memory for each, number in parts),
        gpu=fsum(number * each.gpu for each, number in parts),
    )
