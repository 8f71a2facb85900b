"""Text lines with `key=value` or `key: value` pairs, the way most training scripts print.

Also Python dictionaries (`{'loss': 2.3, 'epoch': 0.2}`), quoted numbers, thousands separators, several
words as a key (`lm loss: 1.2E+01`) and totals (`step=12/400`). A step or an epoch may also stand without a
sign: `Epoch 3 loss=0.1`.
"""

import re
from functools import lru_cache
from typing import Final

from specon_sidecar.formats.epochs import Epochs
from specon_sidecar.formats.metric_choice import Candidate, MetricChoice
from specon_sidecar.formats.number import NUMBER, to_float, to_step
from specon_sidecar.formats.parser import FormatOptions
from specon_sidecar.formats.position_keys import STEP_KEYS, Position, position_of
from specon_sidecar.formats.prefixes import named_rank, strip, without_terminal
from specon_sidecar.formats.ranks import Ranks
from specon_sidecar.sample import Sample

# All repeats are possessive or short: the time is linear in the length of the line.
_WORD: Final = rb"[A-Za-z_\x80-\xff][\w./%@\x80-\xff-]*+"
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
    rb"\W{0,4}+(?i:(?:epoch\W{0,4}\d{0,6}\W{1,4})?(?:val|valid|validation|eval|evaluation|test|dev)(?: set)?)"
    rb"\s?[\[:(|\])]"
)
# Where the number is not bare: `loss: tensor(0.3, grad_fn=...)`.
_IN_CALL: Final = rb"(?:(?:torch\.|np\.|numpy\.|tf\.|jnp\.)?(?:[tT]ensor|float\d\d|[aA]rray)\(\[?)?+"

NAMED: Final = re.compile(
    rb"(?<![\w./%@-])(" + _WORD + rb"(?: " + _WORD + rb"){0,3}+)"
    rb"[\"']?\s{0,8}+[:=]\s{0,8}+[\"']?" + _IN_CALL + rb"(" + NUMBER + rb")"
)
"""Pairs with a sign between: `loss=0.5`, `lm loss: 1.2E+01`, `'loss': '2.28'`."""
# `nan` and `inf` are numbers here, no words.
_TEXT: Final = rb"(?!(?i:nan|inf|infinity)(?!\w))" + _WORD
BARE: Final = re.compile(
    rb"(?<![\w./%@-])(" + _TEXT + rb"(?: " + _TEXT + rb"){0,2}+)\s{1,8}+(" + NUMBER + rb")"
)
"""Pairs without a sign: `Loss 2.92e+00 (2.95e+00)`, `train loss 3.33`."""


class KeyValue:
    """Parser of lines with named numbers."""

    held_back: Final = 0

    def __init__(self, options: FormatOptions) -> None:
        self.choice = MetricChoice(options.metric)
        self._any_set = options.metric is not None
        self._places = Places()
        self._ranks = Ranks()

    def parse(self, line: bytes) -> Sample | None:
        """Return the sample of this line."""
        lowered = line.lower()
        if not self.choice.may_count(lowered):
            return None
        found = pairs(self.choice, NAMED, without_terminal(line))
        if not found:
            return None
        text, rank, time = strip(line)
        if not self._any_set and _OTHER_SET.match(text):
            return None
        picked = self.choice.pick(found)
        if picked is None:
            return None
        if rank is None and b"rank" in lowered:
            rank = named_rank(text)
        if not self._ranks.admit(rank):
            return None
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


def pairs(choice: MetricChoice, pair: re.Pattern[bytes], text: bytes) -> list[tuple[Candidate, float]]:
    """Return the pairs of a line that may be the metric, in their order."""
    found: list[tuple[Candidate, float]] = []
    for key, number in pair.findall(text):
        candidate = choice.candidate(key)
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
        step, step_rank, of_step, epoch, epochs, total = _named_places(text)
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
