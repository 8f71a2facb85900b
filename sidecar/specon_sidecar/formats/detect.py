"""Which format a log has, found from its first lines, and why."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from specon_sidecar.formats.parser import Format, FormatOptions
from specon_sidecar.formats.sample import Sample
from specon_sidecar.formats.surroundings import Surroundings
from specon_sidecar.formats.tried_format import ENOUGH, ENOUGH_WITHOUT_PLACE, HEAD, Evidence, TriedFormat

__all__ = ["ENOUGH", "ENOUGH_WITHOUT_PLACE", "HEAD", "SILENCE", "Detection", "Evidence", "TriedFormat"]

# So many lines without a sample of the winner, or after a weak decision: others may show that they fit
# better.
SILENCE: Final = 2000
# So many lines at most a format is waited for that recognises them and holds its samples back: the first
# epoch of a progress bar.
_LONGEST_WAIT: Final = 20_000
_LIKELIEST: Final = 3


class Detection:
    """Gives each line to all formats until one of them has shown that the log is its own.

    A format fits with `ENOUGH` finite values at two steps (or epochs) or more; without any, the values must
    be more and not all the same.
    The most evidence wins: samples times the weight of the format; with equal evidence the first in the
    table. A format with more evidence that does not fit yet is waited for until the head is over. All
    samples of the winner since the first line are then delivered; of each format at most the last `HEAD`
    are kept meanwhile.

    A decision can be wrong: the head of a log may hold a source text or a configuration. So the others are
    tried again after `SILENCE` lines without a sample, and go on for so long where the winner has neither
    steps nor epochs.
    """

    def __init__(self, formats: Mapping[str, Format], options: FormatOptions) -> None:
        self._formats = formats
        self._options = options
        self.around: Final = Surroundings()
        self._candidates = [TriedFormat(one, options, self.around) for one in formats.values()]
        self._winner: TriedFormat | None = None
        self._lines = 0
        self._silent = 0
        self._spoke = 0
        self._reopened = False
        self._until = 0
        self._evidence: tuple[Evidence, ...] = ()

    @property
    def chosen(self) -> str | None:
        """The name of the format, or None as long as it is not decided."""
        return self._winner.format.name if self._winner is not None else None

    @property
    def current(self) -> TriedFormat | None:
        """The winner, or before the decision the likeliest that has anything to say."""
        if self._winner is not None:
            return self._winner
        known = [one for one in self._candidates if one.found or one.parser.choice.verdict is not None]
        return max(known, key=lambda one: one.evidence, default=None)

    @property
    def evidence(self) -> tuple[Evidence, ...]:
        """What the likeliest formats found, best first: when it was decided, or up to now."""
        return self._evidence or self._ranking()

    def feed(self, line: bytes, time: float | None = None) -> Iterator[Sample]:
        """Yield the samples of this line, and those of earlier ones where the decision falls now.

        `time` is when the line was written, if its wrapping says so.
        """
        self._lines += 1
        winner = self._winner
        if winner is not None:
            sample = winner.parse(line, time)
            if sample is not None:
                self._silent = 0
                self._spoke = self._lines
                if self._candidates and (self._reopened or self._lines >= self._until):
                    self._candidates = []  # what has just spoken is not replaced
                yield sample
                if not self._candidates:
                    return
            else:
                self.around.take(line)
                self._silent += 1
                if not self._candidates:
                    if self._silent >= SILENCE:
                        self._reopen()
                    return
        else:
            self.around.take(line)
        found = False
        text = line.decode("latin-1")  # looked at several times as fast as bytes
        for candidate in self._candidates:
            # Nearly all lines end here, for nearly all formats: one look, no call.
            needle = candidate.needle
            if (
                needle is None
                or needle in text
                or (candidate.more and any(map(text.__contains__, candidate.more)))
            ):
                found |= candidate.feed(line, time, self._lines)
        if (found or self._lines == HEAD) and self._decide(ended=False):
            yield from self._delivery()

    def read(self, lines: Iterable[bytes]) -> list[Sample]:
        """Return the samples of these lines, as `feed` does of each."""
        samples: list[Sample] = []
        for line in lines:
            winner = self._winner
            if winner is None or self._candidates:
                samples += self.feed(line)
                continue
            # Decided, as nearly always: no generator for each line.
            sample = winner.parse(line)
            self._lines += 1
            if sample is not None:
                self._silent = 0
                self._spoke = self._lines
                samples.append(sample)
                continue
            self.around.take(line)
            self._silent += 1
            if self._silent >= SILENCE:
                self._reopen()
        return samples

    def finish(self) -> list[Sample]:
        """Decide with what there is, for the log has ended; return the samples not delivered yet."""
        rest = [] if self._winner is None else self._winner.rest()
        if self._winner is None:
            for candidate in self._candidates:
                candidate.feed_rest(self._lines)
            self._decide(ended=True)
        else:
            self._winner.series.forget_place()
        return [*self._delivery(), *rest]

    def _reopen(self) -> None:
        self._silent = 0
        self._reopened = True
        self._until = self._lines + SILENCE
        self._candidates = [
            TriedFormat(one, self._options, self.around)
            for one in self._formats.values()
            if one.name != self.chosen
        ]

    def _decide(self, *, ended: bool) -> bool:
        head_over = ended or self._lines >= HEAD
        fit = [one for one in self._candidates if one.found and one.fits(head_over=head_over, ended=ended)]
        if self._winner is not None:
            # A challenger must show what the winner did not: steps or epochs.
            fit = [one for one in fit if one.has_places]
        if not fit:
            return False
        best = max(fit, key=lambda one: one.evidence)  # the first of equal ones
        if not ended and self._winner is None and self._must_wait(best):
            return False
        self._evidence = self._ranking()
        self._winner = best
        weak = not best.has_places
        self._until = self._lines + SILENCE
        self._candidates = [one for one in self._candidates if one is not best] if weak else []
        self._silent = 0
        self._reopened = False
        return True

    def _must_wait(self, best: TriedFormat) -> bool:
        """Whether a more particular format may still show that it fits better."""
        better = [
            one
            for one in self._candidates
            if one.format.weight > best.format.weight and one.evidence >= best.evidence and not one.ruled_out
        ]
        if not better:
            return False
        return self._lines < HEAD or (
            self._lines < _LONGEST_WAIT and any(one.parser.held_back for one in better)
        )

    def _ranking(self) -> tuple[Evidence, ...]:
        known = [one for one in [self._winner, *self._candidates] if one is not None and one.found]
        known.sort(key=lambda one: -one.evidence)
        return tuple(one.report(self._lines) for one in known[:_LIKELIEST])

    def _delivery(self) -> list[Sample]:
        """Return what the winner kept, but of the lines of one before it nothing that counted already."""
        return [] if self._winner is None else self._winner.take_all(after=self._spoke)
