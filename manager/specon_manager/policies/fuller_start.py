"""Whether a gang had better wait for room for all its workers than start with a few of them."""

from collections.abc import Callable
from functools import cached_property
from typing import Final

from specon_manager.model.cluster import Job
from specon_manager.model.resources import NOTHING, Resources, total
from specon_manager.model.snapshot import Snapshot
from specon_manager.policies.backfill import Gang
from specon_manager.policies.expectation import Expectation
from specon_manager.policies.idle import Idle

_WORTH: Final = 0.25  # of what it saves with all its workers a gang waits for their room at most


class FullerStart:
    """Says of each gang that could start small in one call whether it waits.

    Who chooses the size of a job when it starts takes that with which it ends first (W. Cirne and F. Berman,
    JPDC 62(10), 2002). A gang beside whose servers there is little room keeps its small size for long: others
    wait, and workers on other nodes wait for the network. It is not to wait on hope, as room that is expected
    may come late, or go to somebody with less left.
    """

    def __init__(
        self, snapshot: Snapshot, idle: Idle, expected: Expectation, late: Callable[[Job], bool]
    ) -> None:
        """Take what the call knows; `late` says which jobs have waited enough."""
        self._snapshot, self._idle, self._expected, self._late = snapshot, idle, expected, late

    def __call__(self, gang: Gang, workers: int) -> bool:
        """Whether a node is expected to hold all that its owner asked for soon enough to end it sooner.

        `workers` is with how many it would start now.
        """
        job = gang.job
        wanted = gang.workers[: job.spec.wanted_workers]
        if self._late(job):
            return False
        saved = self._expected.remaining(job) * (len(wanted) / max(1, workers) - 1)
        whole = total([replica.requests for replica in (*gang.servers, *wanted)])
        freed = dict[str, Resources]()
        for seconds, held in self._ends:
            if seconds >= _WORTH * saved:
                return False
            for node, amount in held:
                freed[node] = freed.get(node, NOTHING) + amount
                if whole.fits(self._idle.open(node) + freed[node]):
                    return True
        return False

    @cached_property
    def _ends(self) -> list[tuple[float, list[tuple[str, Resources]]]]:
        """In how many seconds each running job is expected to end, and what it holds; the soonest first."""
        found = []
        for job in self._snapshot.running:
            replicas = (self._snapshot.replicas[name] for name in job.spec.replicas)
            held = [
                (replica.node, replica.requests)
                for replica in replicas
                if replica.active and replica.node is not None and replica.node in self._idle
            ]
            found.append((self._expected.remaining(job), job.order, held))
        return [(seconds, held) for seconds, _, held in sorted(found, key=lambda each: each[:2])]
