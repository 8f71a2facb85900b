"""How long to wait before something that failed is tried again: longer each time, up to a bound."""

import random
from typing import Final

_MOST_DOUBLINGS: Final = 30


class Backoff:
    """The pauses after failures in a row, seconds: each twice as long as the one before."""

    def __init__(self, first: float, longest: float, rng: random.Random | None = None) -> None:
        """With `rng` each is shortened by up to a half, so that those who failed together come back apart."""
        self._first, self._longest, self._rng = first, longest, rng
        self.failures = 0
        """How many there were since the last success."""

    def next(self) -> float:
        """Count one more failure and return how long to wait."""
        pause = min(self._longest, self._first * 2.0 ** min(self.failures, _MOST_DOUBLINGS))
        self.failures += 1
        return pause if self._rng is None else pause * self._rng.uniform(0.5, 1.0)

    def succeed(self) -> None:
        """Begin with the first pause again."""
        self.failures = 0
