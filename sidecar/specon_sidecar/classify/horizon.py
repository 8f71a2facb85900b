"""The classifier `horizon`, which asks how much of all gain is still to come before the job ends.

Pure. The whole curve is looked at again at the end of each interval: windows are parts of the history, gains
are shares of the gain so far, so that neither the unit of the metric nor the pace of the log matters.
`docs/results/convergence.md` has the reasons, and what it is worth.
"""

import math
from collections.abc import Sequence
from itertools import accumulate
from typing import Final

import msgspec
from msgspec import Struct

from specon_sidecar.classify.judgement import Category, ClassifierSettings, Interval, Judgement, enter
from specon_sidecar.classify.smoothing import block_medians, median_error, noise, running_medians
from specon_sidecar.classify.specon import judge
from specon_sidecar.counts import format_count

_MEDIANS: Final = 128  # the history is looked at in so many medians: 0.1 ms instead of 1 ms
_LEAST_POINTS: Final = 12  # fewer say nothing about an end
_FIRST_POINTS: Final = 8  # a last one among them may fall by far more than all later ones
_DWARFS: Final = 10.0  # times that much
_SMOOTHED: Final = 20  # the smoothing window is this part of the history
_LEARNT: Final = 5.0  # in standard errors of a smoothed value: less gain than this is chance
_LONGEST_LOOK: Final = 0.5  # part of the history that is looked back on
_OPEN_END: Final = (
    1.5  # where no total is known: so much longer, in lengths of the history, the job is taken to run
)
_SLOWING: Final = 0.6  # gain of a stretch, relative to the one of the same length before it
# Chosen on the tuning runs: the ratio of the gain to the expected one is lognormal about this median.
_CAME: Final = 0.44
_SPREAD: Final = 0.8
_FAR: Final = 0.15  # more uncertainty for each doubling of the stretch ahead beyond the one looked back on
_LIKELY: Final = 0.4  # a job with less confidence than this gains for longer (chosen on the tuning runs)...
_SOONEST: Final = 1.0  # ...at least so many lengths of the history
_STEADY: Final = 0.999  # gains of two stretches are never taken to fade by less than this factor...
_FADED: Final = 1e-3  # ...or by more than this one
_FLOOR: Final = 0.005  # shares below are not told apart
_MOST: Final = 1e300  # values at the end of what numbers can hold promise no more than this
_CONFIRMED: Final = 2  # confident intervals in a row that make a verdict, at least
_CONFIRMED_PART: Final = 0.04  # of the intervals so far; a moment of luck is longer where intervals are short
_WORSE_ERRORS: Final = 2.0  # so many standard errors worse than the best is worse
_REOPEN: Final = 1.5  # a gain of so many times the remaining gain withdraws the verdict
_REOPEN_ERRORS: Final = 4.0  # and at least so many standard errors
NO_TOTAL: Final = "no total of steps or epochs was understood, so nobody knows how much is left"
"""The words for a curve whose end is not known."""
_C = Category


class Outlook(Struct, frozen=True, kw_only=True):
    """What a curve promises; values in the unit of the metric with less being better."""

    first: float
    """The first smoothed value."""
    best: float
    """The best smoothed value."""
    last: float
    """The last smoothed value."""
    error: float
    """Standard error of a smoothed value."""
    learnt: bool
    """Whether the gain is more than chance."""
    share: float
    """Expected gain still to come, as a share of the gain so far; infinite where nothing is learnt."""
    spread: float
    """Standard deviation of the logarithm of the share."""
    until_converged: float | None = None
    """Part of the stretch ahead, 0 to 1, after which only the limit is still to come; None: unknown."""

    @property
    def gain(self) -> float:
        """From the first smoothed value to the best one."""
        return self.first - self.best

    @property
    def share_error(self) -> float:
        """Half-width of the uncertainty of `share`: one standard deviation upwards."""
        return (self.share + _FLOOR) * math.expm1(self.spread)

    def confidence(self, limit: float) -> float:
        """Return the probability that at most `limit`, a share of the gain so far, is still to come."""
        if math.isinf(self.share):
            return 0.0
        return _within(limit, self.share, self.spread)


def surest(limit: float) -> float:
    """Return the highest confidence that any curve can reach for a limit, a share of the gain so far.

    A curve without any gain ahead has it, at the end of its job: an expected value is never as certain as a
    measured one.
    """
    return _within(limit, 0.0, _SPREAD)


def unreachable(remaining_gain: float | None, confidence: float | None) -> str:
    """Return why no job could ever converge with these settings, None being the default; "" where one can."""
    known = ClassifierSettings()
    remaining_gain = known.remaining_gain if remaining_gain is None else remaining_gain
    confidence = known.confidence if confidence is None else confidence
    highest = surest(remaining_gain)
    if confidence <= highest:
        return ""
    asked = f"{confidence:g} is never reached with a remaining gain of {remaining_gain:g}"
    return f"{asked}, {highest:.3g} at most: no job would ever converge"


def outlook(values: Sequence[float], done: float | None, limit: float = 0.02) -> Outlook | None:
    """Return what the values of the whole run so far promise; None while they are too few.

    Less is better. `done` is the part of the run that is done, 0 to 1, or None where no total is known.
    `limit` is the share of the whole run's gain below which the remaining gain is a trifle.
    """
    values = _after_first_values(values)
    if len(values) < _LEAST_POINTS:
        return None
    medians = block_medians(values, _MEDIANS)
    window = max(3, len(medians) // _SMOOTHED) | 1
    smooth = running_medians(medians, window)
    best = list(accumulate(smooth, min))
    gain = best[0] - best[-1]
    error = median_error(noise(medians[-max(10, len(medians) // 3) :]), window)
    share, spread, until = math.inf, _SPREAD, None
    learnt = _LEARNT * error < gain < math.inf
    if learnt:
        ahead = _OPEN_END if done is None else (1 - done) / max(done, 1e-9)
        expected = _SLOWING * _gain_ahead(best, ahead) / gain + error / gain
        share = min(max(0.0, _CAME * (expected + _FLOOR) - _FLOOR), _MOST)
        spread += _FAR * max(0.0, math.log2(max(ahead, 1e-9) / _LONGEST_LOOK))
        until = None if done is None else _until_converged(best, ahead, limit)
        if until is not None and ahead > 0 and _within(limit, share, spread) < _LIKELY:
            until = min(1.0, max(until, _SOONEST / ahead))
    return Outlook(
        first=best[0],
        best=best[-1],
        last=smooth[-1],
        error=error,
        learnt=learnt,
        share=share,
        spread=spread,
        until_converged=until,
    )


def _within(limit: float, share: float, spread: float) -> float:
    """Return the probability that no more than `limit` comes where `share` is expected."""
    distance = math.log((limit + _FLOOR) / (share + _FLOOR)) / spread
    return (1 + math.erf(distance / math.sqrt(2))) / 2


def _after_first_values(values: Sequence[float]) -> Sequence[float]:
    """Leave out the first values where they dwarf the rest: 415, then 6 falling to 3."""
    for start in range(min(_FIRST_POINTS, len(values) // 2), 0, -1):
        rest = values[start] - min(values[start:])
        if values[start - 1] - values[start] > _DWARFS * rest:
            return values[start:]
    return values


def _gain_ahead(best: Sequence[float], ahead: float) -> float:
    """Return what the stretch ahead (in lengths of the history) gains, if it does as the last one as long."""
    longest = _LONGEST_LOOK * len(best)
    back = min(len(best) - 1, max(1, round(min(ahead * len(best), longest))))
    return (best[-1 - back] - best[-1]) * ahead * len(best) / back


def _until_converged(best: Sequence[float], ahead: float, limit: float) -> float:
    """Return the part of the stretch ahead after which at most `limit` of all gain is still to come, 0 to 1.

    The gain of two neighbouring stretches of the history, each a quarter of it, says how fast gains fade: by
    the factor q from one to the next. The gain still to come t stretches on is then A (q^t - q^n), with n
    stretches ahead and A = g q / (1 - q), g being the gain of the last one.
    """
    back = max(1, len(best) // 4)
    last, before = best[-1 - back] - best[-1], best[-1 - 2 * back] - best[-1 - back]
    stretches = ahead * len(best) / back
    if stretches <= 0 or last <= 0:
        return 0.0
    fading = min(_STEADY, max(_FADED, last / before if before > 0 else _STEADY))
    whole = last * fading / (1 - fading)
    if whole <= 0:
        return 0.0  # too little for numbers to hold
    end = fading**stretches
    allowed = limit * (best[0] - best[-1] + whole * (1 - end))
    there = math.log(end + allowed / whole) / math.log(fading)
    return min(1.0, max(0.0, there / stretches))


def judge_by_horizon(
    previous: Judgement,
    interval: Interval,
    values: Sequence[float],
    done: float | None,
    *,
    now: float,
    settings: ClassifierSettings,
) -> Judgement:
    """Return the judgement after one more interval; `values` and `done` are those of `Curve`.

    `now` is the end of the interval on a clock that never goes back, seconds.
    """
    # Measurements, silence and samples that are not finite are treated as in Algorithm 1.
    known = judge(previous, interval, now, settings)
    if interval.value is None or interval.nonfinite_run >= settings.nonfinite_samples:
        return known
    known = msgspec.structs.replace(known, category=previous.category, since=previous.since)
    signed = [-value for value in values] if settings.goal == "max" else values
    view = outlook(signed, done, settings.remaining_gain)
    if view is None:
        return enter(known, _C.UNKNOWN, now, reason=f"only {format_count(len(values), 'point')} yet")
    found = _judge_outlook(known, previous.rising_run, view, now, settings)
    if done is None and found.category in {_C.PROGRESSING, _C.WATCHING}:
        return msgspec.structs.replace(found, reason=f"{found.reason}; {NO_TOTAL}")
    return found


def _judge_outlook(
    known: Judgement, rising_run: int, view: Outlook, now: float, settings: ClassifierSettings
) -> Judgement:
    lost = view.last - view.best
    # Where nothing was learnt there is no gain to lose again: the first value is the measure then.
    measure = view.gain if view.learnt else abs(view.first)
    rising = lost > max(settings.rising_share * measure, _LEARNT * view.error)
    # Of a curve that is worse than it was nobody knows the remaining gain.
    worse = lost > max(settings.remaining_gain * view.gain, _WORSE_ERRORS * view.error)
    confidence = view.confidence(settings.remaining_gain)
    known = msgspec.structs.replace(
        known,
        rising_run=rising_run + 1 if rising else 0,
        confidence=confidence,
        intervals=known.intervals + 1,
        share=view.share if view.learnt else None,
        share_error=view.share_error if view.learnt else None,
        until_converged=view.until_converged,
        confirmed=known.confirmed + 1
        if confidence >= settings.confidence and not rising and not worse
        else 0,
    )
    if known.rising_run >= settings.rising_intervals:
        reason = f"worse than its best by {lost:.3g}, more than {settings.rising_share:.0%} of its gain"
        return enter(known, _C.DIVERGING, now, reason=reason, verdict_best=None)
    if not view.learnt:
        reason = f"gain {view.gain:.3g} so far, noise {view.error:.3g}"
        return enter(known, _C.UNKNOWN, now, reason=reason, verdict_best=None)
    to_come = f"{_part(view.share)} still to come, {confidence:.0%} confident that it has converged"
    if known.verdict_best is not None:
        news = known.verdict_best - view.best
        least = max(_REOPEN * settings.remaining_gain * view.gain, _REOPEN_ERRORS * view.error)
        if abs(news) <= least:
            return enter(known, _C.CONVERGED, now, reason=to_come)
        reason = f"gained {_part(news / view.gain)} since it had converged"
        if news < 0:  # it was put back to a checkpoint from before
            reason = f"went back to before it had converged; {to_come}"
        return enter(known, _C.PROGRESSING, now, reason=reason, verdict_best=None, confirmed=0)
    if known.confirmed >= max(_CONFIRMED, _CONFIRMED_PART * known.intervals):
        return enter(known, _C.CONVERGED, now, reason=to_come, verdict_best=view.best)
    near = view.confidence(2 * settings.remaining_gain) >= settings.confidence
    if worse:
        to_come = f"worse than its best by {lost:.3g}; {to_come}"
    return enter(known, _C.WATCHING if near else _C.PROGRESSING, now, reason=to_come)


def _part(share: float) -> str:
    """Return a share of the gain so far in words; beyond all of it a figure would say no more."""
    return f"{share:.2%} of its gain" if share <= 1 else "more than all of its gain so far"
