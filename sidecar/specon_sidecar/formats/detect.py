"""Which format a log has, found from its first lines, and why."""

import math
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from specon_sidecar.formats.parser import Format, FormatOptions, Parser
from specon_sidecar.formats.sample import Sample
from specon_sidecar.formats.series import Series

# Evidence: so many finite values, at two places of the training or more.
ENOUGH: Final = 3
_PLACES: Final = 2
# Values without any step or epoch, and scores, are weaker evidence: they must be more, or the head of the
# log must be over.
ENOUGH_WITHOUT_PLACE: Final = 10
HEAD: Final = 200
# So many lines without a sample of the winner, or after a weak decision: others may show that they fit
# better.
SILENCE: Final = 2000
# So many lines at most a format is waited for that recognises them and holds its samples back: the first
# epoch of a progress bar.
_LONGEST_WAIT: Final = 20_000
_LIKELIEST: Final = 3
_COUNTED_STEPS: Final = 10_000


class Evidence(msgspec.Struct, frozen=True):
    """What a format found in the lines that it was tried on."""

    format: str
    samples: int
    steps: int
    """Distinct steps, or distinct epochs where it found no steps."""
    first: Sample | None
    last: Sample | None
    share_of_lines: float
    """Samples per line."""


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
        self._candidates = [Candidate(one, options) for one in formats.values()]
        self._winner: Candidate | None = None
        self._lines = 0
        self._silent = 0
        self._until = 0
        self._evidence: tuple[Evidence, ...] = ()

    @property
    def chosen(self) -> str | None:
        """The name of the format, or None as long as it is not decided."""
        return self._winner.format.name if self._winner is not None else None

    @property
    def current(self) -> "Candidate | None":
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
                if self._candidates and self._lines >= self._until:
                    self._candidates = []
                yield sample
                if not self._candidates:
                    return
            else:
                self._silent += 1
                if not self._candidates:
                    if self._silent >= SILENCE:
                        self._reopen()
                    return
        found = False
        for candidate in self._candidates:
            # Nearly all lines end here, for nearly all formats: one look, no call.
            needle = candidate.needle
            if (
                needle is None
                or needle in line
                or (candidate.more and any(map(line.__contains__, candidate.more)))
            ):
                found |= candidate.feed(line, time)
        if (found or self._lines == HEAD) and self._decide(ended=False):
            yield from self._delivery()

    def finish(self) -> list[Sample]:
        """Decide with what there is, for the log has ended; return what was not delivered yet."""
        if self._winner is None:
            self._decide(ended=True)
        elif self._winner.series is not None:
            self._winner.series.forget_place()
        return self._delivery()

    def _reopen(self) -> None:
        self._silent = 0
        self._until = self._lines + SILENCE
        self._candidates = [
            Candidate(one, self._options) for one in self._formats.values() if one.name != self.chosen
        ]

    def _decide(self, *, ended: bool) -> bool:
        head_over = ended or self._lines >= HEAD
        fit = [one for one in self._candidates if one.fits(head_over=head_over, ended=ended)]
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
        return True

    def _must_wait(self, best: "Candidate") -> bool:
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
        if self._winner is None:
            return []
        samples = list(self._winner.samples)
        self._winner.samples.clear()
        return samples


class Candidate:
    """One format, tried on a log."""

    def __init__(self, format_: Format, options: FormatOptions) -> None:
        self.format = format_
        self._named = options.metric is not None
        # A metric that was named may stand on other lines.
        needles = () if self._named else format_.needles
        self.needle = needles[0] if needles else None
        self.more = needles[1:]
        self.parser: Parser = format_.make(options)
        self.series = Series(rewritten=format_.rewritten)
        self.samples: deque[Sample] = deque(maxlen=HEAD)
        self.found = 0
        self._first: Sample | None = None
        self._last: Sample | None = None
        self._finite = 0
        self._places: set[float] = set()
        self._value: float | None = None
        self._varies = False

    @property
    def evidence(self) -> int:
        """How much speaks for this format."""
        return max(self._finite, self.parser.held_back) * self.format.weight

    @property
    def has_places(self) -> bool:
        """Whether it found steps or epochs."""
        return bool(self._places)

    @property
    def ruled_out(self) -> bool:
        """Whether more lines cannot make it fit."""
        return self.parser.choice.verdict is not None

    def parse(self, line: bytes, time: float | None = None) -> Sample | None:
        """Return the sample of a line, if it belongs to the series."""
        sample = self.parser.parse(line)
        if sample is None or not self.series.admit(sample):
            return None
        if time is None or sample.time is not None:
            return sample
        return msgspec.structs.replace(sample, time=time)

    def feed(self, line: bytes, time: float | None = None) -> bool:
        """Keep the sample of a line; return whether there was one."""
        sample = self.parse(line, time)
        if sample is None:
            return False
        last = self._last
        if last is not None and (last.name != sample.name or (last.step is None and sample.step is not None)):
            # A better name or kind of line appeared: what came before is another series.
            self._start_over()
        self._first = self._first or sample
        self._last = sample
        self.found += 1
        self.samples.append(sample)
        if math.isfinite(sample.value):
            self._finite += 1
            self._varies |= self._value is not None and self._value != sample.value
            self._value = sample.value
            place = sample.step if sample.step is not None else sample.epoch
            if place is not None and len(self._places) < _COUNTED_STEPS:
                self._places.add(place)
        return True

    def fits(self, *, head_over: bool, ended: bool) -> bool:
        """Whether the log may be this format's."""
        if self.ruled_out or not self._finite:
            return False
        # At the end of a short log one line of a particular form, or with a named metric, is enough.
        if ended and self._places and (self.format.weight > 1 or self._named):
            return True
        # A source text at the head says `loss = 0` again and again.
        if not self._places and not self._varies:
            return False
        if not self._places and self.format.needs_place:
            return False
        strong = len(self._places) >= _PLACES
        if self.parser.choice.is_score:
            return strong and self._finite >= (ENOUGH if head_over else ENOUGH_WITHOUT_PLACE)
        if self._places:
            return self._finite >= ENOUGH and strong
        return self._finite >= (ENOUGH if head_over else ENOUGH_WITHOUT_PLACE)

    def report(self, lines: int) -> Evidence:
        """Return what was found, out of so many lines."""
        return Evidence(
            self.format.name,
            self.found,
            len(self._places),
            self._first,
            self._last,
            min(1.0, self.found / max(1, lines)),
        )

    def _start_over(self) -> None:
        self.samples.clear()
        self._places.clear()
        self.found = self._finite = 0
        self._first = self._value = None
        self._varies = False
