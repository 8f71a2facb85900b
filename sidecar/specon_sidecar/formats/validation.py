"""The series of validation beside the followed metric: `val_loss` beside `loss`."""

from collections import deque
from typing import Final

from specon_sidecar.formats.name_words import words
from specon_sidecar.formats.sample import Sample

Place = tuple[float | None, int | None]
"""Epoch and step, as far as the line with the value tells them."""

# So many values are kept until they are asked for; then the oldest go.
_KEPT: Final = 4096
_TEST: Final = frozenset({"test", "testing"})


class ValidationSeries:
    """Keeps the values of one name: of several the first one, but validation before test.

    Left out are a value that is the same as the one before (a bar repeats it until the next validation), and
    one that is not beyond the furthest place, where places are given: rewritten files repeat them.
    """

    def __init__(self) -> None:
        self._values: deque[Sample] = deque(maxlen=_KEPT)
        self._begin(None)

    def _begin(self, name: str | None) -> None:
        self._values.clear()
        self._name = name
        self._is_test = name is not None and _is_test(name)
        self._last: float | None = None
        self._furthest: tuple[float, float] | None = None

    def forget(self) -> None:
        """Begin again, for another metric is followed."""
        self._begin(None)

    def take(self, found: dict[str, float], place: Place = (None, None)) -> None:
        """Take the values of one line, by name."""
        name = self._name
        if name not in found or (self._is_test and len(found) > 1):
            best = min(found, key=_is_test)
            if name is None or _is_test(best) < self._is_test:
                self._begin(best)
            elif name not in found:
                return
            name = self._name
        assert name is not None  # begun above, if not before
        value, (epoch, step) = found[name], place
        if epoch is not None or step is not None:
            at = (-1.0 if epoch is None else epoch, -1.0 if step is None else step)
            if self._furthest is not None and at <= self._furthest:
                return
            self._furthest = at
        if value != self._last:
            self._last = value
            self._values.append(Sample(name, value, step, epoch))

    def drain(self) -> list[Sample]:
        """Return the values since the last call, oldest first."""
        values = list(self._values)
        self._values.clear()
        return values


def _is_test(name: str) -> bool:
    return not _TEST.isdisjoint(words(name))
