"""A bar that begins again each epoch -> steps of the whole training."""

from typing import Final

_LARGEST: Final = 2**53


class Laps:
    """Numbers the states of a bar through.

    As long as the bar never began again its end is that of the training. After that nobody knows how often
    it will begin, unless the log says how many epochs there are and the bar is always as long.
    """

    def __init__(self) -> None:
        self._last: tuple[int, int] | None = None
        self._done = 0
        self._again = False
        self._stays = True

    def through(self, i: int, n: int, epochs: int | None = None) -> tuple[int | None, int | None]:
        """Return the step, and the total where the bar counts the whole training, or its epochs are known."""
        last, self._last = self._last, (i, n)
        if last is not None and (i < last[0] or n != last[1]):
            self._again = True
            self._stays &= n == last[1]
            self._done += last[1] if i < last[0] else 0
        step = self._done + i
        if not self._again:
            return step if step < _LARGEST else None, n
        total = n * epochs if epochs and self._stays else 0
        return step if step < _LARGEST else None, total if step <= total < _LARGEST else None
