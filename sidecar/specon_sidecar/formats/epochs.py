"""Steps that start again in each epoch -> steps of the whole training."""

from typing import Final

_LARGEST: Final = 2**53


class Epochs:
    """Numbers the steps of a log through, over its epochs.

    The global step is `(epoch - first) * n + i` for step i of the n of an epoch, where `first` is 0 for logs
    that have shown an epoch 0, else 1.
    """

    def __init__(self) -> None:
        self._first = 1

    def see(self, epoch: float) -> None:
        """Take note of an epoch whose steps are not numbered through."""
        self._first = min(self._first, int(epoch))

    def through(self, epoch: float, epochs: int | None, i: int, n: int) -> tuple[int | None, int | None]:
        """Return the global step, and the total where the number of epochs is known."""
        whole = int(epoch)
        self._first = min(self._first, whole)
        step = (whole - self._first) * n + i
        # `29/29` of epochs that begin at 0 is the thirtieth.
        total = max(epochs, whole - self._first + 1) * n if epochs else None
        return (
            step if step < _LARGEST else None,
            total if total is not None and total < _LARGEST else None,
        )
