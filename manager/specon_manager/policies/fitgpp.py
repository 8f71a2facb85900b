"""FitGpp: one well-chosen best-effort job is preempted for a trial that has no room.

H. Yabuuchi, D. Taniwaki, S. Omura, "Low-latency job scheduling with preemption for the development of deep
learning", arXiv 1902.01613, OpML 2019. Equations (1) to (4); decisions in `docs/results/fitgpp.md`.
"""

from collections.abc import Container, Iterator, Sequence
from itertools import groupby
from math import hypot
from operator import itemgetter
from typing import Annotated

from msgspec import Meta

from specon_manager.model.actions import Proposal
from specon_manager.model.cluster import Replica
from specon_manager.model.resources import Resources
from specon_manager.model.snapshot import Snapshot
from specon_manager.policies.idle import Idle
from specon_manager.policies.preemption.queues import Queued
from specon_manager.policies.preemption.trials import TrialsFirstSettings, trials_first
from specon_manager.policies.preemption.victims import (
    Candidate,
    Choice,
    gives_way,
    one_by_one,
    shuffled,
)


class FitGppSettings(TrialsFirstSettings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Parameters of equations (3) and (4)."""

    grace_weight: Annotated[float, Meta(ge=0, le=1e6)] = 4.0
    """s: how much the length of the grace period counts against the size of the demand."""
    seed: int = 0
    """Of the random choice where no one job is enough; with `literal` one ends, not as many as it takes."""


def propose(snapshot: Snapshot, settings: FitGppSettings) -> Iterator[Proposal]:
    """Start trials, preempt for those that have no room, then start best-effort jobs."""

    def strategy_of(running: list[Candidate]) -> FittingGracePeriod:
        return FittingGracePeriod(running, settings, snapshot.now)

    return trials_first(snapshot, settings, strategy_of)


def size(candidate: Candidate) -> float:
    """Return equation (1): the length of the vector of requests, as shares of a node's capacity."""
    return _length(candidate.shares)


def _length(shares: Resources) -> float:
    return hypot(shares.cpu, shares.memory, shares.gpu)


def scores(running: Sequence[Candidate], grace_weight: float) -> list[float]:
    """Return equation (3) of each: Size / max Size + s GP / max GP, the maxima over all that run."""
    lengths = dict[int, float]()  # by the very amount: of those even a large cluster has few
    asked = list[tuple[float, float]]()
    for candidate in running:
        shares = candidate.shares
        length = lengths.get(id(shares))
        if length is None:
            length = lengths[id(shares)] = _length(shares)
        asked.append((length, candidate.job.spec.grace_seconds))
    largest, longest = (max((each[part] for each in asked), default=0.0) for part in (0, 1))
    return [
        (length / largest if largest > 0 else 0.0) + (grace_weight * grace / longest if longest > 0 else 0.0)
        for length, grace in asked
    ]


class FittingGracePeriod:
    """The strategy of equation (4) for one call."""

    def __init__(self, running: Sequence[Candidate], settings: FitGppSettings, now: float) -> None:
        """Rank those that may be preempted; the maxima of equation (3) run over the others too."""
        self._settings, self._now = settings, now
        cap = settings.max_preemptions
        ranked = [
            (score, candidate)
            for score, candidate in zip(scores(running, settings.grace_weight), running, strict=True)
            if cap is None or candidate.job.preemptions < cap
        ]
        ranked.sort(key=itemgetter(0))  # of equals who was submitted first
        self._alike = [
            (amount, list(group)) for amount, group in groupby(ranked, lambda each: _held(each[1]))
        ]
        """In the order of their scores, those together that free the same amount on one node."""
        self._drawn: list[Candidate] | None = None
        self._scores: dict[str, float] = {}
        """Of those that were chosen."""
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
        for amount, group in self._alike:
            if amount is not None and not amounts.fits(most + amount):
                continue  # on no node is so much free that one of these would be enough
            gone = next((n for n, each in enumerate(group) if each[1].name not in self._gone), len(group))
            del group[:gone]
            for score, candidate in group:
                if not gives_way(candidate, trial):
                    continue
                for node, held in candidate.frees:
                    if amounts.fits(idle.open(node) + held) and self._may_go(candidate, victims):
                        self._scores[candidate.name] = score
                        return candidate, node
        return None

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
            ranked = (each for _, group in self._alike for _, each in group)
            self._drawn = shuffled((each for each in ranked if each.evictable), settings.seed, self._now)
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


def _held(candidate: Candidate) -> Resources | None:
    """Return what its end frees on its node; None where those are several, or none."""
    return candidate.frees[0][1] if len(candidate.frees) == 1 else None
