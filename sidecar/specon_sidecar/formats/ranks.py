"""Several processes of one job in one log: the lowest rank that reports is followed."""

from typing import Final

# So many samples of other ranks in a row, none of the followed one: it reports no more.
_PATIENCE: Final = 100
_NO_RANK: Final = -1


class Ranks:
    """Says of each sample whether its rank is the followed one.

    Lines without a rank are those of the main process: they come before rank 0. A lower rank takes over
    when it appears; a rank that falls silent is given up for the one that reports.
    """

    def __init__(self) -> None:
        self._followed: int | None = None
        self._others = 0

    def admit(self, rank: int | None) -> bool:
        """Whether a sample of this rank counts."""
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
