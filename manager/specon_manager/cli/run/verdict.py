"""What can be said of the difference between two runs: by the times, and by what else the machine did."""

from enum import StrEnum
from typing import Final

from msgspec import Struct

from specon_manager.cli.run.result import JobResult, RunResult

THRESHOLD_PERCENT: Final = 2.0
"""A job whose completion time differs by no more than this is called unchanged."""
DRIFT: Final = 0.05
"""A load of others that differs by more than this part of the machine makes two runs hard to compare."""
_BUSY: Final = 0.2
"""Times go by the processor time that is left only where no more than this part of the machine is idle."""


class Verdict(StrEnum):
    """What the moves did to a job; one that failed in only one of the runs was hurt or helped as well."""

    HELPED = "helped"
    HURT = "hurt"
    UNCHANGED = "unchanged"
    NO_VERDICT = "no verdict"  # nothing was moved, or the difference may be that of the machine's load
    NOT_COMPARABLE = "not comparable"  # not in both runs, not over in both, or a failure in both


class Difference(Struct, frozen=True, kw_only=True):
    """One time in both runs, in seconds; negative differences mean that it was shorter with moves."""

    with_moves: float | None
    without: float | None
    seconds: float | None
    """None where one of the two is not known."""
    percent: float | None
    """Of the time without moves; None where that is not known or 0."""
    percent_normalised: float | None = None
    """`percent`, had others left as much processor time in both runs; None where that cannot be said."""


class Judge:
    """Knows what can be said of a difference, given what else the machine did."""

    def __init__(self, with_moves: RunResult, without: RunResult) -> None:
        """Look at whether anything was moved, and at the load during both runs."""
        self.moved = with_moves.moved_something or without.moved_something
        shares = [None if run.load is None else run.load.others_share for run in (with_moves, without)]
        idle = [None if run.load is None else run.load.idle_share for run in (with_moves, without)]
        first, second = shares
        self.drifted = first is not None and second is not None and abs(first - second) > DRIFT
        self._ratio: float | None = None
        """What a time with moves has to be multiplied with, to be of a machine as busy as without."""
        busy = all(each is not None and each <= _BUSY for each in idle)
        if first is not None and second is not None and second < 1 and busy:
            self._ratio = (1 - first) / (1 - second)

    def difference(self, with_moves: float | None, without: float | None) -> Difference:
        """Return how much a time differs."""
        if with_moves is None or without is None:
            return Difference(with_moves=with_moves, without=without, seconds=None, percent=None)
        return Difference(
            with_moves=with_moves,
            without=without,
            seconds=with_moves - without,
            percent=_percent(with_moves, without),
            percent_normalised=None if self._ratio is None else _percent(with_moves * self._ratio, without),
        )

    def job(self, first: JobResult | None, second: JobResult | None) -> tuple[Difference, Verdict]:
        """Compare the completion times of one job, as far as they are known."""
        completion = self.difference(
            None if first is None else first.completion_seconds,
            None if second is None else second.completion_seconds,
        )
        if first is not None and second is not None and first.succeeded is not second.succeeded:
            # An end in failure is worse than any completion time; a job that still runs shows nothing.
            over = first.finished_at is not None and second.finished_at is not None
            ending = Verdict.HELPED if first.succeeded else Verdict.HURT
            verdict = ending if over else Verdict.NOT_COMPARABLE
        elif completion.percent is None:
            verdict = Verdict.NOT_COMPARABLE
        else:
            verdict = self._verdict(completion)
        if not self.moved and verdict is not Verdict.NOT_COMPARABLE:
            verdict = Verdict.NO_VERDICT
        return completion, verdict

    def _verdict(self, completion: Difference) -> Verdict:
        """Return what a difference says; where the load drifted, what it says with and without the drift."""
        assert completion.percent is not None
        told = _beyond(completion.percent)
        if not self.drifted:
            return told
        normalised = completion.percent_normalised
        return told if normalised is not None and _beyond(normalised) is told else Verdict.NO_VERDICT


def _beyond(percent: float) -> Verdict:
    if abs(percent) <= THRESHOLD_PERCENT:
        return Verdict.UNCHANGED
    return Verdict.HURT if percent > 0 else Verdict.HELPED


def _percent(with_moves: float, without: float) -> float | None:
    return 100 * (with_moves - without) / without if without else None
