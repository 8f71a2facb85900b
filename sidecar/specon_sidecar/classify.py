"""Interval by interval, is a training job still growing? SpeCon's Algorithm 1 as one transition table.

Pure: the caller closes the intervals and passes the time. `docs/algorithms/specon.md` has each repair with
its reason; `ClassifierSettings.literal` switches all of them off. The other classifier is in `horizon`.
"""

import math
from enum import StrEnum
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta, Struct


class Category(StrEnum):
    """What the loss log says about a job; only `CONVERGED` ever moves one."""

    UNKNOWN = "unknown"  # nothing learnt measurably yet
    PROGRESSING = "progressing"
    WATCHING = "watching"
    CONVERGED = "converged"
    STALLED = "stalled"  # no new sample for too long
    DIVERGING = "diverging"  # NaN, infinite or rising
    NOT_CLASSIFIABLE = "not-classifiable"


class ClassifierSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Parameters of Algorithm 1 and of its repairs, and of the classifier `horizon`."""

    classifier: Literal["specon", "horizon"] = "horizon"
    """`horizon`, which asks how much of all gain is still to come, or Algorithm 1."""
    remaining_gain: Annotated[float, Meta(gt=0, lt=1)] = 0.02
    """Of `horizon`: converged when at most this share of the gain so far is still to come."""
    confidence: Annotated[float, Meta(gt=0, lt=1)] = 0.7
    """Of `horizon`: how sure that has to be."""
    alpha: Annotated[float, Meta(gt=0, lt=1)] = 0.01
    """Categorisation threshold: the gain per interval, relative to `scale`, below which a job is slow."""
    interval: Annotated[float, Meta(gt=0)] = 30.0
    """Categorisation interval t_m - t_(m-1), seconds."""
    scale: Literal["first", "range"] = "first"
    """What a gain is relative to: the first value, or the range of values seen so far."""
    goal: Literal["min", "max"] | None = None
    """Whether less (a loss) or more (an accuracy) is better; None goes by the metric's name, else less is."""
    nonfinite_samples: Annotated[int, Meta(ge=1)] = 3
    """So many NaN or infinite samples in a row mean divergence."""
    rising_share: Annotated[float, Meta(gt=0)] = 0.5
    """A value worse than the best by more than this share of the gain so far is rising."""
    rising_intervals: Annotated[int, Meta(ge=1)] = 3
    """So many rising intervals in a row mean divergence."""
    stalled_intervals: Annotated[float, Meta(gt=1)] = 10.0
    """Silence for so many intervals, and for longer than five times the longest gap seen, is a stall."""
    literal: bool = False
    """Algorithm 1 as printed, whatever `classifier` says: starts in PROGRESSING, last values, absolute gains,
    silence is G = 0."""


class Interval(Struct, frozen=True, kw_only=True):
    """What was observed during one categorisation interval."""

    value: float | None
    """The evaluation function E over the interval; None when no finite sample came."""
    samples: int = 0
    """How many samples came, finite or not."""
    nonfinite_run: int = 0
    """How many of the latest samples in a row were NaN or infinite."""
    silence: float = 0.0
    """Seconds since the last sample; 0 when none was ever seen."""
    longest_gap: float = 0.0
    """The longest time between two samples so far, seconds."""


class Judgement(Struct, frozen=True, kw_only=True):
    """The classifier's whole memory: the category, since when, what the next interval is compared with."""

    category: Category
    since: float
    """When the category was entered, on the caller's clock, seconds."""
    gain: float | None = None
    """G of the last interval that had a sample, relative to the scale (absolute in literal mode)."""
    value: float | None = None
    first: float | None = None
    best: float | None = None
    worst: float | None = None
    idle_intervals: int = 0
    """Intervals without a sample since the last one that had one."""
    rising_run: int = 0
    learnt: bool = False
    """Whether the value ever improved by alpha: a job that never learnt is unknown, not converged."""
    interrupted: Category | None = None
    """The category that a stall interrupted, taken up again when samples return."""
    confidence: float | None = None
    """Of `horizon`: probability that no more than the remaining gain that was set is still to come."""
    share: float | None = None
    """Of `horizon`: expected gain still to come before the job ends, as a share of the gain so far."""
    share_error: float | None = None
    """Of `horizon`: half-width of the uncertainty of `share`."""
    intervals: int = 0
    """Of `horizon`: intervals with enough points to be judged."""
    confirmed: int = 0
    """Of `horizon`: intervals in a row that were confident."""
    verdict_best: float | None = None
    """Of `horizon`: the best smoothed value at the verdict converged, less being better."""
    reason: str = "no interval with a sample yet"


class _Condition(StrEnum):
    FALLING = "gain below alpha and below the previous gain"
    FLAT = "gain below alpha, not below the previous gain"
    GROWING = "gain at or above alpha"


_C = Category
# Algorithm 1, lines 6 to 22, with line 12 read as the prose has it (out of WATCHING, into CONVERGED).
_TRANSITIONS: Final[dict[tuple[Category, _Condition], Category]] = {
    (_C.PROGRESSING, _Condition.FALLING): _C.WATCHING,
    (_C.WATCHING, _Condition.FALLING): _C.CONVERGED,
    (_C.CONVERGED, _Condition.FALLING): _C.CONVERGED,
    (_C.PROGRESSING, _Condition.FLAT): _C.PROGRESSING,
    (_C.WATCHING, _Condition.FLAT): _C.WATCHING,
    (_C.CONVERGED, _Condition.FLAT): _C.CONVERGED,
    (_C.PROGRESSING, _Condition.GROWING): _C.PROGRESSING,
    (_C.WATCHING, _Condition.GROWING): _C.PROGRESSING,
    (_C.CONVERGED, _Condition.GROWING): _C.PROGRESSING,
    # Beside the paper: a job that learnt nothing yet, and one that comes back after it diverged.
    (_C.UNKNOWN, _Condition.FALLING): _C.UNKNOWN,
    (_C.UNKNOWN, _Condition.FLAT): _C.UNKNOWN,
    (_C.UNKNOWN, _Condition.GROWING): _C.UNKNOWN,  # for the worse, else something would be learnt
    (_C.DIVERGING, _Condition.FALLING): _C.PROGRESSING,
    (_C.DIVERGING, _Condition.FLAT): _C.PROGRESSING,
    (_C.DIVERGING, _Condition.GROWING): _C.PROGRESSING,
}


def begin(now: float, settings: ClassifierSettings) -> Judgement:
    """Return the judgement of a job of which nothing is known yet."""
    return Judgement(category=_C.PROGRESSING if settings.literal else _C.UNKNOWN, since=now)


def judge(previous: Judgement, interval: Interval, now: float, settings: ClassifierSettings) -> Judgement:
    """Return the judgement after one more interval (Algorithm 1, once per t_m).

    `now` is the end of the interval on a clock that never goes back, seconds.
    """
    if interval.nonfinite_run >= settings.nonfinite_samples:
        reason = f"{interval.nonfinite_run} samples in a row are not finite"
        return enter(previous, _C.DIVERGING, now, reason=reason, idle_intervals=0, interrupted=None)
    if interval.value is None or not math.isfinite(interval.value):
        return _silent(previous, interval, now, settings)
    return _observed(previous, interval.value, now, settings)


def _silent(previous: Judgement, interval: Interval, now: float, settings: ClassifierSettings) -> Judgement:
    """Apply the rule for an interval without a new value: skipped, and a stall once it lasts too long."""
    if settings.literal and previous.value is not None:
        return _observed(previous, previous.value, now, settings)
    patience = max(settings.stalled_intervals * settings.interval, 5 * interval.longest_gap)
    if interval.silence > patience and previous.category is not _C.STALLED:
        reason = f"no new sample for {interval.silence:.0f} s"
        return enter(previous, _C.STALLED, now, reason=reason, interrupted=previous.category)
    return msgspec.structs.replace(previous, idle_intervals=previous.idle_intervals + 1)


def _observed(previous: Judgement, value: float, now: float, settings: ClassifierSettings) -> Judgement:
    """Apply Algorithm 1, lines 4 to 22, to an interval with a value."""
    if previous.value is None or previous.first is None or previous.best is None or previous.worst is None:
        return enter(
            previous,
            begin(now, settings).category,
            now,
            value=value,
            first=value,
            best=value,
            worst=value,
            idle_intervals=0,
            interrupted=None,
            reason="first value",
        )
    better, worse = (max, min) if settings.goal == "max" else (min, max)
    best, worst = better(previous.best, value), worse(previous.worst, value)
    scale = 1.0 if settings.literal else _scale(previous.first, best, worst, settings)
    # A value that took several intervals to come is spread over them: G is a gain per interval.
    gain = abs(value - previous.value) / scale / (previous.idle_intervals + 1)
    learnt = previous.learnt or abs(best - previous.first) / scale >= settings.alpha
    # Where nothing was learnt there is no gain to lose again: the first value is the measure then.
    gained = abs(best - previous.first) if learnt else abs(previous.first)
    rising = abs(value - best) > settings.rising_share * gained > 0
    known = msgspec.structs.replace(
        previous,
        gain=gain,
        value=value,
        best=best,
        worst=worst,
        idle_intervals=0,
        learnt=learnt,
        rising_run=previous.rising_run + 1 if rising else 0,
        interrupted=None,
    )
    if not settings.literal and known.rising_run >= settings.rising_intervals:
        where = "below" if settings.goal == "max" else "above"
        reason = f"value {value:.4g} is far {where} its best {best:.4g}"
        return enter(known, _C.DIVERGING, now, reason=reason)
    before = previous.interrupted or previous.category
    if not learnt and not settings.literal:
        before = _C.UNKNOWN
    elif before in {_C.UNKNOWN, _C.STALLED, _C.NOT_CLASSIFIABLE}:
        before = _C.PROGRESSING
    condition = _condition(gain, previous.gain, settings.alpha)
    unit = "" if settings.literal else " of its scale"
    return enter(known, _TRANSITIONS[before, condition], now, reason=f"{condition}: {gain:.3g}{unit}")


def _scale(first: float, best: float, worst: float, settings: ClassifierSettings) -> float:
    """Return what gains are relative to; never zero, even where the first value is exactly 0."""
    if settings.scale == "first" and first != 0:
        return abs(first)
    return abs(worst - best) or abs(first) or 1.0


def _condition(gain: float, previous_gain: float | None, alpha: float) -> _Condition:
    if not gain < alpha:
        return _Condition.GROWING
    return (
        _Condition.FALLING
        if gain < (math.inf if previous_gain is None else previous_gain)
        else _Condition.FLAT
    )


def enter(judgement: Judgement, category: Category, now: float, **changes: object) -> Judgement:
    """Return the judgement with its category and other changes; `since` is kept where the category is."""
    since = judgement.since if judgement.category is category else now
    return msgspec.structs.replace(judgement, category=category, since=since, **changes)
