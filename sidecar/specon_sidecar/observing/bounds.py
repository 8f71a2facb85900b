"""Values within the bounds that messages have: finite, not negative, of bounded length. Pure."""

import math
from typing import Final

from specon_sidecar.classify import Judgement
from specon_sidecar.classify.curve import Estimate
from specon_sidecar.formats.sample import Sample
from specon_sidecar.wire import Observation

MAX_TEXT: Final = 512
"""Letters of a reason and of a name."""
_MOST: Final = 1e18
_MOST_STEPS: Final = 2**62


def bound_observation(
    seen: tuple[Sample, float] | None, now: float, *, by_epochs: bool = False
) -> Observation | None:
    """Return a sample that was seen at a time; a value that is not finite travels without its number.

    `by_epochs`: its log counts epochs alone, so its epoch is its step.
    """
    if seen is None:
        return None
    sample, at = seen
    step = whole_epoch(sample.epoch) if by_epochs and sample.step is None else sample.step
    name = sample.name[:MAX_TEXT].encode("utf-8", "replace").decode()
    value = sample.value if math.isfinite(sample.value) else None
    return Observation(name=name, value=value, age=max(0.0, now - at), step=bound_step(step))


def whole_epoch(epoch: float | None) -> int | None:
    """Return the epoch as a number that counts, None for a part of one."""
    return int(epoch) if epoch is not None and math.isfinite(epoch) and epoch == int(epoch) else None


def bound_step(step: int | None) -> int | None:
    """Return the step, or None where no message holds it."""
    return step if step is not None and 0 <= step <= _MOST_STEPS else None


def bound_amount(amount: float | None) -> float | None:
    """Return the amount, at most the largest one; None where it is no number."""
    return None if amount is None or math.isnan(amount) else min(amount, _MOST)


def bound_share(judgement: Judgement) -> Estimate | None:
    """Return the gain still to come of a judgement with its uncertainty, where both are finite."""
    if judgement.share is None or judgement.share_error is None:
        return None
    return bound_estimate(Estimate(value=judgement.share, uncertainty=judgement.share_error))


def bound_estimate(estimate: Estimate | None) -> Estimate | None:
    """Return the estimate where both of its numbers are finite."""
    if estimate is None or not (math.isfinite(estimate.value) and math.isfinite(estimate.uncertainty)):
        return None
    return estimate
