"""The knowledge of a job after each interval: the records of all classifiers, and their settings. Pure."""

from enum import StrEnum
from typing import Annotated, Literal

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


ASSUMED = "assumed: nothing says so; --goal does"
"""What says that less is better, where neither the owner nor the metric's name does."""


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
    """The observations of one categorisation interval."""

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
    until_converged: float | None = None
    """Of `horizon`: part of the rest of the run after which next to nothing of the gain is still to come."""
    intervals: int = 0
    """Of `horizon`: intervals with enough points to be judged."""
    confirmed: int = 0
    """Of `horizon`: intervals in a row that were confident."""
    verdict_best: float | None = None
    """Of `horizon`: the best smoothed value at the verdict converged, less being better."""
    reason: str = "no interval with a sample yet"


def begin(now: float, settings: ClassifierSettings) -> Judgement:
    """Return the judgement of a job before its first interval."""
    return Judgement(category=Category.PROGRESSING if settings.literal else Category.UNKNOWN, since=now)


def enter(judgement: Judgement, category: Category, now: float, **changes: object) -> Judgement:
    """Return the judgement with its category and other changes; `since` is kept where the category is."""
    since = judgement.since if judgement.category is category else now
    return msgspec.structs.replace(judgement, category=category, since=since, **changes)
