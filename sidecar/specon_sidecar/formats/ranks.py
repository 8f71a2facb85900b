"""Several processes of one job in one log: the lowest rank that reports is followed."""

from typing import Final

# So many samples of other ranks in a row, none of the followed one: it reports no more.
_PATIENCE: Final = 100
_NO_RANK: Final = -1
# So many samples, each of a higher rank than the one before: the script counts (`120: loss 0.5`).
_COUNTED: Final = 32


class Ranks:
    """Says of each sample whether its rank is the followed one.

    Lines without a rank are those of the main process: they come before rank 0. A lower rank takes over
    when it appears; a rank that falls silent is given up for the one that reports. Numbers that only grow are
    a count, until one of them is not larger than the one before.
    """

    def __init__(self) -> None:
        self._followed: int | None = None
        self._others = 0
        self._last = _NO_RANK
        self._rising: int | None = 0
        """How many came in rising order; None: a smaller one has come, so these are ranks."""

    @property
    def counts(self) -> bool:
        """Whether the numbers count samples or steps, and are no ranks."""
        return self._rising is not None and self._rising >= _COUNTED

    def admit(self, rank: int | None) -> bool:
        """Whether a sample of this rank counts."""
        one = _NO_RANK if rank is None else rank
        if rank is not None and self._rising is not None:
            self._rising = self._rising + 1 if rank > self._last else None
            self._last = rank
        followed = self._followed
        if followed is None or one <= followed or self.counts:
            self._followed, self._others = one, 0
            return True
        self._others += 1
        if self._others <= _PATIENCE:
            return False
        self._followed, self._others = one, 0
        return True
