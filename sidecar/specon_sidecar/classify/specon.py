"""Interval by interval, is a training job still growing? SpeCon's Algorithm 1 as one transition table.

Pure: the caller closes the intervals and passes the time. `docs/results/specon.md` has each repair with
its reason; `ClassifierSettings.literal` switches all of them off. The other classifier is in `horizon`.
"""

import math
from enum import StrEnum
from typing import Final

import msgspec

from specon_sidecar.classify.judgement import Category, ClassifierSettings, Interval, Judgement, begin, enter
from specon_sidecar.counts import format_count


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


def judge(previous: Judgement, interval: Interval, now: float, settings: ClassifierSettings) -> Judgement:
    """Return the judgement after one more interval (Algorithm 1, once per t_m).

    `now` is the end of the interval on a clock that never goes back, seconds.
    """
    if interval.nonfinite_run >= settings.nonfinite_samples:
        reason = f"{format_count(interval.nonfinite_run, 'sample is', 'samples in a row are')} not finite"
        return enter(previous, _C.DIVERGING, now, reason=reason, idle_intervals=0, interrupted=None)
    if interval.value is None or not math.isfinite(interval.value):
        return _judge_silence(previous, interval, now, settings)
    return _judge_value(previous, interval.value, now, settings)


def _judge_silence(
    previous: Judgement, interval: Interval, now: float, settings: ClassifierSettings
) -> Judgement:
    """Apply the rule for an interval without a new value: skipped, and a stall once it lasts too long."""
    if settings.literal and previous.value is not None:
        return _judge_value(previous, previous.value, now, settings)
    patience = max(settings.stalled_intervals * settings.interval, 5 * interval.longest_gap)
    if interval.silence > patience and previous.category is not _C.STALLED:
        reason = f"no new sample for {interval.silence:.0f} s"
        return enter(previous, _C.STALLED, now, reason=reason, interrupted=previous.category)
    return msgspec.structs.replace(previous, idle_intervals=previous.idle_intervals + 1)


def _judge_value(previous: Judgement, value: float, now: float, settings: ClassifierSettings) -> Judgement:
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
