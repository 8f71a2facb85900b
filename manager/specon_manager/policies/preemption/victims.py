"""The best-effort jobs that run, and how room is made of them for a trial."""

from collections.abc import Callable, Iterable, Sequence
from hashlib import blake2b
from typing import NamedTuple

from msgspec import Struct

from specon_manager.model.cluster import Job, Replica
from specon_manager.model.resources import NOTHING, Resources
from specon_manager.model.snapshot import Snapshot
from specon_manager.model.standing import to_preemption
from specon_manager.policies.idle import Idle
from specon_manager.policies.preemption.queues import Queued


class Candidate(Struct, frozen=True, gc=False):
    """A best-effort job that runs and was not told to end."""

    job: Job
    replicas: Sequence[Replica]
    """Those that occupy nodes."""
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
        return bool(self.frees) and to_preemption(self.job, self.snapshot) is None


class Choice(NamedTuple):
    """Whom to preempt for a trial, each with the reason, and where the trial then starts."""

    victims: Sequence[tuple[Candidate, str]]
    placement: dict[str, str]
    """Node by replica; empty where the victims do not make enough room yet."""


Strategy = Callable[[Queued, Idle], Choice | None]
"""Chooses victims for a trial that has no room; `Idle` is what counts as free, its own to change.

A job that it chose is chosen for nobody else. None: nobody's end would help, the trial waits.
"""


def running_best_effort(snapshot: Snapshot, active: Iterable[Replica], idle: Idle) -> list[Candidate]:
    """Return the best-effort jobs that run, in the order of their submission."""
    jobs, members = snapshot.jobs, dict[str, list[Replica]]()
    for replica in active:
        known = members.get(replica.job)
        if known is not None:
            known.append(replica)
            continue
        if _gives_way_to_trials(jobs[replica.job]):
            members[replica.job] = [replica]
    found, shares = [], dict[tuple[Resources, Resources], Resources]()
    for name, replicas in members.items():
        if snapshot.about_to_end(name):
            continue
        if len(replicas) > 1:
            replicas.sort(key=lambda replica: replica.name)  # sums of fractions depend on their order
        found.append(_candidate(jobs[name], replicas, snapshot, idle, shares))
    found.sort(key=lambda candidate: (candidate.job.order, candidate.name))
    return found


def candidate_of(job: Job, snapshot: Snapshot, idle: Idle) -> Candidate | None:
    """Return a job that occupies nodes, as `running_best_effort` does; None where it would leave it out."""
    if not _gives_way_to_trials(job) or snapshot.about_to_end(job.name):
        return None
    members = (snapshot.replicas[name] for name in (*job.spec.replicas, *job.dropped))
    replicas = sorted((each for each in members if each.active), key=lambda replica: replica.name)
    return _candidate(job, replicas, snapshot, idle, {})


def _gives_way_to_trials(job: Job) -> bool:
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


def shuffled(candidates: Iterable[Candidate], seed: int, now: float) -> list[Candidate]:
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
        """Choose the first of those that are left, as many as it takes."""
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


def _candidate(
    job: Job,
    replicas: list[Replica],
    snapshot: Snapshot,
    idle: Idle,
    known: dict[tuple[Resources, Resources], Resources],
) -> Candidate:
    """Return a job as a candidate; `known` are shares of amounts of others, of which a cluster has few."""
    if len(replicas) == 1 and replicas[0].node in idle:  # as most: nothing is to be added up
        alone = replicas[0]
        assert alone.node is not None
        shares = _shares(alone.requests, idle.capacity[alone.node], known)
        return Candidate(job, replicas, ((alone.node, alone.requests),), shares, snapshot)
    frees, shares = dict[str, Resources](), NOTHING
    for replica in replicas:
        if replica.node is None or replica.node not in snapshot.nodes:
            continue
        wanted = replica.requests
        shares += _shares(wanted, snapshot.nodes[replica.node].capacity, known)
        if replica.node in idle:
            frees[replica.node] = frees.get(replica.node, NOTHING) + wanted
    return Candidate(job, replicas, sorted(frees.items()), shares, snapshot)


def _shares(
    wanted: Resources, whole: Resources, known: dict[tuple[Resources, Resources], Resources]
) -> Resources:
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
