"""Several processes of one job in one log: the lowest rank that reports is followed."""

from typing import Final

# So many samples of other ranks in a row, none of the followed one: it reports no more.
_PATIENCE: Final = 100
_NO_RANK: Final = -1
# A script that counts (`120: loss 0.5`) prints its numbers at even distances, again and again; ranks print as
# they come, and begin again with the lowest. Neighbours must be so many more than those of even distances.
_EVEN: Final = 32
_EVEN_NEIGHBOURS: Final = 1000


class Ranks:
    """Says of each sample whether its rank is the followed one.

    Lines without a rank are those of the main process: they come before rank 0. A lower rank takes over
    when it appears; a rank that falls silent is given up for the one that reports.
    """

    def __init__(self) -> None:
        self._followed: int | None = None
        self._others = 0
        self._last = _NO_RANK
        self._distance = 0
        self._even = 0

    @property
    def counts(self) -> bool:
        """Whether the numbers were seen to count steps, and are no ranks."""
        return self._even >= (_EVEN if self._distance > 1 else _EVEN_NEIGHBOURS)

    def admit(self, rank: int | None) -> bool:
        """Whether a sample of this rank counts."""
        if rank is not None and not self.counts:
            distance, self._last = rank - self._last, rank
            self._even = self._even + 1 if distance == self._distance > 0 else 0
            self._distance = distance
        if self.counts:
            return True
        one = _NO_RANK if rank is None else rank
        followed = self._followed
        if followed is None or one <= followed:
            self._followed, self._others = one, 0
            return True
        self._others += 1
        if self._others <= _PATIENCE:
            return False
        self._followed, self._others = one, 0
        return True
