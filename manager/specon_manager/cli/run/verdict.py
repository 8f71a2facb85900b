"""What can be said of the difference between two runs: by their times, of a machine that nobody else used."""

from collections.abc import Iterable
from enum import StrEnum
from statistics import fmean
from typing import Final

from msgspec import Struct

from specon_manager.cli.run.result import JobResult, RunResult

THRESHOLD_PERCENT: Final = 2.0
"""A job whose completion time differs by no more than this is called unchanged."""
DRIFT: Final = 0.05
"""A load of others that differs by more than this part of the machine makes two runs hard to compare."""
_BUSY: Final = 0.25
"""What others took cost the run something only where no more than this part of the machine was idle."""

Span = tuple[float, float]
"""From and to, seconds since the begin of a run."""


class Verdict(StrEnum):
    """What the policy did to a job; one that failed in only one of the runs was hurt or helped as well."""

    HELPED = "helped"
    HURT = "hurt"
    UNCHANGED = "unchanged"
    NO_VERDICT = "no verdict"  # nothing was done, or the difference may be that of the machine's load
    NOT_COMPARABLE = "not comparable"  # not in both runs, not over in both, or a failure in both


class Difference(Struct, frozen=True, kw_only=True):
    """One time in both runs, in seconds; negative differences mean that it was shorter in the first."""

    first: float | None
    second: float | None
    seconds: float | None
    """None where one of the two is not known."""
    percent: float | None
    """Of the second; None where that is not known or 0."""


class Judge:
    """Knows what can be said of a difference, given what else the machine did."""

    def __init__(self, first: RunResult, second: RunResult) -> None:
        """Look at whether anything was done, and at the load during both runs."""
        self._first, self._second = first, second
        self.acted = first.acted or second.acted
        loads = [run.load for run in (first, second)]
        shares = [None if load is None else load.others_share for load in loads]
        idle = [None if load is None else load.idle_share for load in loads]
        self.drifted = None not in shares and abs((shares[0] or 0) - (shares[1] or 0)) > DRIFT
        self.normalised = all(load is not None and load.left for load in loads) and all(
            each is not None and each <= _BUSY for each in idle
        )
        """Whether times are seconds of a machine that others left alone; else they are by the clock."""

    def seconds(self, run: RunResult, span: Span) -> float:
        """Return how long a part of a run took."""
        begin, end = span
        if not self.normalised or run.load is None:
            return end - begin
        return run.load.left_until(end) - run.load.left_until(begin)

    def difference(self, first: Iterable[Span], second: Iterable[Span]) -> Difference:
        """Return how much the means differ of times in both runs."""
        times = [
            [self.seconds(run, span) for span in spans]
            for run, spans in ((self._first, first), (self._second, second))
        ]
        one, other = (fmean(each) if each else None for each in times)
        known = one is not None and other is not None
        return Difference(
            first=one,
            second=other,
            seconds=one - other if one is not None and other is not None else None,
            percent=100 * (one - other) / other if known and one is not None and other else None,
        )

    def job(self, first: JobResult | None, second: JobResult | None) -> tuple[Difference, Verdict]:
        """Compare the completion times of one job, as far as they are known."""
        completion = self.difference(completion_of(first), completion_of(second))
        if first is not None and second is not None and first.succeeded is not second.succeeded:
            # An end in failure is worse than any completion time; a job that still runs shows nothing.
            over = first.finished_at is not None and second.finished_at is not None
            ending = Verdict.HELPED if first.succeeded else Verdict.HURT
            verdict = ending if over else Verdict.NOT_COMPARABLE
        elif completion.percent is None:
            verdict = Verdict.NOT_COMPARABLE
        elif self.drifted and not self.normalised:
            verdict = Verdict.NO_VERDICT
        else:
            verdict = _beyond(completion.percent)
        if not self.acted and verdict is not Verdict.NOT_COMPARABLE:
            verdict = Verdict.NO_VERDICT
        return completion, verdict


def completion_of(job: JobResult | None) -> list[Span]:
    """Return from when to when a job took its completion time; nothing where it has none."""
    if job is None or job.completion_seconds is None:
        return []
    return [(job.submitted_at, job.submitted_at + job.completion_seconds)]


def gain_of(job: JobResult | None) -> list[Span]:
    """Return from when to when a job took to 98 % of its gain; nothing where that is not known."""
    if job is None or job.gain_seconds is None:
        return []
    return [(job.submitted_at, job.submitted_at + job.gain_seconds)]


def _beyond(percent: float) -> Verdict:
    if abs(percent) <= THRESHOLD_PERCENT:
        return Verdict.UNCHANGED
    return Verdict.HURT if percent > 0 else Verdict.HELPED
