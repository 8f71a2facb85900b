"""How much the durations of jobs differ, within a kind and from kind to kind. Pure.

Logarithms of durations are taken to lie normally around that of their kind, and kinds around one another.
Both spreads are learnt from the known ones, beside a few deviations from elsewhere, so that few durations
promise little (normal distributions with conjugate priors: Gelman and others, Bayesian Data Analysis, 3.3).
"""

import math
from collections.abc import Mapping, Sequence
from typing import Final

from specon_lab.forecasts.chance import Chance

_WITHIN: Final = 1.0
"""Deviation within a kind before any is known: 0.1 on Pollux, 1.4 on Philly, 1.9 on openb."""
_BETWEEN: Final = (2.1, 2.3, 3.3)
"""Deviations of the kinds' middles on Pollux, on openb and on Philly: they count as three kinds."""
_LEAST: Final = 1e-3  # seconds
_LONGEST: Final = 20.0  # times the longest that is known


class Kinds:
    """Where durations of kinds lie."""

    def __init__(self, durations: Mapping[str, Sequence[float]]) -> None:
        """Take the durations that are known of each kind, seconds; one at least."""
        logs = {kind: [math.log(max(_LEAST, each)) for each in known] for kind, known in durations.items()}
        self._known = {kind: len(each) for kind, each in logs.items() if each}
        self._middles = {kind: sum(each) / len(each) for kind, each in logs.items() if each}
        kinds = len(self._middles)
        self._middle = sum(self._middles.values()) / kinds
        squares = sum((one - self._middles[kind]) ** 2 for kind, each in logs.items() for one in each)
        self._freedom = sum(self._known.values()) - kinds + 1.0
        self._within = math.sqrt((squares + _WITHIN**2) / self._freedom)
        apart = sum((each - self._middle) ** 2 for each in self._middles.values())
        apart += sum(each**2 for each in _BETWEEN)
        self._freedom_apart = kinds - 1.0 + len(_BETWEEN)
        self._apart = math.sqrt(apart / self._freedom_apart * (1.0 + 1.0 / kinds))
        self._most = math.log(_LONGEST) + max(max(each) for each in logs.values() if each)

    def draw_unlike(self, kind: str, chance: Chance) -> float:
        """Draw one more duration of a kind, seconds, as if it were unlike those that are known.

        All jobs of an unknown kind are long or short together.
        """
        if kind in self._known:
            middle, spread = self._middles[kind], self._within * math.sqrt(1.0 + 1.0 / self._known[kind])
        else:
            middle = self._middle + self._apart * chance.shared_heavy_tailed(
                f"kind {kind}", self._freedom_apart
            )
            spread = self._within
        drawn = middle + spread * chance.heavy_tailed(chance.rng.gauss(0.0, 1.0), self._freedom)
        return math.exp(min(self._most, max(math.log(_LEAST), drawn)))
