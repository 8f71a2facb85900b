"""How wrong a simulated sidecar is about the remaining time. Pure.

A steady simulated training would tell its pace exactly; recorded runs do not (docs/results/convergence.md).
"""

import math
from typing import Final

from specon_sidecar.classify.curve import Estimate

# Two thirds of the errors at 200 intervals in `benchmarks/convergence` were below 6 % where 2.5 % of the run
# was done, 3 % at 7.5 %, 2 % at 15 % and 1.7 % later; the largest tenth early in a run was larger than a
# lognormal's.
_DEVIATION: Final = 0.017
_EARLY: Final = 0.0015
_EARLIEST: Final = 0.005
_LEAST_SPREAD: Final = 0.04  # what the real estimate claims at least
_WIDTH: Final = 2.0  # half-width in deviations: as often right as the real intervals
_MOST: Final = 1e18  # bound of the wire


def deviation(done: float) -> float:
    """Return the standard deviation of the logarithm of the estimate; `done` is 0 to 1."""
    return math.hypot(_DEVIATION, _EARLY / max(done, _EARLIEST))


def err_by(estimate: Estimate, done: float, deviate: float) -> Estimate:
    """Return the estimate, in seconds, off by so many standard deviations, its uncertainty at least as wide.

    `deviate` is one standard normal number per job: a pace that is misjudged is so for the whole run, though
    ever less.
    """
    spread = deviation(done)
    factor = math.exp(spread * deviate)
    seconds = min(_MOST, estimate.value * factor)
    claimed = seconds * min(1.0, max(_LEAST_SPREAD, _WIDTH * spread))
    return Estimate(value=seconds, uncertainty=min(seconds, max(claimed, estimate.uncertainty * factor)))


def exact_estimate(left: float, rate: float) -> Estimate:
    """Return the time that is left: `left` of the job, 0 to 1, at `rate` of the job per second, above 0."""
    return Estimate(value=min(_MOST, left / rate), uncertainty=0.0)
