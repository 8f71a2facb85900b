"""One format, tried on a log: its samples, their places, and what speaks for it."""

import math
from collections import deque
from typing import Final

import msgspec

from specon_sidecar.formats.bar_at_head import find_bar
from specon_sidecar.formats.counters import Counted, Counters, EpochBar, counter_beside, counter_of, placed
from specon_sidecar.formats.parser import Format, FormatOptions, Parser
from specon_sidecar.formats.sample import Sample
from specon_sidecar.formats.series import Series
from specon_sidecar.formats.surroundings import Surroundings

# Evidence: so many finite values, at two places of the training or more.
ENOUGH: Final = 3
_PLACES: Final = 2
# Values without any step or epoch, and scores, are weaker evidence: they must be more, or the head of the
# log must be over.
ENOUGH_WITHOUT_PLACE: Final = 10
HEAD: Final = 200
"""How many lines the head of a log has, and how many samples are kept until it is decided."""
# So many more than twice the records that chance makes show that values rise.
_RECORDS: Final = 4
# A step that falls weighs as much as so many that rise, where a table may be one of anything.
_FALLS: Final = 1.5
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


class TriedFormat:
    """One format, tried on a log."""

    def __init__(self, format_: Format, options: FormatOptions, around: Surroundings) -> None:
        self.format = format_
        self._named = options.metric is not None
        self.parser: Parser = format_.make(options)
        # A metric that was named may stand on other lines.
        self._asleep = not format_.needles and bool(self.parser.woken_by)
        sought = format_.needles or self.parser.woken_by
        needles = () if self._named else tuple(one.decode("latin-1") for one in sought)
        self.needle = needles[0] if needles else None
        self.more = needles[1:]
        self.parser.around = around
        self.series = Series(rewritten=format_.rewritten)
        self._around = around
        self._line: bytes = b""
        self._evaluations = 0
        self._bars, self._own, self._batches = Counters(), Counters(), Counters()
        self._epoch_bar: EpochBar | None = EpochBar()
        self._step_bar: EpochBar | None = EpochBar()
        self.samples: deque[tuple[int, Sample]] = deque(maxlen=HEAD)
        """The last samples, each with the number of its line."""
        self.found = 0
        self._first: Sample | None = None
        self._last: Sample | None = None
        self._finite = 0
        self._places: set[float] = set()
        self._value: float | None = None
        self._varies = False
        self._best = -math.inf
        self._records = 0
        self._place: float | None = None
        self._climbs = 0.0

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
        if sample is None:
            return None
        return self._admit(sample, line, time)

    def rest(self) -> list[Sample]:
        """Return the sample that the parser still holds, for the log has ended."""
        sample = self.parser.finish()
        sample = None if sample is None else self._admit(sample, b"", None)
        return [] if sample is None else [sample]

    def _admit(self, sample: Sample, line: bytes, time: float | None) -> Sample | None:
        around = self._around
        if around.known:
            sample = around.complete(sample, line)
        elif sample.step is not None and sample.total_steps is not None:
            around.see_step(sample.step)
        if sample.step is None:
            sample = self._count_step(sample, line)
            if self._own.aside or self._batches.aside:
                self._own.aside = self._batches.aside = False
                return None
            again = line == self._line
            self._line = line
        else:
            again = False
            if self._step_bar is not None and sample.total_steps is None and sample.epoch is None:
                self._learn_steps(sample.step, line)
        evaluated, self._evaluations = around.evaluations != self._evaluations, around.evaluations
        if evaluated and self.series.is_at(sample):
            return None
        if not self.series.admit(sample, again=again, stands_in=self.parser.choice.stands_in):
            return None
        if time is None or sample.time is not None:
            return sample
        return msgspec.structs.replace(sample, time=time)

    def _learn_steps(self, step: int, line: bytes) -> None:
        """Learn how many steps there are from a bar that goes with them, on the same line or beside it."""
        around = self._around
        found = find_bar(line) if b"%|" in line else None
        bar = around.bar if found is None or found.counts != "training" else found.bar
        count = None if bar is None or self._step_bar is None else self._step_bar.epochs(step, bar)
        if count is not None:
            around.tell_steps(count, f"the bar of {count} that goes with the steps")
            self._step_bar = None

    def _count_step(self, sample: Sample, line: bytes) -> Sample:
        """Return a sample without a step with what a counter says: of its own line, or the bar beside."""
        around = self._around
        if sample.epoch is not None:
            if sample.total_epochs is None and around.bar is not None and self._epoch_bar is not None:
                epochs = self._epoch_bar.epochs(sample.epoch, around.bar)
                if epochs is not None:
                    around.tell_epochs(epochs, f"the bar of {epochs} that goes with the epochs")
                    self._epoch_bar = None
            batch = counter_beside(sample, line)
            return sample if batch is None else self._batches.complete(sample, batch)
        own = counter_of(line)
        if own is not None and not (own.weak and self._may_be_list(sample)):
            return self._own.complete(sample, own)
        if b"%|" in line or b"% " in line:
            around.take(line)
        return sample if around.bar is None else self._bars.complete(sample, around.bar)

    def _may_be_list(self, sample: Sample) -> bool:
        """Whether numbered lines are as likely those of a list: scores and errors of several models."""
        return self.parser.choice.is_score and "cost" not in sample.name.casefold()

    def feed(self, line: bytes, time: float | None = None, number: int = 0) -> bool:
        """Keep the sample of a line; return whether there was one."""
        sample = self.parse(line, time)
        if self._asleep and self.parser.is_awake:
            self._asleep, self.needle, self.more = False, None, ()
        if sample is None:
            return False
        for doubted in self.series.take_doubted():
            self._keep(doubted, number)
        self._keep(sample, number)
        return True

    def feed_rest(self, number: int) -> None:
        """Keep the sample that the parser still holds, for the log has ended."""
        for sample in self.rest():
            self._keep(sample, number)

    def take_all(self, *, after: int = 0) -> list[Sample]:
        """Return the samples of the lines after this one, and keep none."""
        samples = [sample for number, sample in self.samples if number > after or not after]
        self.samples.clear()
        return samples

    def _keep(self, sample: Sample, number: int) -> None:
        last = self._last
        begun = next((one for one in (self._bars, self._own, self._batches) if one.begun), None)
        if last is not None and last.name == sample.name and begun is not None:
            self._place_earlier(begun.before())
        elif last is not None and (
            last.name != sample.name
            or (last.step is None and sample.step is not None)
            or (last.step is not None and sample.step is None and self.series.stands_still)
        ):
            # A better name or kind of line appeared: what came before is another series.
            self._start_over()
        self._first = self._first or sample
        self._last = sample
        self.found += 1
        self.samples.append((number, sample))
        if math.isfinite(sample.value):
            self._finite += 1
            self._varies |= self._value is not None and self._value != sample.value
            self._value = sample.value
            if sample.value > self._best:
                self._best = sample.value
                self._records += 1
            place = sample.step if sample.step is not None else sample.epoch
            if place is not None and len(self._places) < _COUNTED_STEPS:
                self._places.add(place)
                if self._place is not None and place != self._place:
                    self._climbs += 1 if place > self._place else -_FALLS
                self._place = place

    @property
    def _rises(self) -> bool:
        """Whether the values were the best so far much oftener than values in no order would be.

        That is the logarithm of their number: of 30 values four, and twelve are asked for.
        """
        return self._records > 2 * math.log(max(1, self._finite)) + _RECORDS

    def fits(self, *, head_over: bool, ended: bool) -> bool:
        """Whether the log may be this format's."""
        if self.ruled_out or not self._finite:
            return False
        # At the end of a short log one line of a particular form, or with a named metric, is enough.
        if ended and self._places and (self.format.weight > 1 or self._named):
            return True
        # A source text at the head says `loss = 0` again and again.
        if len(self._places) < _PLACES and not self._varies:
            return False
        if self._places and self.format.needs_place and self._climbs < 0:
            return False  # the steps of a table of anything go up and down
        if not self._places and self.format.needs_place:
            return self._finite >= ENOUGH_WITHOUT_PLACE
        if self.parser.choice.is_bare_reward and not self._places and not (self._named or self._rises):
            return False  # as scores
        strong = len(self._places) >= _PLACES
        if self.parser.choice.is_score:
            if not self._places:
                # Errors without a place are as often those of folds or of a service that runs, and scores
                # are those of finished models, unless they rise.
                known = self._named or (not self.parser.choice.is_error and self._rises)
                return known and head_over and self._finite >= ENOUGH_WITHOUT_PLACE
            return strong and self._finite >= (ENOUGH if head_over else ENOUGH_WITHOUT_PLACE)
        if self._places and (strong or (self._last is not None and self._last.step is not None)):
            return self._finite >= (_PLACES if ended and self.format.needs_place else ENOUGH) and strong
        return self._finite >= (ENOUGH if head_over else ENOUGH_WITHOUT_PLACE)

    def report(self, lines: int) -> Evidence:
        """Return the findings, out of so many lines."""
        return Evidence(
            self.format.name,
            self.found,
            len(self._places),
            self._first,
            self._last,
            min(1.0, self.found / max(1, lines)),
        )

    def _place_earlier(self, counted: list[Counted]) -> None:
        """Place the samples before the counter was found to count the training."""
        if len(counted) >= len(self.samples):
            of_kept = counted[len(counted) - len(self.samples) :]
            kept = [
                (number, placed(sample, one))
                for (number, sample), one in zip(self.samples, of_kept, strict=True)
            ]
            self.samples = deque(kept, maxlen=HEAD)
            self._places.update(float(one.i) for one in counted)

    def _start_over(self) -> None:
        self.samples.clear()
        self._places.clear()
        self.found = self._finite = 0
        self._first = self._value = None
        self._varies = False
        self._best, self._records = -math.inf, 0
