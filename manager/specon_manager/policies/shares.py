"""Jobs that share the processors of a node: who gets them first, in place, and who goes where.

A job that reserves nothing takes what the others leave. Serving the one with the least left first ends jobs
sooner on average than giving all the same, and disturbs the caches less; weights do it without stopping
anybody, and a job that hardly runs still holds its memory and continues at once when its turn comes.
"""

from collections.abc import Collection, Iterator, Sequence
from functools import cached_property
from typing import Protocol

from specon_manager.model.actions import AdmitGang, Migrate, Reweight
from specon_manager.model.cluster import Job, Phase, Replica
from specon_manager.model.snapshot import Snapshot
from specon_manager.model.standing import may_go
from specon_manager.policies.equal_shares import JobService, slack
from specon_manager.policies.expectation import Expectation
from specon_manager.policies.preemption.queues import Queued
from specon_manager.policies.turn_order import OrderSettings, TurnOrder


class SharesSettings(OrderSettings, Protocol):
    """What a policy that uses this lets its users set."""

    @property
    def low_weight(self) -> float:
        """Weight of the jobs that are not first on their node."""

    @property
    def move_seconds(self) -> float:
        """What a job must wait at least before it is moved to an idle node."""


class Shares:
    """The sharing jobs of each ready node, and what this call promised to add."""

    def __init__(self, snapshot: Snapshot, expected: Expectation, settings: SharesSettings) -> None:
        """Take the jobs that have a replica which occupies a node and reserves nothing."""
        self._snapshot, self._expected, self._settings = snapshot, expected, settings
        self._order = TurnOrder(expected, settings)
        self._left: dict[str, list[float]] = {}
        """What each replica on a node has left, seconds, those that this call adds among them; by node."""
        self._jobs: dict[str, list[tuple[Replica, Job]]] = {}
        """By node; not those on which everybody reserves."""
        for name in snapshot.sharing:
            self._jobs[name], self._left[name] = [], []
            for replica in sorted(snapshot.on_node[name], key=lambda replica: replica.name):
                if replica.requests.cpu or replica.requests.gpu or snapshot.leaves(replica):
                    continue
                job = snapshot.jobs[replica.job]
                self._jobs[name].append((replica, job))
                self._left[name].append(expected.remaining(job) / max(1, job.spec.wanted_workers))

    @cached_property
    def _unreserved(self) -> dict[str, float]:
        """Which part of the processors of each node nobody reserves."""
        found = {}
        for node in self._snapshot.ready_nodes:
            cores, free = node.capacity.cpu, self._snapshot.room(node.name).cpu
            found[node.name] = max(1e-9, free / cores) if cores > 0 else 1.0
        return found

    def admit(self, waiting: Queued) -> AdmitGang:
        """Start a waiting job: each replica where it and others delay each other least, or where it crashed.

        Where the least left goes first, the shorter of two jobs delays the longer by what it has left itself,
        and is not delayed. Of equal nodes the one that is through first is taken. What a node has left takes
        the longer, the more of its cores are reserved.
        """
        placement = {}
        each = self._expected.remaining(waiting.job) / len(waiting.replicas)
        for replica in waiting.replicas:
            back = replica.node if replica.crashes and replica.node in self._unreserved else None
            node = back or min(self._unreserved, key=lambda n: (*self._delays(n, each), len(n), n))
            placement[replica.name] = node
            self._left.setdefault(node, []).append(each)
        nodes = ", ".join(dict.fromkeys(placement.values()))
        why = f"on {nodes} it and the other jobs delay each other least"
        return AdmitGang(job=waiting.name, placement=placement, reason=why)

    def _delays(self, node: str, seconds: float) -> tuple[float, float]:
        """Return by how much all together end later if one with `seconds` left joins; when the last ends."""
        there, unreserved = self._left.get(node, ()), self._unreserved[node]
        return (
            sum(min(seconds, other) for other in there) / unreserved,
            (sum(there) + seconds) / unreserved,
        )

    def reweigh(self) -> Iterator[Reweight]:
        """Let the job with the least left on each node go first, in place."""
        settings, moves = self._settings, self._snapshot.moving
        for node, sharing in self._jobs.items():
            running = [
                item for item in sharing if item[0].phase is Phase.RUNNING and item[0].name not in moves
            ]
            first = self._first(running)
            jobs = len({job.name for _, job in running})
            for replica, job in running:
                weight = 1.0 if job.name == first else settings.low_weight
                if replica.weight == weight:
                    continue
                why = self._order.explain(job, jobs, node, first=job.name == first)
                yield Reweight(replica=replica.name, weight=weight, reason=why)

    def _first(self, running: Sequence[tuple[Replica, Job]]) -> str | None:
        """Return the job whose turn it is; who has it keeps it unless another has clearly less left."""
        if not running:
            return None
        jobs = {job.name: job for _, job in running}
        ahead = {job.name for replica, job in running if replica.weight == 1.0}
        incumbents = ahead if len(ahead) == 1 < len(jobs) else set[str]()
        tries = not self._is_pressed(jobs.values())
        return min(
            jobs.values(),
            key=lambda job: self._order.key(job, has_it=job.name in incumbents, tries=tries),
        ).name

    def _is_pressed(self, jobs: Collection[Job]) -> bool:
        """Whether a job whose rest is known would end late if another were tried before it, and else in time.

        Late is later than with equal shares. Who ends late anyway gains nothing by that.
        """
        expected, now = self._expected, self._snapshot.now
        if not any(self._order.on_trial(job) for job in jobs):
            return False
        sharers = [
            JobService(job.attained(now), expected.attained(job), expected.remaining(job)) for job in jobs
        ]
        waits = zip(jobs, slack(sharers), strict=True)
        longest = self._settings.probe_seconds
        return any(expected.measured(job) and 0 <= left < longest for job, left in waits)

    def balance(self, promised: Collection[str]) -> Iterator[Migrate]:
        """Fill idle nodes: the job that would wait longest where it is goes, if it then ends sooner.

        The nodes `promised` to others in this call are not idle.
        """
        snapshot, expected, settings = self._snapshot, self._expected, self._settings
        if not self._jobs:
            return
        idle = [
            node
            for node in snapshot.capacities
            if not snapshot.on_node[node] and not snapshot.busy.get(node) and node not in promised
        ]
        taken: set[str] = set()
        for target in idle:
            best: tuple[float, str, Replica, str] | None = None
            for source, sharing in self._jobs.items():
                if source in taken or snapshot.busy.get(source) or len(sharing) < 2:  # noqa: PLR2004  (one alone waits for nobody)
                    continue
                queue = sorted(sharing, key=lambda item: (expected.rank(item[1]), item[1].order))
                before = expected.remaining(queue[0][1])
                for replica, job in queue[1:]:
                    if before > settings.move_seconds and may_go(replica, target, snapshot):
                        candidate = (-before, replica.name, replica, source)
                        best = candidate if best is None or candidate[:2] < best[:2] else best
                    before += expected.remaining(job)
            if best is None:
                return
            wait, _, replica, source = best
            taken.add(source)
            yield Migrate(
                replica=replica.name,
                target=target,
                purpose="balance",
                reason=f"{target} is idle; on {source} it would wait about {-wait:.0f} s for its turn",
            )
