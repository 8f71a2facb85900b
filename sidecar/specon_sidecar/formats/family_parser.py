"""Reads lines as a `Family` declares them."""

import re
from typing import Final

import msgspec

from specon_sidecar.formats.bar_beside import BarBeside
from specon_sidecar.formats.family import BLANK, SIGNED, Family
from specon_sidecar.formats.key_value import BARE, NAMED, pairs
from specon_sidecar.formats.laps import Laps
from specon_sidecar.formats.lengths_in_units import describe
from specon_sidecar.formats.metric_choice import MetricChoice
from specon_sidecar.formats.metric_names import is_validation
from specon_sidecar.formats.named_places import read_places
from specon_sidecar.formats.number import to_float, to_step
from specon_sidecar.formats.other_data import PROGRESS, name_of_other_set
from specon_sidecar.formats.parser import FormatOptions, LineParser
from specon_sidecar.formats.places import Places
from specon_sidecar.formats.prefixes import strip
from specon_sidecar.formats.ranks import Ranks
from specon_sidecar.formats.sample import Sample

# An epoch of more steps than this gives its running mean at each tenth too, or more often: after so many
# steps at most.
LONG_EPOCH: Final = 1000
# In each line of validation: `val`, `valid`, `eval`, `Test`.
_VALIDATION_NEEDLES: Final = (b"val", b"Val", b"VAL", b"test", b"Test")
_PLACE_GROUPS: Final = frozenset({"step", "total", "i", "n", "epoch", "epochs"})

_Fields = dict[str, bytes | None]


class FamilyParser(LineParser):
    """Parser of the lines of one family."""

    def __init__(self, family: Family, options: FormatOptions) -> None:
        self.choice = MetricChoice(options.metric, family.metrics, closed=family.only)
        self._family = family
        named = options.metric is not None
        line = f"(?:{family.line})|(?:{family.also})" if family.also and named else family.line
        self._line = _compile(line)
        self._needle = family.needles[0]
        self._more = family.needles[1:]
        # A line of validation need not hold what the others do.
        self._any = bool(family.also) and named
        self._also = _compile(family.also) if family.also and not named else None
        self._pair = {SIGNED: NAMED, BLANK: BARE}.get(family.pair) or _compile(family.pair)
        self._place = _compile(family.place) if family.place else None
        groups = {*self._line.groupindex, *(self._place.groupindex if self._place else ())}
        self._context_needle = family.context[0] if family.context else None
        self._context = _compile(family.context[1]) if family.context else None
        groups |= set(self._context.groupindex if self._context else ())
        self._above = _compile(family.above) if family.above else None
        self._by_name = _PLACE_GROUPS.isdisjoint(groups)
        self._carried: _Fields = {}
        self._skip = False
        self._pending: Sample | None = None
        self._part = 0
        self.held_back = 0
        self._length = 0
        self._over = False
        self._held: Sample | None = None
        self._beside = BarBeside() if family.bar_beside else None
        self._places = Places()
        self._epochs = self._places.epochs
        self._laps = Laps()
        self._ranks = Ranks()

    def parse(self, line: bytes) -> Sample | None:
        """Return the sample of this line."""
        beside = self._beside
        if beside is not None and (b"%|" in line or b"% " in line):
            bar = beside.take(line)
            if bar is not None:
                return self._with_bar(line, beside, *bar)
        sample = None
        if self._any:
            if self.choice.needle in line.lower():
                sample = self._read(line)
        elif line.find(self._needle) >= 0 and all(needle in line for needle in self._more):
            sample = self._read(line)
        if sample is not None:
            return self._hold_back(sample)
        if self._also is not None and any(needle in line for needle in _VALIDATION_NEEDLES):
            self._note(line)
        if self._context_needle is not None and self._context_needle in line:
            return self._take_context(line)
        if self._family.skip_after and self._family.skip_after in line:
            self._skip = True
        return None

    def _read(self, line: bytes) -> Sample | None:
        text, rank, time = strip(line)
        match = self._line.search(text)
        if match is None:
            return None
        if self._skip:
            self._skip = False
            return None
        fields: _Fields = {
            key.removeprefix("eval_"): one for key, one in match.groupdict().items() if one is not None
        }
        picked = self._pick(fields, text, rank)
        if picked is None:
            return None
        if self._place is not None:
            place = self._place.search(text)
            if place is not None:
                fields |= {key: one for key, one in place.groupdict().items() if one is not None}
        if self._family.is_bar and self._is_stale(picked, fields):
            return None
        sample = self._sample(picked, fields, text, time)
        if not self._family.last_of_epoch:
            return sample
        return self._of_epoch(sample, fields, has_bar=b"[" in text or b"\xe2\x94\x81" in text)

    def _pick(self, fields: _Fields, text: bytes, rank: int | None) -> tuple[str, float] | None:
        """Return the metric of a line and its value, if its process counts."""
        value = fields.get("value")
        if value is not None:
            name = fields.get("name")
            candidate = self.choice.candidate(b"loss" if name is None else name)
            number = to_float(value)
            found = [] if candidate is None or number is None else [(candidate, number)]
        else:
            found = pairs(self.choice, self._pair, text)
        picked = self.choice.pick(found) if found else None
        if picked is None:
            self.choice.note(found)
            return None
        if not self._ranks.admit(rank):
            return None
        if len(found) > 1:
            self.choice.note(found)
        return picked

    def _is_stale(self, picked: tuple[str, float], fields: _Fields) -> bool:
        """Whether a bar still shows a value of before: of the validation before, or where it begins again."""
        if is_validation(picked[0]):
            return fields.get("i") != fields.get("n")
        before = self._held
        return before is not None and to_step(fields.get("i")) == 0 and before.value == picked[1]

    def finish(self) -> Sample | None:
        """Return a sample that waited for what comes behind it."""
        held, self._held = self._held or self._pending, None
        self._pending = None
        return held if self._beside is None else self._beside.finish()

    def _hold_back(self, sample: Sample) -> Sample | None:
        """Return a sample, or what waited until it came: a better state of its place may come, or its bar."""
        if self._above is not None and self._above.fullmatch(sample.name.encode()):
            before, self._pending = self._pending, msgspec.structs.replace(sample, step=None)
            return before
        if self._beside is not None:
            self.held_back += 1
            return self._beside.hold(sample)
        if not self._family.is_bar:
            return sample
        held, self._held = self._held, sample
        if held is None or (held.step, held.epoch) == (sample.step, sample.epoch):
            return None
        return held

    def _with_bar(self, line: bytes, beside: BarBeside, i: int, n: int) -> Sample | None:
        """Return the record that a bar places: the one before it, or the one behind it on its line."""
        epochs = beside.epochs(i, n)
        if epochs is not None and self.around is not None:
            self.around.tell_epochs(epochs, f"the bar {i}/{n} behind its epoch")
        before = beside.release(i, n)
        sample = self._read(line) if self._needle in line else None
        if sample is None:
            return before
        self.held_back += 1
        behind = beside.hold_behind(sample, i, n) if i else beside.hold(sample)
        return before if behind is None else behind

    def _note(self, line: bytes) -> None:
        """Keep the counterpart of the metric, where the line is one of validation."""
        assert self._also is not None  # the caller looked
        text = strip(line).text
        if self._also.search(text) and not PROGRESS.search(text):
            self.choice.note(pairs(self.choice, self._pair, text), data_set=name_of_other_set(text))

    def _sample(self, picked: tuple[str, float], fields: _Fields, text: bytes, time: float | None) -> Sample:
        name, value = picked
        if self._by_name:
            step, epoch, total, epochs = self._places.through(*read_places(text))
        else:
            carried = self._carried
            step = to_step(fields.get("step") or carried.get("step"))
            total = to_step(fields.get("total") or carried.get("total"))
            epoch = to_float(fields.get("epoch") or carried.get("epoch"))
            epochs = to_step(fields.get("epochs") or carried.get("epochs"))
            i, n = to_step(fields.get("i")), to_step(fields.get("n"))
            if step is None and i is not None:
                step = i
                if n and epoch is not None and _whole(epoch):
                    step, total = self._epochs.through(epoch, epochs, i, n)
                elif n and self._family.is_bar:
                    stated = None if self.around is None else self.around.epochs
                    step, total = self._laps.through(i, n, stated)
        return Sample(
            name=name,
            value=value,
            step=step,
            epoch=epoch if epoch is not None and 0 <= epoch < float("inf") else None,
            total_steps=total,
            time=time,
            total_epochs=epochs,
        )

    def _of_epoch(self, sample: Sample, fields: _Fields, *, has_bar: bool) -> Sample | None:
        """Let the last running mean of an epoch through, and of a long one some on the way."""
        self.held_back += 1
        if self._over:
            return None  # an evaluation, for no heading came
        i, n = to_step(fields.get("i")), to_step(fields.get("n"))
        if i is None or not n:
            # The length is not known in the first epoch of a generator: its end is the next heading.
            self._pending = sample
            return None
        before, self._pending = self._pending, None
        if before is not None and (i < n or n != self._length or not has_bar):
            self._over = "epoch" in self._carried
            return before
        if i >= n:
            self._part, self._length = 0, n
            self._pending = sample
            return None
        part = i // min(n // 10, LONG_EPOCH) if n > LONG_EPOCH else 0
        if part in (0, self._part):
            return None
        self._part = part
        return sample

    def _take_context(self, line: bytes) -> Sample | None:
        if self._context is None:
            return None
        text = strip(line).text
        match = self._context.search(text)
        if match is None:
            return None
        epochs = to_step(match["epochs"]) if "epochs" in self._context.groupindex else None
        if epochs and self.around is not None:
            self.around.tell_epochs(epochs, describe(b"the line ", text[match.start() :]))
        self._carried |= {key: one for key, one in match.groupdict().items() if one is not None}
        pending, self._pending = self._pending, None
        self._over = False
        if pending is not None and self._above is not None:
            return msgspec.structs.replace(pending, step=to_step(self._carried.get("step")))
        return pending


def _whole(epoch: float) -> bool:
    return 0 <= epoch < 2**31 and epoch == int(epoch)


def _compile(expression: str) -> re.Pattern[bytes]:
    return re.compile(expression.encode())
