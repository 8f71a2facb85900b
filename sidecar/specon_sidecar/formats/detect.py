"""Which format a log has, found from its first lines."""

import math
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Final

from specon_sidecar.formats.parser import Parser
from specon_sidecar.sample import Sample

# Evidence: so many finite values, at two places of the training or more.
ENOUGH: Final = 3
_PLACES: Final = 2
# Values without any step or epoch are weaker evidence: they must be more, or the head of the log must be
# over.
ENOUGH_WITHOUT_PLACE: Final = 10
HEAD: Final = 200


class Detection:
    """Gives each line to all candidates until one of them has shown that the log is its own.

    Decided as soon as a candidate has `ENOUGH` finite values at two steps (or epochs) or more. Most samples
    win; with equal numbers the first in the table. All samples of the winner since the first line are then
    delivered; of each candidate at most the last `HEAD` are kept meanwhile.
    """

    def __init__(self, candidates: Mapping[str, Parser]) -> None:
        self._candidates = [_Candidate(name, parser) for name, parser in candidates.items()]
        self._winner: _Candidate | None = None
        self._lines = 0

    @property
    def chosen(self) -> str | None:
        """The name of the format, or None as long as it is not decided."""
        return self._winner.name if self._winner is not None else None

    def read(self, lines: Iterable[bytes]) -> list[Sample]:
        """Return the samples of these lines, and those of earlier ones where the decision falls now."""
        lines = iter(lines)
        samples: list[Sample] = []
        if self._winner is None:
            for line in lines:
                self._lines += 1
                for candidate in self._candidates:
                    candidate.feed(line)
                if self._decide(ended=False):
                    break
            samples = self._delivery()
        if self._winner is not None:
            parse = self._winner.parser.parse
            samples += [sample for line in lines if (sample := parse(line)) is not None]
        return samples

    def finish(self) -> list[Sample]:
        """Decide with what there is, for the log has ended; return what was not delivered yet."""
        if self._winner is None:
            self._decide(ended=True)
        return self._delivery()

    def _decide(self, *, ended: bool) -> bool:
        fit = [one for one in self._candidates if one.fits(head_over=ended or self._lines >= HEAD)]
        if not fit:
            return False
        self._winner = max(fit, key=lambda one: one.finite)  # the first of equal ones
        self._candidates = []
        return True

    def _delivery(self) -> list[Sample]:
        if self._winner is None:
            return []
        samples = list(self._winner.samples)
        self._winner.samples.clear()
        return samples


class _Candidate:
    def __init__(self, name: str, parser: Parser) -> None:
        self.name = name
        self.parser = parser
        self.samples: deque[Sample] = deque(maxlen=HEAD)
        self.finite = 0
        self._places: set[float] = set()

    def feed(self, line: bytes) -> None:
        sample = self.parser.parse(line)
        if sample is None:
            return
        self.samples.append(sample)
        if not math.isfinite(sample.value):
            return
        self.finite += 1
        place = sample.step if sample.step is not None else sample.epoch
        if place is not None and len(self._places) < _PLACES:
            self._places.add(place)

    def fits(self, *, head_over: bool) -> bool:
        if self._places:
            return self.finite >= ENOUGH and len(self._places) >= _PLACES
        return self.finite >= (ENOUGH if head_over else ENOUGH_WITHOUT_PLACE)
