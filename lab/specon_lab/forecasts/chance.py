"""The chance of one possible world: numbers that spread evenly over the worlds of one answer. Pure."""

import math
from statistics import NormalDist
from typing import Final

from specon_lab.workloads.records import seed_random

FEWEST: Final = 19
"""Worlds that an interval of 90 % takes."""
_NORMAL: Final = NormalDist()


class Chance:
    """What one world is drawn with; the same seed and number give the same."""

    def __init__(self, seed: int | str, number: int) -> None:
        """Take the seed of an answer, and which of its worlds is meant."""
        self._seed, self._number = seed, number
        self.rng = seed_random(f"{seed}/{number}")
        self._round, self._turn = f"{seed}/{number // FEWEST}", number % FEWEST
        self._shared: dict[str, float] = {}

    def apart(self, what: str) -> "Chance":
        """Return a chance of its own for that name: draws with it change no other draw."""
        return Chance(f"{self._seed}/{what}", self._number)

    def deviate(self, what: str) -> float:
        """Return a standard normal number for that name.

        Of 19 worlds each takes another of the twentieths 1 to 19, in an order of its own for each name: so
        where one thing alone decides, the extremes are its 5 and its 95 %, and no luck makes them narrower.
        """
        places = list(range(1, FEWEST + 1))
        seed_random(f"{self._round}/{what}").shuffle(places)
        return _NORMAL.inv_cdf(places[self._turn] / (FEWEST + 1))

    def heavy_tailed(self, deviate: float, freedom: float) -> float:
        """Return what a standard normal number becomes by Student's distribution of so much freedom."""
        return deviate / math.sqrt(self.rng.gammavariate(freedom / 2.0, 2.0 / freedom))

    def shared_heavy_tailed(self, what: str, freedom: float) -> float:
        """Return such a number that is the same for all in this world that ask for that name."""
        if what not in self._shared:
            self._shared[what] = self.heavy_tailed(self.deviate(what), freedom)
        return self._shared[what]
