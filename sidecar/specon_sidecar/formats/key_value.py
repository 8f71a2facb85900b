"""Text lines with `key=value` or `key: value` pairs, the way most training scripts print.

Also Python dictionaries (`{'loss': 2.3, 'epoch': 0.2}`), quoted numbers, thousands separators, several
words as a key (`lm loss: 1.2E+01`) and totals (`step=12/400`). A step or an epoch may also stand without a
sign: `Epoch 3 loss=0.1`.
"""

import re
from functools import lru_cache
from typing import Final

from specon_sidecar.formats.metric_choice import Candidate, MetricChoice
from specon_sidecar.formats.number import NUMBER, to_float, to_step
from specon_sidecar.formats.parser import FormatOptions
from specon_sidecar.formats.position_keys import STEP_KEYS, Position, position_of
from specon_sidecar.formats.wall_time import leading_stamp
from specon_sidecar.sample import Sample

# All repeats are possessive or short: the time is linear in the length of the line.
_WORD: Final = rb"[A-Za-z_\x80-\xff][\w./%@\x80-\xff-]*+"
_PAIR: Final = re.compile(
    rb"(?<![\w./%@-])(" + _WORD + rb"(?: " + _WORD + rb"){0,3}+)"
    rb"[\"']?\s{0,8}+[:=]\s{0,8}+[\"']?(" + NUMBER + rb")"
)
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
# Colours, and other sequences of terminals.
_TERMINAL: Final = re.compile(rb"\x1b\[[0-?]{0,32}[ -/]{0,8}[@-~]")


class KeyValue:
    """Parser of lines with named numbers."""

    def __init__(self, options: FormatOptions) -> None:
        self._choice = MetricChoice(options.metric)
        self._needle = self._choice.needle

    def parse(self, line: bytes) -> Sample | None:
        """Return the sample of this line."""
        if self._needle not in line.lower():
            return None
        if b"\b" in line:
            # A progress bar that went back over its line: what it wrote last is what counts.
            line = line.rstrip(b"\b").rsplit(b"\b", 1)[-1]
        if b"\x1b" in line:
            line = _TERMINAL.sub(b"", line)
        candidate_of = self._choice.candidate
        found: list[tuple[Candidate, float]] = []
        for key, number in _PAIR.findall(line):
            candidate = candidate_of(key)
            if candidate is not None:
                value = to_float(number)
                if value is not None:
                    found.append((candidate, value))
        picked = self._choice.pick(found) if found else None
        if picked is None:
            return None
        step, epoch, total = _place(line)
        return Sample(
            name=picked[0],
            value=picked[1],
            step=step,
            epoch=epoch,
            total_steps=total,
            time=leading_stamp(line),
        )


# The pattern above knows a handful of keys, in any mixture of cases.
@lru_cache(maxsize=256)
def _position(key: bytes) -> tuple[Position, int] | None:
    return position_of(key.decode("ascii"))


def _place(line: bytes) -> tuple[int | None, float | None, int | None]:
    step: int | None = None
    step_rank = 0
    epoch: float | None = None
    total: int | None = None
    of_step: int | None = None
    for key, number, of in _PLACE.findall(line):
        position = _position(key)
        if position is None:
            continue
        kind, rank = position
        if kind is Position.STEP:
            counted = to_step(number)
            if counted is not None and (step is None or rank < step_rank):
                step, step_rank = counted, rank
                of_step = to_step(of) if of else None
        elif kind is Position.EPOCH:
            epoch = to_float(number) if epoch is None else epoch
        elif kind is Position.TOTAL_STEPS:
            total = to_step(number)
    if of_step is not None and (step_rank <= _LAST_GLOBAL or (epoch is None and step_rank != _BATCH)):
        total = of_step
    return step, epoch, total
