"""What a detector's verdicts were worth, run by run and over all runs."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Final

from truth import Kind, Truth

DELTAS: Final = (0.02, 0.05)
_EARLY_ENOUGH: Final = 0.15  # of the run left after it had converged: a verdict could have been of use


@dataclass(frozen=True, kw_only=True)
class Verdicts:
    """One run under one detector; positions are parts of the run, 0 to 1."""

    truth: Truth
    reports: tuple[int, ...]
    converged: tuple[bool, ...]

    @property
    def first(self) -> int | None:
        """The index of the first interval with the verdict converged."""
        return next((index for index, one in enumerate(self.converged) if one), None)

    @property
    def flips(self) -> int:
        """How often the verdict was withdrawn."""
        return sum(before and not after for before, after in pairwise(self.converged))

    def right(self, index: int, delta: float) -> bool:
        """Whether the job had converged at that interval, by hindsight."""
        return self.truth.converged(self.reports[index], delta)


@dataclass(frozen=True, kw_only=True)
class Score:
    """A row of the table, for one delta."""

    precision: float
    """Share of the intervals called converged that were."""
    recall: float
    """Share of the intervals that were converged and called so."""
    first_right: float
    """Share of the first verdicts that were right."""
    runs: int
    """How many runs had a verdict."""
    first_right_of_useful: float
    """Share of runs with time left after they had converged whose first verdict was right."""
    to_come: float
    """Gain still to come at the first verdict, as a share of the whole gain: median."""
    to_come_p90: float
    lead: float
    """Part of the run that was left at the first verdict, where it was right: mean."""
    flips: float
    """Withdrawn verdicts per run."""
    false_alarms: int
    """Verdicts in runs that never learnt or diverged."""


def score(all_verdicts: Sequence[Verdicts], delta: float) -> Score:
    """Return the scores of a detector over all runs."""
    called = right = true = 0
    firsts, useful, useful_right, leads, flips, alarms = [], 0, 0, [], 0, 0
    firsts_right = 0
    for one in all_verdicts:
        truths = [one.right(index, delta) for index in range(len(one.reports))]
        called += sum(one.converged)
        true += sum(truths)
        right += sum(said and was for said, was in zip(one.converged, truths, strict=True))
        flips += one.flips
        is_useful = sum(truths) >= _EARLY_ENOUGH * len(truths)
        useful += is_useful
        first = one.first
        if first is None:
            continue
        if one.truth.kind is not Kind.LEARNS:
            alarms += 1
        firsts.append(one.truth.to_come[one.reports[first]])
        if truths[first]:
            firsts_right += 1
            useful_right += is_useful
            leads.append(1 - (first + 1) / len(truths))
    ordered = sorted(firsts)
    return Score(
        precision=_share(right, called),
        recall=_share(right, true),
        first_right=_share(firsts_right, len(firsts)),
        runs=len(firsts),
        first_right_of_useful=_share(useful_right, useful),
        to_come=median(ordered) if ordered else 0.0,
        to_come_p90=ordered[min(len(ordered) - 1, int(0.9 * len(ordered)))] if ordered else 0.0,
        lead=sum(leads) / len(leads) if leads else 0.0,
        flips=flips / len(all_verdicts),
        false_alarms=alarms,
    )


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0
