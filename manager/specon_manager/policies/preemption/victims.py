"""The best-effort jobs that run, and how room is made of them for a trial."""

from collections.abc import Callable, Iterable, Sequence
from hashlib import blake2b
from math import hypot
from operator import attrgetter
from typing import NamedTuple

from msgspec import Struct

from specon_manager.model.cluster import Job, Replica
from specon_manager.model.resources import NOTHING, Resources
from specon_manager.model.snapshot import Snapshot
from specon_manager.model.standing import preemption_objection
from specon_manager.policies.idle import Idle
from specon_manager.policies.preemption.queues import Queued

SharesByCapacity = dict[tuple[Resources, Resources], Resources]
"""Amounts as shares of others, as far as they are known: a cluster has few."""


class Candidate(Struct, frozen=True, gc=False):
    """A best-effort job that runs and was not told to end."""

    job: Job
    frees: Sequence[tuple[str, Resources]]
    """What its end frees, by node, the first node first."""
    shares: Resources
    """What it requests, each replica as a share of the capacity of its own node, added up."""
    snapshot: Snapshot

    @property
    def name(self) -> str:
        """The job's name."""
        return self.job.spec.name

    @property
    def evictable(self) -> bool:
        """Whether it may be preempted at all, its count of preemptions aside; few of many are asked."""
        return bool(self.frees) and preemption_objection(self.job, self.snapshot) is None


class Choice(NamedTuple):
    """Whom to preempt for a trial, each with the reason, and where the trial then starts."""

    victims: Sequence[tuple[Candidate, str]]
    placement: dict[str, str]
    """Node by replica; empty where the victims do not make enough room yet."""


Strategy = Callable[[Queued, Idle], Choice | None]
"""Chooses victims for a trial that has no room; `Idle` is what counts as free, its own to change.

A job that it chose is chosen for nobody else. None: nobody's end would help, the trial waits.
"""


def running_best_effort(snapshot: Snapshot) -> list[Candidate]:
    """Return the best-effort jobs that run, in the order of their submission."""
    jobs = [snapshot.jobs[name] for name in snapshot.active_jobs]
    jobs.sort(key=attrgetter("order"))
    known: SharesByCapacity = {}
    candidates = (candidate_of(job, snapshot, known) for job in jobs)
    return [candidate for candidate in candidates if candidate is not None]


def candidate_of(job: Job, snapshot: Snapshot, known: SharesByCapacity | None = None) -> Candidate | None:
    """Return a job that occupies nodes as a candidate; None where it is a trial, or goes already."""
    if not gives_way_to_trials(job) or snapshot.about_to_end(job.spec.name):
        return None
    shares, frees = demand_of(job, snapshot, {} if known is None else known)
    return Candidate(job, frees, shares, snapshot)


def demand_of(
    job: Job, snapshot: Snapshot, known: SharesByCapacity
) -> tuple[Resources, Sequence[tuple[str, Resources]]]:
    """Return `shares` and `frees` of a job as a candidate."""
    spec, ready = job.spec, snapshot.capacities
    if len(spec.replicas) == 1 and not job.dropped:  # as most: nothing is to be added up
        alone = snapshot.replicas[spec.replicas[0]]
        node, wanted = alone.node, alone.requests
        if alone.active and node is not None and node in ready:
            return _shares(wanted, ready[node], known), ((node, wanted),)
    members = (snapshot.replicas[name] for name in (*spec.replicas, *job.dropped))
    # Sums of fractions depend on their order.
    replicas = sorted((each for each in members if each.active), key=attrgetter("name"))
    frees, shares = dict[str, Resources](), NOTHING
    for replica in replicas:
        if replica.node is None or replica.node not in snapshot.nodes:
            continue
        wanted = replica.requests
        shares += _shares(wanted, snapshot.nodes[replica.node].capacity, known)
        if replica.node in ready:
            frees[replica.node] = frees.get(replica.node, NOTHING) + wanted
    return shares, sorted(frees.items())


def length_of(shares: Resources) -> float:
    """Return equation (1) of FitGpp: the length of the vector of requests, as shares of a node's capacity."""
    return hypot(shares.cpu, shares.memory, shares.gpu)


def gives_way_to_trials(job: Job) -> bool:
    """Whether it is best effort, and not only its owner's to end."""
    spec = job.spec
    return spec.job_class != "trial" and (spec.held or spec.placed_by != "owner")


def preemptible(running: Iterable[Candidate], cap: int | None) -> list[Candidate]:
    """Return those that may be preempted: fewer than P times so far (equation (4)); None: P is infinite."""
    return [
        candidate
        for candidate in running
        if candidate.evictable and (cap is None or candidate.job.preemptions < cap)
    ]


def gives_way(candidate: Candidate, trial: Queued) -> bool:
    """Whether its priority lets a job be preempted for that trial: nobody ends for one of lower priority."""
    return candidate.job.spec.priority <= trial.job.spec.priority


def shuffle(candidates: Iterable[Candidate], seed: int, now: float) -> list[Candidate]:
    """Return the candidates in an order that is random, and the same for the same seed, time and names."""
    return sorted(candidates, key=lambda candidate: (_digest(seed, now, candidate.name), candidate.name))


def one_by_one(
    replicas: Sequence[Replica], idle: Idle, candidates: Iterable[Candidate]
) -> tuple[list[Candidate], dict[str, str]] | None:
    """Let one after the other go until the replicas, which do not fit yet, do; None: not even then.

    Changes `idle`.
    """
    gone = []
    wanted = [replica.requests for replica in replicas]
    for candidate in candidates:
        gone.append(candidate)
        for node, amounts in candidate.frees:
            idle.give(node, amounts)
        # Nothing has changed elsewhere: unless one more replica fits here, they fit no better than before.
        if not any(one.fits(idle.open(node)) for node, _ in candidate.frees for one in wanted):
            continue
        if (placement := idle.place(replicas)) is not None:
            return gone, placement
    return None


class Sequential:
    """A strategy: preempt in a given order until there is room. LRTP and RAND differ in the order alone."""

    def __init__(self, candidates: Sequence[Candidate], why: Callable[[Candidate], str]) -> None:
        """Take the candidates in the order in which they are to go."""
        self._candidates = list(candidates)
        self._highest = max((one.job.spec.priority for one in candidates), default=0)
        self._why = why

    def __call__(self, trial: Queued, idle: Idle) -> Choice | None:
        """Choose the first candidates that are left, as many as it takes."""
        ranked = trial.job.spec.priority < self._highest
        allowed = [one for one in self._candidates if gives_way(one, trial)] if ranked else self._candidates
        found = one_by_one(trial.replicas, idle, allowed)
        if found is None:
            return None
        gone, placement = found
        if ranked:
            names = {candidate.name for candidate in gone}
            self._candidates = [one for one in self._candidates if one.name not in names]
        else:
            del self._candidates[: len(gone)]
        return Choice([(candidate, self._why(candidate)) for candidate in gone], placement)


def _shares(wanted: Resources, whole: Resources, known: SharesByCapacity) -> Resources:
    """Return the amounts as shares of a node; nothing where it has nothing."""
    found = known.get((wanted, whole))
    if found is None:
        found = known[wanted, whole] = Resources(
            cpu=wanted.cpu / whole.cpu if whole.cpu > 0 else 0.0,
            memory=wanted.memory / whole.memory if whole.memory > 0 else 0.0,
            gpu=wanted.gpu / whole.gpu if whole.gpu > 0 else 0.0,
        )
    return found


def _digest(seed: int, now: float, name: str) -> bytes:
    return blake2b(f"{seed}|{now!r}|{name}".encode(), digest_size=8).digest()
