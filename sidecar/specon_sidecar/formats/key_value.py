"""Text lines with `key=value` or `key: value` pairs, the way most training scripts print.

Also Python dictionaries (`{'loss': 2.3, 'epoch': 0.2}`), quoted numbers, thousands separators, several
words as a key (`lm loss: 1.2E+01`) and totals (`step=12/400`). A step or an epoch may also stand without a
sign: `Epoch 3 loss=0.1`.
"""

import re
from functools import lru_cache
from typing import Final

from specon_sidecar.formats import layout
from specon_sidecar.formats.epochs import Epochs
from specon_sidecar.formats.layout import Layout, Layouts, may_have_layout
from specon_sidecar.formats.metric_choice import Candidate, MetricChoice
from specon_sidecar.formats.number import NUMBER, to_float, to_step
from specon_sidecar.formats.parser import FormatOptions
from specon_sidecar.formats.position_keys import STEP_KEYS, Position, position_of
from specon_sidecar.formats.prefixes import PREFIX, PREFIX_EXPRESSION, named_rank, strip, without_terminal
from specon_sidecar.formats.ranks import Ranks
from specon_sidecar.formats.sample import Sample
from specon_sidecar.formats.wall_time import has_stamp

# All repeats are possessive or short, and no word begins within another: the time is linear in the length of
# the line.
_LETTER: Final = rb"\w./%@\x80-\xff-"
_BEGIN: Final = rb"(?<![" + _LETTER + rb"])"
_WORD: Final = rb"[A-Za-z_\x80-\xff][" + _LETTER + rb"]*+"
_PLACE: Final = re.compile(
    rb"(?i:(?<![\w./%@-])((?:train(?:er)?/)?"
    rb"(?:global[ _]steps?|(?:total|max|current)_steps|num_updates"
    rb"|iterations?|iters?|steps?|it|batch|epochs?)))"
    rb"[\"']?\s{0,16}+[:=#]?\s{0,16}+[\[(]?\s{0,16}+[\"']?"
    rb"(\d{1,3}(?:,\d{3})++(?!\d)|\d{1,15}+(?:\.\d{1,15}+)?+)(?![\w%])"
    rb"(?:\s{0,4}+/\s{0,16}+(\d{1,15}+))?+"
)
# `batch 800/34064` counts within an epoch, and beside an epoch `iter 250/3766` does too: no totals of the
# training.
_LAST_GLOBAL: Final = STEP_KEYS["global_step"]
_BATCH: Final = STEP_KEYS["batch"]
# A line that begins with the name of another data set is about that one: `Test set: Average loss: 2.1`.
_OTHER_SET: Final = re.compile(
    rb"\W{0,4}+(?i:(?:epoch\W{0,4}\d{0,6}\W{1,4})?(val|valid|validation|eval|evaluation|test|dev)(?: set)?)"
    rb"\s?[\[:(|\])]"
)
# The same for an epoch of any number of digits.
_OTHER_SET_LATER: Final = re.compile(_OTHER_SET.pattern.replace(rb"\d{0,6}", rb"\d*+"))
PROGRESS: Final = re.compile(rb"%\||\[\s{0,8}+\d{1,15}+/\d{1,15}+\]")
"""What a line within a validation holds, whose value is that of some of its data: `Test: [10/50]`, a bar."""
# Where the number is not bare: `loss: tensor(0.3, grad_fn=...)`.
_IN_CALL: Final = rb"(?:(?:torch\.|np\.|numpy\.|tf\.|jnp\.)?(?:[tT]ensor|float\d\d|[aA]rray)\(\[?)?+"

NAMED: Final = re.compile(
    _BEGIN + rb"(" + _WORD + rb"(?: " + _WORD + rb"){0,3}+)"
    rb"[\"']?\s{0,8}+[:=]\s{0,8}+[\"']?" + _IN_CALL + rb"(" + NUMBER + rb")"
)
"""Pairs with a sign between: `loss=0.5`, `lm loss: 1.2E+01`, `'loss': '2.28'`."""
# `nan` and `inf` are numbers here, no words.
_TEXT: Final = rb"(?!(?i:nan|inf|infinity)(?!\w))" + _WORD
BARE: Final = re.compile(_BEGIN + rb"(" + _TEXT + rb"(?: " + _TEXT + rb"){0,2}+)\s{1,8}+(" + NUMBER + rb")")
"""Pairs without a sign: `Loss 2.92e+00 (2.95e+00)`, `train loss 3.33`."""


class KeyValue:
    """Parser of lines with named numbers."""

    held_back: Final = 0

    def __init__(self, options: FormatOptions) -> None:
        self.choice = MetricChoice(options.metric)
        self._any_set = options.metric is not None
        self._places = Places()
        self._ranks = Ranks()
        self._layouts = Layouts()

    def parse(self, line: bytes) -> Sample | None:
        """Return the sample of this line."""
        known = self._layouts.read(line)
        if known is None:
            return self._parse(line)
        found = known.pairs
        picked = self.choice.pick(found)
        if picked is None:
            self.choice.note(found)
            return None
        if not self._ranks.admit(None):
            return None
        if len(found) > 1:
            self.choice.note(found)
        step, epoch, total, epochs = self._places.through(*known[1:])
        return Sample(picked[0], picked[1], step, epoch, total, None, epochs)

    def _parse(self, line: bytes) -> Sample | None:
        lowered = line.lower()
        if not self.choice.may_count(lowered):
            return None
        found = pairs(self.choice, NAMED, without_terminal(line))
        if not found:
            return None
        text, rank, time = strip(line)
        if not self._any_set and self._is_of_other_set(text, found):
            return None
        picked = self.choice.pick(found)
        if picked is None:
            self.choice.note(found)
            return None
        if rank is None and b"rank" in lowered:
            rank = named_rank(text)
        if not self._ranks.admit(rank):
            return None
        if len(found) > 1:
            self.choice.note(found)
        if rank is None and time is None and self._layouts.wanted and b"rank" not in lowered:
            made = self._layout(line, lowered, len(line) - len(text))
            if made is not None:
                self._layouts.add(made)
        step, epoch, total, epochs = self._places.of(text)
        return Sample(
            name=picked[0],
            value=picked[1],
            step=step,
            epoch=epoch,
            total_steps=total,
            time=time,
            total_epochs=epochs,
        )

    def _is_of_other_set(self, text: bytes, found: list[tuple[Candidate, float]]) -> bool:
        other = other_set(text)
        if other and not PROGRESS.search(text):
            self.choice.note(found, data_set=other)
        return bool(other)

    def _layout(self, line: bytes, lowered: bytes, body: int) -> Layout | None:
        """Return the layout of a line that was read, where lines of the same layout are surely read alike.

        Not where the value of a number, or how many digits it has, may change what the others mean.
        """
        needle = self.choice.needle
        if (
            needle not in lowered
            or any(one in b"0123456789" for one in needle)
            or without_terminal(line) is not line
            or not may_have_layout(line, body)
            or _OTHER_SET_LATER.match(line, body)
            or PREFIX.match(line, body)
            or has_stamp(line[:body])
        ):
            return None
        named = list(NAMED.finditer(line))
        values = [
            (candidate, one.span(2)) for one in named if (candidate := self.choice.named(one[1])) is not None
        ]
        places = _place_spans(line, body)
        if places is None:
            return None
        keys = [one.span(1) for one in named]
        try:
            return Layout(line, body, values, places, literal=keys, unless=PREFIX_EXPRESSION)
        except (ValueError, re.error):  # the metric is the step
            return None


def other_set(text: bytes) -> str:
    """Return the name of the data set that all of a line is about; empty where none begins the line."""
    found = _OTHER_SET.match(text)
    return "" if found is None else found[1].decode().lower()


def pairs(choice: MetricChoice, pair: re.Pattern[bytes], text: bytes) -> list[tuple[Candidate, float]]:
    """Return the pairs of a line that may be the metric or its counterpart, in their order."""
    found: list[tuple[Candidate, float]] = []
    for key, number in pair.findall(text):
        candidate = choice.named(key)
        if candidate is not None:
            value = to_float(number)
            if value is not None:
                found.append((candidate, value))
    return found


class Places:
    """Finds where in the training a line stands, by the names that logs use for that."""

    def __init__(self) -> None:
        self.epochs: Final = Epochs()
        self._before: tuple[float, int] | None = None
        self._step_is_global = False

    def of(self, text: bytes) -> tuple[int | None, float | None, int | None, int | None]:
        """Return step, epoch, total of steps and total of epochs of a line.

        Steps that are counted within an epoch of known length are numbered through.
        """
        return self.through(*_named_places(text))

    def through(  # noqa: PLR0917 - the numbers of a line in the order in which they are found
        self,
        step: int | None,
        step_rank: int,
        of_step: int | None,
        epoch: float | None,
        epochs: int | None,
        total: int | None,
    ) -> tuple[int | None, float | None, int | None, int | None]:
        """Return the same, of the numbers that a line prints."""
        if step is None or of_step is None:
            return step, epoch, total, epochs
        if step_rank <= _LAST_GLOBAL and epochs is not None and epoch is not None:
            if self._is_global(epoch, step):
                return step, epoch, of_step, epochs
        elif step_rank <= _LAST_GLOBAL or (epoch is None and step_rank != _BATCH):
            return step, epoch, of_step, epochs
        if epoch is not None:
            step, total = self.epochs.through(epoch, epochs, step, of_step)
        return step, epoch, total, epochs

    def _is_global(self, epoch: float, step: int) -> bool:
        """Whether `Epoch 3/40, Step 100/600` counts steps of the training.

        Nearly always they are those of the epoch. A step that goes on growing into the next epoch is not.
        """
        before, self._before = self._before, (epoch, step)
        if before is not None and epoch > before[0]:
            self._step_is_global = step > before[1]
        return self._step_is_global


# The pattern above knows a handful of keys, in any mixture of cases.
@lru_cache(maxsize=256)
def _position(key: bytes) -> tuple[Position, int] | None:
    return position_of(key.decode("ascii"))


def _named_places(
    text: bytes,
) -> tuple[int | None, int, int | None, float | None, int | None, int | None]:
    """Return step, the rank of its name, its total, epoch, its total, and the named total of steps."""
    step: int | None = None
    step_rank = 0
    epoch: float | None = None
    epochs: int | None = None
    total: int | None = None
    of_step: int | None = None
    for key, number, of in _PLACE.findall(text):
        position = _position(key)
        if position is None:
            continue
        kind, rank = position
        if kind is Position.STEP:
            counted = to_step(number)
            if counted is not None and (step is None or rank < step_rank):
                step, step_rank = counted, rank
                of_step = to_step(of) if of else None
        elif kind is Position.EPOCH and epoch is None:
            epoch, epochs = to_float(number), to_step(of) if of else None
        elif kind is Position.TOTAL_STEPS:
            total = to_step(number)
    return step, step_rank, of_step, epoch, epochs, total


def _place_spans(line: bytes, body: int) -> layout.Places | None:
    """Return where `_named_places` takes its numbers from; None where that depends on what they are."""
    step: layout.Span | None = None
    of_step: layout.Span | None = None
    epoch: layout.Span | None = None
    epochs: layout.Span | None = None
    total: layout.Span | None = None
    step_rank = 0
    for found in _PLACE.finditer(line[body:]):
        position = _position(found[1])
        if position is None:
            continue
        kind, rank = position
        if kind is not Position.EPOCH and not found[2].isdigit():
            return None  # 12.0 is a step, 12.5 is none
        number = (found.start(2) + body, found.end(2) + body)
        of = None if found[3] is None else (found.start(3) + body, found.end(3) + body)
        if kind is Position.STEP and (step is None or rank < step_rank):
            step, step_rank, of_step = number, rank, of
        elif kind is Position.EPOCH and epoch is None:
            epoch, epochs = number, of
        elif kind is Position.TOTAL_STEPS:
            total = number
    return layout.Places(step, step_rank, of_step, epoch, epochs, total)
