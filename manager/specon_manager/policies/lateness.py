"""Which jobs are so far behind that nobody may go before them any more."""

from collections.abc import Iterable
from functools import cached_property
from typing import Protocol

from specon_manager.model.cluster import Job
from specon_manager.model.resources import NOTHING, Resources, total
from specon_manager.model.snapshot import Snapshot
from specon_manager.policies.expectation import Expectation
from specon_manager.policies.gang_placement import needed


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
        return age > self._settings.patience_factor * self.contention * alone

    @cached_property
    def contention(self) -> float:
        """How many times the capacity of the ready nodes all jobs that have not ended ask for, at least 1."""
        whole = total([node.capacity for node in self._snapshot.ready_nodes])
        asked = total(list(_list_requests(self._snapshot.jobs.values())))
        return max(1.0, *asked.shares(whole))


def _list_requests(jobs: Iterable[Job]) -> Iterable[Resources]:
    for job in jobs:
        yield NOTHING if job.ended_at is not None else needed(job.spec, job.spec.wanted_workers)
