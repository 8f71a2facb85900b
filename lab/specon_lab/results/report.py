"""Runs over several seeds condensed policy by policy, and compared with a baseline job by job."""

import math
from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from specon_lab.engine.outcome import Outcome, Stay, UsePoint
from specon_lab.results.figures import FIGURES, figures_of, times_of
from specon_lab.results.statistics import CONFIDENCE, Difference, Interval, change, interval

HURT_MARGIN_PERCENT: Final = 1.0
"""A job whose completion time differs from the baseline's by no more than this is called unchanged."""
MAX_TROUBLES: Final = 20
MAX_REFUSALS: Final = 20


class Trouble(Struct, frozen=True, kw_only=True, gc=False):
    """A job that did not complete, and why."""

    seed: int
    job: str
    state: str
    """`failed`, `unfinished` or `cannot-run`."""
    reason: str


class ReportedRun(Struct, frozen=True, kw_only=True):
    """The kept results of a run: the figures, and of each job no more than what comparisons need."""

    policy: str
    """As it was asked for, with its parameters."""
    seed: int
    figures: Mapping[str, float | None]
    """By the keys of `FIGURES`."""
    completion: "array[float]"
    """Completion time of each job in the order of submission, seconds; not a number where it has none."""
    convergence: "array[float]"
    """Time to convergence of each job, seconds; not a number where it has none."""
    ideal: "array[float]"
    """How long each job takes alone, seconds: the same under every policy."""
    troubles: tuple[Trouble, ...]
    """The first few."""
    refusals: Mapping[str, int]
    use: tuple[UsePoint, ...] = ()
    stays: tuple[Stay, ...] = ()
    seconds: float | None = None
    """How long the computer took; not a figure of the simulation."""


class Verdicts(Struct, frozen=True, kw_only=True):
    """How many jobs of a run finished earlier or later than with the same seed under the baseline."""

    helped: int = 0
    hurt: int = 0
    unchanged: int = 0
    not_comparable: int = 0
    """Completed under neither."""


class Against(Struct, frozen=True, kw_only=True):
    """A policy against the baseline, over the seeds that both ran."""

    seeds: tuple[int, ...]
    changes: Mapping[str, Difference | None]
    """By the keys of `FIGURES`. Times are those of the jobs that completed, or converged, under both."""
    helped: Interval | None
    """Jobs in a run."""
    hurt: Interval | None
    unchanged: Interval | None
    not_comparable: Interval | None
    helped_share: Interval | None
    """Of the jobs of a run that can be compared, 0 to 1."""
    hurt_share: Interval | None


class PolicySummary(Struct, frozen=True, kw_only=True):
    """A policy over its seeds."""

    policy: str
    seeds: tuple[int, ...]
    figures: Mapping[str, Interval | None]
    """By the keys of `FIGURES`; over the runs in which the figure is known."""
    against: Against | None
    """None for the baseline itself, and where there is none."""
    troubles: tuple[Trouble, ...]
    troubles_not_listed: int
    refusals: Mapping[str, int]
    """Refused proposals by reason in all runs, the most frequent reasons."""
    seconds: Interval | None


class Report(Struct, frozen=True, kw_only=True):
    """Every policy, in the order in which they were asked for."""

    policies: tuple[PolicySummary, ...]
    baseline: str | None
    hurt_margin_percent: float
    confidence: float


def condense(outcome: Outcome, policy: str, *, seed: int, seconds: float | None = None) -> ReportedRun:
    """Return the kept results of a run; `policy` and `seed` are what it was asked for with."""
    left = [job for job in outcome.jobs if job.state != "completed"]
    return ReportedRun(
        policy=policy,
        seed=seed,
        figures=figures_of(outcome),
        completion=_times(job.completion_seconds for job in outcome.jobs),
        convergence=_times(job.convergence_seconds for job in outcome.jobs),
        ideal=array("d", (job.ideal_seconds for job in outcome.jobs)),
        troubles=tuple(
            Trouble(seed=seed, job=job.name, state=job.state, reason=job.reason)
            for job in left[:MAX_TROUBLES]
        ),
        refusals=dict(outcome.refusals),
        use=outcome.use,
        stays=outcome.stays,
        seconds=seconds,
    )


def _times(seconds: Iterable[float | None]) -> "array[float]":
    return array("d", (math.nan if each is None else each for each in seconds))


def verdicts(
    run: ReportedRun, baseline: ReportedRun, margin_percent: float = HURT_MARGIN_PERCENT
) -> Verdicts:
    """Compare each job with itself under the baseline; to complete under one of them only is better there.

    Raises ValueError where the two runs are not of the same jobs.
    """
    if run.ideal != baseline.ideal:
        raise ValueError(f"seed {run.seed}: {run.policy} and {baseline.policy} did not run the same jobs")
    counts = Counter(
        _verdict(one, other, margin_percent)
        for one, other in zip(run.completion, baseline.completion, strict=True)
    )
    return Verdicts(**counts)


def _verdict(seconds: float, baseline: float, margin_percent: float) -> str:
    if math.isnan(seconds) or math.isnan(baseline):
        if math.isnan(seconds) and math.isnan(baseline):
            return "not_comparable"
        return "hurt" if math.isnan(seconds) else "helped"
    margin = baseline * margin_percent / 100
    if abs(seconds - baseline) <= margin:
        return "unchanged"
    return "hurt" if seconds > baseline else "helped"


def report_on(
    runs: Iterable[ReportedRun],
    *,
    baseline: str | None = None,
    margin_percent: float = HURT_MARGIN_PERCENT,
    confidence: float = CONFIDENCE,
) -> Report:
    """Condense the runs; policies come in the order of their first runs, seeds in ascending order.

    Raises ValueError where a policy ran twice with one seed, or not the jobs of the baseline, and what
    `statistics.interval` raises.
    """
    by_policy: dict[str, dict[int, ReportedRun]] = {}
    for run in runs:
        seeds = by_policy.setdefault(run.policy, {})
        if run.seed in seeds:
            raise ValueError(f"seed {run.seed}: there are two runs of {run.policy}")
        seeds[run.seed] = run
    reference = by_policy.get(baseline, {}) if baseline is not None else {}
    return Report(
        policies=tuple(
            _summary(
                [of[seed] for seed in sorted(of)],
                reference if policy != baseline else {},
                margin_percent,
                confidence,
            )
            for policy, of in by_policy.items()
        ),
        baseline=baseline,
        hurt_margin_percent=margin_percent,
        confidence=confidence,
    )


def _summary(
    runs: Sequence[ReportedRun],
    reference: Mapping[int, ReportedRun],
    margin_percent: float,
    confidence: float,
) -> PolicySummary:
    pairs = [(run, reference[run.seed]) for run in runs if run.seed in reference]
    troubles = [trouble for run in runs for trouble in run.troubles]
    left = sum(len(run.completion) - int(run.figures["jobs.completed"] or 0) for run in runs)
    refusals: Counter[str] = Counter()
    for run in runs:
        refusals.update(run.refusals)
    frequent = sorted(refusals.items(), key=lambda item: (-item[1], item[0]))[:MAX_REFUSALS]
    return PolicySummary(
        policy=runs[0].policy,
        seeds=tuple(run.seed for run in runs),
        figures={key: interval(_keep_known(run.figures[key] for run in runs), confidence) for key in FIGURES},
        against=_against(pairs, margin_percent, confidence) if pairs else None,
        troubles=tuple(troubles[:MAX_TROUBLES]),
        troubles_not_listed=left - len(troubles[:MAX_TROUBLES]),
        refusals=dict(frequent),
        seconds=interval(_keep_known(run.seconds for run in runs), confidence),
    )


def _against(
    pairs: Sequence[tuple[ReportedRun, ReportedRun]], margin_percent: float, confidence: float
) -> Against:
    judged = [verdicts(run, baseline, margin_percent) for run, baseline in pairs]
    figures = [_in_common(run, baseline) for run, baseline in pairs]
    changes = {}
    for key in FIGURES:
        known = [
            (one, other)
            for one, other in ((ours[key], theirs[key]) for ours, theirs in figures)
            if one is not None and other is not None
        ]
        changes[key] = change([one for one, _ in known], [other for _, other in known], confidence)

    def over_runs(values: Iterable[float | None]) -> Interval | None:
        return interval(_keep_known(values), confidence)

    return Against(
        seeds=tuple(run.seed for run, _ in pairs),
        changes=changes,
        helped=over_runs(float(each.helped) for each in judged),
        hurt=over_runs(float(each.hurt) for each in judged),
        unchanged=over_runs(float(each.unchanged) for each in judged),
        not_comparable=over_runs(float(each.not_comparable) for each in judged),
        helped_share=over_runs(_share(each.helped, each) for each in judged),
        hurt_share=over_runs(_share(each.hurt, each) for each in judged),
    )


def _in_common(
    run: ReportedRun, baseline: ReportedRun
) -> tuple[Mapping[str, float | None], Mapping[str, float | None]]:
    """Return the figures of both, times over the jobs that completed, or converged, in both.

    Else a policy would look faster for each long job that it does not finish.
    """
    ours, theirs = dict(run.figures), dict(baseline.figures)
    for prefix in ("completion", "convergence"):
        both = [
            (one, other)
            for one, other in zip(getattr(run, prefix), getattr(baseline, prefix), strict=True)
            if not math.isnan(one) and not math.isnan(other)
        ]
        ours |= times_of(prefix, (one for one, _ in both))
        theirs |= times_of(prefix, (other for _, other in both))
    return ours, theirs


def _share(count: int, verdict: Verdicts) -> float | None:
    comparable = verdict.helped + verdict.hurt + verdict.unchanged
    return count / comparable if comparable else None


def _keep_known(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None]
