"""The best-effort jobs that run, by what their end frees: kept from one call to the next, and renewed.

A large cluster has tens of thousands of them, of few kinds, and a trial ends one or two.
"""

from bisect import bisect_left, insort
from collections.abc import Collection, Iterable, Mapping
from functools import cached_property
from typing import Final, NamedTuple

from specon_manager.model.cluster import Job
from specon_manager.model.renewal import find_touched, positions, renew
from specon_manager.model.resources import Resources
from specon_manager.model.snapshot import Snapshot
from specon_manager.policies.preemption.victims import (
    Candidate,
    SharesByCapacity,
    candidate_of,
    demand_of,
    gives_way_to_trials,
    length_of,
    running_best_effort,
)

_MANY: Final = 0.5
"""Where so large a part has changed it is quicker to look at every job."""


class EquivalenceClass(NamedTuple):
    """What jobs have in common that count the same in FitGpp's equation (3)."""

    length: float
    """Equation (1), the size of what they request."""
    grace: float
    """Their grace period, seconds."""
    freed: Resources | None
    """What the end of one frees on its node; None where those are several, or none."""


Named = tuple[int, str]
"""The number of a job in the order of submission, and its name."""


class Running:
    """Those of one call of a policy."""

    def __init__(self, snapshot: Snapshot, apart: Collection[str] = frozenset()) -> None:
        """Take what the call knows; jobs `apart` are left out."""
        self._snapshot, self._apart = snapshot, apart
        self._candidates: dict[str, Candidate | None] = {}
        self._shares: SharesByCapacity = {}
        if _last is not None:
            _ = self._kept  # an old cache differs from the present records in more

    @cached_property
    def _kept(self) -> "Kinds":
        return kinds(self._snapshot)

    def beside(self, nodes: Collection[str]) -> "Running":
        """Return those whose end frees nothing on these nodes."""
        if not nodes:
            return self
        snapshot = self._snapshot
        there = {each.job for node in nodes for each in snapshot.on_node.get(node, ())}
        there |= {snapshot.replicas[name].job for name in snapshot.moving if name in snapshot.replicas}
        found = (self.candidate(name) for name in there if name in self._kept.at)
        gone = {each.name for each in found if each is not None and any(n in nodes for n, _ in each.frees)}
        return Running(snapshot, gone | set(self._apart))

    def kinds(self) -> Mapping[EquivalenceClass, list[Named]]:
        """Return the kinds that have a job, each with all its jobs in the order of their submission.

        Jobs `apart`, and jobs that are about to end, do not count here, but the lists still name them.
        """
        kept = self._kept
        left = {kind: len(names) for kind, names in kept.kinds.items()}
        for name in {*self._apart, *self._snapshot.doomed}:
            if (kind := kept.at.get(name)) is not None:
                left[kind] -= 1
        return {kind: kept.kinds[kind] for kind, number in left.items() if number}

    def candidate(self, name: str) -> Candidate | None:
        """Return the job as one that may be preempted; None where it goes already, or is apart."""
        if name not in self._candidates:
            apart, job = name in self._apart, self._snapshot.jobs[name]
            self._candidates[name] = None if apart else candidate_of(job, self._snapshot, self._shares)
        return self._candidates[name]

    def all(self) -> list[Candidate]:
        """Return all of them, in the order of their submission."""
        found = running_best_effort(self._snapshot)
        return [candidate for candidate in found if candidate.name not in self._apart]


class Kinds:
    """All best-effort jobs that occupy nodes, by their kinds."""

    __slots__ = ("_jobs", "_others", "_replicas", "_seen", "_size", "_whole", "at", "kinds")

    def __init__(self, snapshot: Snapshot) -> None:
        """Look at every job."""
        self._jobs = snapshot.jobs, positions(snapshot.jobs)
        self._replicas = snapshot.replicas, positions(snapshot.replicas)
        self._whole, self._others = snapshot.capacities, _list_unready(snapshot)
        sizes: dict[Resources, int] = {}
        self._size = {name: sizes.setdefault(each, len(sizes)) for name, each in self._whole.items()}
        """The number of the capacity of each ready node: a cluster has few, and numbers are found sooner."""
        self._seen: dict[tuple[float, ...], EquivalenceClass] = {}
        self.kinds: dict[EquivalenceClass, list[Named]] = {}
        self.at: dict[str, EquivalenceClass] = {}
        """The kind of each job."""
        jobs, found = snapshot.jobs, self.kinds
        for name, active in snapshot.active_jobs.items():
            job = jobs[name]
            if not gives_way_to_trials(job):
                continue
            self.at[name] = kind = self._kind_of(job, active, snapshot)
            if kind in found:
                found[kind].append((job.order, name))
            else:
                found[kind] = [(job.order, name)]
        for names in found.values():
            names.sort()

    def renewed(self, snapshot: Snapshot) -> "Kinds | None":
        """Return the kinds of this snapshot from what changed; None: too much did, look at every job."""
        jobs = renew(*self._jobs, snapshot.jobs)
        replicas = renew(*self._replicas, snapshot.replicas)
        if jobs is None or replicas is None:
            return None
        if snapshot.capacities is not self._whole or _list_unready(snapshot) != self._others:
            return None
        touched = {name for name in jobs[1] if not _is_same(self._jobs[0].get(name), snapshot.jobs.get(name))}
        former, present = self._replicas[0], snapshot.replicas
        told = find_touched(former, present)
        for name in replicas[1] if told is None else told:
            was, now = former.get(name), present.get(name)
            if was is None or now is None:
                touched |= {each.job for each in (was, now) if each is not None}
            elif was.phase is not now.phase or was.node != now.node or was.requests != now.requests:
                touched.add(now.job)
        if len(touched) > _MANY * len(self.at):
            return None
        twin = object.__new__(Kinds)
        twin._jobs, twin._replicas = (snapshot.jobs, jobs[0]), (snapshot.replicas, replicas[0])
        twin._whole, twin._others = self._whole, self._others
        twin._size, twin._seen = self._size, self._seen
        twin.kinds, twin.at = self.kinds, self.at
        if touched:
            twin.kinds, twin.at = dict(self.kinds), dict(self.at)
            twin._renew(touched, self._jobs[0], snapshot)
        return twin

    def _renew(self, touched: Iterable[str], former: Mapping[str, Job], snapshot: Snapshot) -> None:
        own = set[EquivalenceClass]()  # the other lists are shared with those before

        def names_of(kind: EquivalenceClass) -> list[Named]:
            if kind not in own:
                own.add(kind)
                self.kinds[kind] = list(self.kinds.get(kind, ()))
            return self.kinds[kind]

        active = snapshot.active_jobs
        for name in touched:
            if (known := self.at.pop(name, None)) is not None:
                names = names_of(known)
                del names[bisect_left(names, (former[name].order, name))]
            if name in active and gives_way_to_trials(job := snapshot.jobs[name]):
                self.at[name] = kind = self._kind_of(job, active[name], snapshot)
                insort(names_of(kind), (job.order, name))

    def _kind_of(self, job: Job, active: int, snapshot: Snapshot) -> EquivalenceClass:
        """Return the kind of a job that has so many active replicas.

        If its replicas are alike and share one node, their number and requests mostly name a known kind.
        """
        spec, replicas = job.spec, snapshot.replicas
        names = spec.replicas
        first = replicas[names[0]]
        node, requests = first.node, first.requests
        size = self._size.get(node or "")
        if size is None or job.dropped or active != len(names):
            return self._judge(job, snapshot)
        for name in names[1:]:
            replica = replicas[name]
            other = replica.requests
            if replica.node != node or (other is not requests and other != requests):
                return self._judge(job, snapshot)
        key = active, size, requests.cpu, requests.memory, requests.gpu, spec.grace_seconds
        kind = self._seen.get(key)
        if kind is None:
            kind = self._seen[key] = self._judge(job, snapshot)
        return kind

    def _judge(self, job: Job, snapshot: Snapshot) -> EquivalenceClass:
        shares, frees = demand_of(job, snapshot, {})
        freed = frees[0][1] if len(frees) == 1 else None
        return EquivalenceClass(length_of(shares), job.spec.grace_seconds, freed)


def kinds(snapshot: Snapshot) -> Kinds:
    """Return the kinds of this snapshot: only a cache, no answer depends on who asked before."""
    global _last  # noqa: PLW0603  (a cache of one entry)
    kept = None if _last is None else _last.renewed(snapshot)
    _last = found = Kinds(snapshot) if kept is None else kept
    return found


_last: Kinds | None = None


def _list_unready(snapshot: Snapshot) -> dict[str, Resources]:
    """Return what those nodes have that take no replicas; some may run there."""
    if len(snapshot.capacities) == len(snapshot.nodes):
        return {}
    return {name: node.capacity for name, node in snapshot.nodes.items() if not node.ready}


def _is_same(was: Job | None, now: Job | None) -> bool:
    """Whether two records of a job differ in nothing that its kind, or its place there, depends on."""
    if was is None or now is None:
        return False
    return was.spec is now.spec and was.dropped == now.dropped and was.order == now.order
