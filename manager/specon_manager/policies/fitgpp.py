"""FitGpp: one well-chosen best-effort job is preempted for a trial that has no room.

H. Yabuuchi, D. Taniwaki, S. Omura, "Low-latency job scheduling with preemption for the development of deep
learning", arXiv 1902.01613, OpML 2019. Equations (1) to (4); decisions in `docs/results/fitgpp.md`.
"""

from collections.abc import Container, Iterable, Iterator, Sequence
from heapq import merge
from itertools import islice
from operator import itemgetter
from typing import Annotated

from msgspec import Meta

from specon_manager.model.actions import Proposal
from specon_manager.model.cluster import Replica
from specon_manager.model.resources import Resources
from specon_manager.model.snapshot import Snapshot
from specon_manager.policies.idle import Idle
from specon_manager.policies.preemption.queues import Queued
from specon_manager.policies.preemption.running import EquivalenceClass, Named, Running
from specon_manager.policies.preemption.trials import TrialsFirstSettings, trials_first
from specon_manager.policies.preemption.victims import (
    Candidate,
    Choice,
    gives_way,
    length_of,
    one_by_one,
    preemptible,
    shuffle,
)


class FitGppSettings(TrialsFirstSettings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Parameters of equations (3) and (4)."""

    grace_weight: Annotated[float, Meta(ge=0, le=1e6)] = 4.0
    """s: how much the length of the grace period counts against the size of the demand."""
    seed: int = 0
    """Of the random choice where no one job is enough; with `literal` one ends, not as many as it takes."""


def propose(snapshot: Snapshot, settings: FitGppSettings) -> Iterator[Proposal]:
    """Start trials, preempt for those that have no room, then start best-effort jobs."""

    def strategy_of(running: Running) -> FittingGracePeriod:
        return FittingGracePeriod(running, settings, snapshot.now)

    return trials_first(snapshot, settings, strategy_of)


def size(candidate: Candidate) -> float:
    """Return equation (1): the length of the vector of requests, as shares of a node's capacity."""
    return length_of(candidate.shares)


def scores(kinds: Iterable[EquivalenceClass], grace_weight: float) -> dict[EquivalenceClass, float]:
    """Return equation (3) of each: Size / max Size + s GP / max GP, the maxima over all that run."""
    known = list(kinds)
    largest = max((kind.length for kind in known), default=0.0)
    longest = max((kind.grace for kind in known), default=0.0)
    return {
        kind: (kind.length / largest if largest > 0 else 0.0)
        + (grace_weight * kind.grace / longest if longest > 0 else 0.0)
        for kind in known
    }


class FittingGracePeriod:
    """The strategy of equation (4) for one call."""

    def __init__(self, running: Running, settings: FitGppSettings, now: float) -> None:
        """Rank those that may be preempted; the maxima of equation (3) run over the others too."""
        self._running, self._settings, self._now = running, settings, now
        named = running.kinds()
        by_score = dict[float, list[Ahead]]()
        for kind, score in scores(named, settings.grace_weight).items():
            by_score.setdefault(score, []).append(Ahead(kind.freed, named[kind]))
        self._ranked = sorted(by_score.items(), key=itemgetter(0))
        """Kinds in the order of their scores; jobs of one kind stay together."""
        self._drawn: list[Candidate] | None = None
        self._scores: dict[str, float] = {}
        """Scores of the chosen jobs, by name."""
        self._gone: set[str] = set()  # chosen before; the lists are not made again for each trial

    def __call__(self, trial: Queued, idle: Idle) -> Choice | None:
        """Choose one victim for each replica that has no room, or random ones where no one is enough."""
        placement: dict[str, str] = {}
        victims: dict[str, tuple[Candidate, str]] = {}
        for position, replica in enumerate(trial.replicas):
            amounts = replica.requests
            node = idle.find(amounts)
            if node is None:
                found = self._fitting(trial, amounts, idle, victims)
                if found is None:
                    return self._at_random(trial, trial.replicas[position:], idle, victims, placement)
                candidate, node = found
                victims[candidate.name] = (candidate, self._why(candidate, node))
                for freed, held in candidate.frees:
                    idle.give(freed, held)
            idle.take(node, amounts)
            placement[replica.name] = node
        return self._choose(victims, placement)

    def _fitting(
        self, trial: Queued, amounts: Resources, idle: Idle, victims: dict[str, tuple[Candidate, str]]
    ) -> tuple[Candidate, str] | None:
        """Return equation (4): the lowest score of those for which (2) holds, and the node where it does."""
        most = idle.most
        for score, kinds in self._ranked:
            # Of others so much is free on no node that one of them would be enough.
            enough = [each for each in kinds if each.freed is None or amounts.fits(most + each.freed)]
            for _, name in merge(*[each.left(self._gone) for each in enough]):
                candidate = self._candidate(name)
                if candidate is None or not gives_way(candidate, trial):
                    continue
                for node, held in candidate.frees:
                    if amounts.fits(idle.open(node) + held) and self._may_go(candidate, victims):
                        self._scores[name] = score
                        return candidate, node
        return None

    def _candidate(self, name: str) -> Candidate | None:
        """Return a job as one that may be preempted once more; None where it was so often enough."""
        found, cap = self._running.candidate(name), self._settings.max_preemptions
        return found if found is not None and (cap is None or found.job.preemptions < cap) else None

    def _at_random(
        self,
        trial: Queued,
        replicas: Sequence[Replica],
        idle: Idle,
        victims: dict[str, tuple[Candidate, str]],
        placement: dict[str, str],
    ) -> Choice | None:
        """Return random victims until the replicas fit; printed, it is one, whatever comes of it."""
        settings = self._settings
        if self._drawn is None:
            running = preemptible(self._running.all(), settings.max_preemptions)
            self._drawn = shuffle(running, settings.seed, self._now)
        left = [c for c in self._drawn if gives_way(c, trial) and self._is_left(c, victims)]
        why = "nobody's end alone makes enough room, so it was drawn at random"
        if settings.literal:
            if left:
                victims[left[0].name] = (left[0], why)
            return self._choose(victims, {}) if victims else None
        found = one_by_one(replicas, idle, left)
        if found is None:
            return None
        gone, places = found
        used = set(places.values())
        for candidate in gone:
            if any(node in used for node, _ in candidate.frees):  # nobody ends for room that is not needed
                victims[candidate.name] = (candidate, why)
        return self._choose(victims, placement | places)

    def _choose(self, victims: dict[str, tuple[Candidate, str]], placement: dict[str, str]) -> Choice:
        self._gone.update(victims)
        return Choice(list(victims.values()), placement)

    def _may_go(self, candidate: Candidate, victims: Container[str]) -> bool:
        return self._is_left(candidate, victims) and candidate.evictable

    def _is_left(self, candidate: Candidate, victims: Container[str]) -> bool:
        return candidate.name not in victims and candidate.name not in self._gone

    def _why(self, candidate: Candidate, node: str) -> str:
        score, grace = self._scores[candidate.name], candidate.job.spec.grace_seconds
        return (
            f"score {score:.3g} (size {size(candidate):.3g}, grace period {grace:g} s) is the lowest "
            f"of those whose end alone makes enough room, here on {node}"
        )


class Ahead:
    """The jobs of one kind; they are chosen one after the other, from the first."""

    def __init__(self, freed: Resources | None, names: list[Named]) -> None:
        """Take them in the order of their submission, and what the end of one frees on one node."""
        self.freed, self._names, self._passed = freed, names, 0

    def left(self, gone: Container[str]) -> Iterator[Named]:
        """Yield those that are left, but for the first of them that are gone."""
        names = self._names
        while self._passed < len(names) and names[self._passed][1] in gone:
            self._passed += 1
        return islice(names, self._passed, None)
