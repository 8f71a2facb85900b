"""The value that a simulated training prints at a step: exponential decay and noise. Pure."""

import math
import random
from typing import Final

from specon_lab.workloads.workload import LossCurve

_TABLE: Final = 4093  # different noises of a job; prime, so that no stride comes back to the same few
CONVERGED: Final = 0.98
"""The part of the gain of its whole run at which a training counts as converged."""
_STRAIGHT: Final = 1e-9  # the curve of a smaller rate is a straight line, as far as a float can tell
_STEEPEST: Final = 700.0  # exp() of more is too large for a float


def value(curve: LossCurve, progress: float) -> float:
    """Return the value without noise after that part of the training, 0 to 1.

    floor + (first - floor) (1 - (1 - exp(-rate p)) / (1 - exp(-rate))): the exponential form of Fig. 1 of Mao
    et al., "SpeCon: Speculative Container Scheduling for Deep Learning Applications in a Kubernetes Cluster".
    At a rate of 0 it is a straight line.
    """
    rate = curve.rate
    gained = progress if abs(rate) < _STRAIGHT else math.expm1(-rate * progress) / math.expm1(-rate)
    return curve.floor + (curve.first - curve.floor) * (1 - gained)


def converged_part(curve: LossCurve) -> float:
    """Return after which part of the training, 0 to 1, the value has made `CONVERGED` of its whole gain."""
    rate = curve.rate
    return CONVERGED if abs(rate) < _STRAIGHT else -math.log1p(CONVERGED * math.expm1(-rate)) / rate


class Losses:
    """What one training prints, by step: the same for the same seed, no matter when or how often you ask.

    So two policies see the same curve of the same job, and a step that is trained again prints the same.
    """

    def __init__(self, curve: LossCurve, steps: int, seed: str) -> None:
        """Begin a curve of so many steps; raises ValueError naming the field of the curve that is wrong."""
        for name in ("first", "floor", "rate", "noise"):
            if not math.isfinite(getattr(curve, name)):
                raise ValueError(f"curve {name} {getattr(curve, name)} is not finite")
        if curve.rate < -_STEEPEST:
            raise ValueError(f"curve rate {curve.rate} is below {-_STEEPEST:.0f}")
        if curve.noise < 0:
            raise ValueError(f"curve noise {curve.noise} is below 0")
        self._curve = curve
        self._steps = steps
        self._deviation = curve.noise * abs(curve.first - curve.floor)
        self._random = random.Random(seed)  # noqa: S311  (a reproducible simulation, not cryptography)
        self._noise: list[float] = []

    def at(self, step: int) -> float:
        """Return the value printed at that step, 0 to the number of steps."""
        clean = value(self._curve, step / self._steps)
        return clean + self._deviation * self._noise_at(step) if self._deviation else clean

    def _noise_at(self, step: int) -> float:
        place = step % _TABLE
        # Drawn in the order of the steps, whichever is asked for first.
        while len(self._noise) <= place:
            self._noise.append(self._random.gauss(0.0, 1.0))
        return self._noise[place]
