"""Where a line names its place, and what it says: `Epoch 3/40`, `step=12`, `[Train 10/1882]`."""

import re
from functools import lru_cache
from typing import Final

from specon_sidecar.formats import layout
from specon_sidecar.formats.counters import counter_of
from specon_sidecar.formats.number import to_float, to_step
from specon_sidecar.formats.position_keys import EPISODE, STEP_KEYS, Position, position_of

# All repeats are possessive or short: the time is linear in the length of the line.
_PLACE: Final = re.compile(
    rb"(?i:(?<![\w./%@-])((?:train(?:er)?/)?"
    rb"(?:global[ _]?steps?|(?:total|max|current)_steps|(?:num_|total_)?timesteps?"
    rb"|n(?:um)?_?updates|updates?|global_episode|n_iter"
    rb"|(?:(?:cur(?:rent)?|outer)_)?+(?:iterations?|iters?|steps?)|train_(?:step|iter)|it|i(?=[=:]\s?\d{1,15}/\d)|batch"
    rb"|(?:(?:cur(?:rent)?|global|train|outer|meta)[_-])?+epoc(?:hs?|he|a)"
    rb"(?:[ _](?:num|number|no\.?|idx|out|n\.|n\xc2[\xba\xb0]|\xe2\x84\x96))?"
    rb"|ep|episodes?(?:[ _](?:num|number))?|generation|round|total[ _]t(?=:))"
    rb"|(?<=\[)train(?=\s\d{1,15}/\d{1,15}\])))"
    # `Step... (100 | Loss: 2.1` is of the Flax examples, `epoch_3` and `Epoch-003` of many
    # and `[Epoch] 100` of some
    rb"(?:[\"']|\](?=\s{1,4}\d))?(?:\.{3})?+(?:[_-](?=\d)|\s{0,16}+[:=#]?\s{0,16}+)[\[(]?\s{0,16}+[\"']?"
    # `Batch [0-240]`: those since the line before
    rb"(?:(?<=\[)\d{1,9}+-(?=\d{1,9}+\]))?+"
    rb"(\d{1,3}(?:,\d{3})++(?!\d)|\d{1,15}+(?:\.\d{1,20}+)?+[kKM]?+)(?![\w%])"
    rb"(?:\]?\s{0,4}+(?:/|of\s)\s{0,16}+\[?"
    rb"(\d{1,3}(?:,\d{3})++(?!\d)|\d{1,15}+(?:\.\d{1,15}+)?+[kKM]?+))?+"
    # `Epoch 3 [100/600]` and `Epoch 3 | 100/600 |`: the batch stands behind the epoch, without a name
    rb"(?:[\])]?+[ ,]{0,2}+[\[(|-]\s{0,8}+(\d{1,15}+)\s?+/\s{0,8}+(\d{1,15}+)\s?+[\])|-])?+"
)
# The step before it is that of the training: `step 20/60000 (epoch 1/100)`.
_BEHIND: Final = re.compile(rb"\((?i:epoch)\s?\d")
# `[3/20], [10/288], global_step: 586`: the epoch stands at the head, without a name.
_GLOBAL: Final = b"global_step"
_BATCH: Final = STEP_KEYS["batch"]
_ITERATION: Final = STEP_KEYS["iteration"]
# `[500/50000] loss 0.1 | batch 16` and `Episode 3 | steps 200` have their place elsewhere on the line.
_LENGTHS: Final = (b"batch", b"steps")
_NUMBERED: Final = re.compile(r"(?i:[ _](?:num|number|no\.?|idx|out|n\.|n[\xba\xb0]|\N{NUMERO SIGN}))\Z")


# The pattern above knows a handful of keys, in any mixture of cases.
@lru_cache(maxsize=256)
def _position(key: bytes) -> tuple[Position, int] | None:
    if key.lower() == b"train":  # `[Train 10/1882]`
        return Position.STEP, STEP_KEYS["it"]
    return position_of(_NUMBERED.sub("", key.decode("utf-8", "replace")))


def read_places(
    text: bytes,
) -> tuple[int | None, int, int | None, float | None, int | None, int | None]:
    """Return step, the rank of its name, its total, epoch, its total, and the named total of steps."""
    step: int | None = None
    step_rank = 0
    epoch: float | None = None
    epochs: int | None = None
    total: int | None = None
    of_step: int | None = None
    named = b""
    for key, number, of, batch, of_batch in _PLACE.findall(text):
        position = _position(key)
        if position is None:
            continue
        kind, rank = position
        if batch and kind is Position.EPOCH and step is None:
            step, step_rank, of_step = to_step(batch), _BATCH, to_step(of_batch)
        if kind is Position.STEP:
            counted = to_step(number)
            if counted is not None and (step is None or rank < step_rank):
                step, step_rank, named = counted, rank, key
                of_step = to_step(of) if of else None
        elif kind is Position.EPOCH and epoch is None:
            epoch, epochs = to_float(number), to_step(of) if of else None
        elif kind is Position.TOTAL_STEPS:
            total = to_step(number)
    if epoch is None:
        epoch, epochs = _epoch_without_name(text, named, is_counted=of_step is not None and step_rank == 0)
    epochs = None if of_step is not None and _BEHIND.search(text) else epochs
    if of_step is None and named:
        step, step_rank, of_step = _place_beside(step, step_rank, named, text)
    return step, step_rank, of_step, epoch, epochs, total


def _begins_with_number(text: bytes) -> bool:
    """Whether a counter may stand at the head of a line: ` 1200/50000: episode: 12, reward: 9.0`."""
    return text[:16].lstrip()[:1].isdigit()


def _may_name_no_epoch(line: bytes, body: int, *, is_counted: bool) -> bool:
    """Whether an epoch may stand on a line under another name, or without any."""
    return (is_counted and b"teration" in line) or (
        line.find(b"[", body, body + 8) >= 0 and _GLOBAL in line.lower()
    )


def _epoch_without_name(text: bytes, named: bytes, *, is_counted: bool) -> tuple[float | None, int | None]:
    """Return the epoch, and how many: `[3/20], [9/288], global_step: 585`, `iteration:3 step:0/29`."""
    if is_counted and b"teration" in text:
        return _iteration_around(text), None
    counted = counter_of(text) if named.lower() == _GLOBAL and b"[" in text[:8] else None
    if counted is None or counted.epoch is None:
        return None, None
    return float(counted.epoch), counted.epochs or None


def _iteration_around(text: bytes) -> float | None:
    """Return the iteration whose steps are counted, as an epoch: `iteration:101 step:0/29`."""
    for key, number, of, _, _ in _PLACE.findall(text):
        if not of and _position(key) == (Position.STEP, _ITERATION):
            return to_float(number)
    return None


def _place_beside(
    step: int | None, step_rank: int, named: bytes, text: bytes
) -> tuple[int | None, int, int | None]:
    """Return the step and its total where what was found may be a length, or an episode behind its steps."""
    of_step: int | None = None
    if named.lower() in _LENGTHS:
        step, step_rank, of_step = _place_beside_length(step, step_rank, text)
    if of_step is None and step_rank == EPISODE and _begins_with_number(text):
        counted = counter_of(text)
        if counted is not None and counted.n and counted.epoch is None:
            return counted.i, STEP_KEYS["step"], counted.n
    return step, step_rank, of_step


def _place_beside_length(step: int | None, step_rank: int, text: bytes) -> tuple[int | None, int, int | None]:
    """Return the step and its total: those of the episode, or none where a counter at the head says it."""
    for key, number, of, _, _ in _PLACE.findall(text):
        if _position(key) == (Position.STEP, EPISODE):
            return to_step(number), EPISODE, to_step(of) if of else None
    counted = counter_of(text)
    return (step, step_rank, None) if counted is None or counted.weak else (None, 0, None)


def _may_be_length(line: bytes, body: int) -> bool:
    """Whether one of the places may say how long an episode or how large a batch is, or stand at the head."""
    return (b"pisode" in line and _begins_with_number(line[body : body + 16])) or any(
        found[1].lower() in _LENGTHS for found in _PLACE.finditer(line[body:])
    )


def _span(found: re.Match[bytes], group: int, body: int) -> layout.Span:
    return found.start(group) + body, found.end(group) + body


def place_spans(line: bytes, body: int) -> layout.PlaceSpans | None:
    """Return where `read_places` takes its numbers from; None where that depends on what they are."""
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
        if (kind is not Position.EPOCH and not found[2].isdigit()) or not (found[3] or b"0").isdigit():
            return None  # 12.0 is a step, 12.5 is none
        if found[4] is not None and kind is Position.EPOCH and step is None:
            step, step_rank, of_step = _span(found, 4, body), _BATCH, _span(found, 5, body)
        number = _span(found, 2, body)
        of = None if found[3] is None else _span(found, 3, body)
        if kind is Position.STEP and (step is None or rank < step_rank):
            step, step_rank, of_step = number, rank, of
        elif kind is Position.EPOCH and epoch is None:
            epoch, epochs = number, of
        elif kind is Position.TOTAL_STEPS:
            total = number
    if epoch is None and _may_name_no_epoch(line, body, is_counted=of_step is not None and step_rank == 0):
        return None
    if (of_step is None and _may_be_length(line, body)) or _BEHIND.search(line, body):
        return None
    return layout.PlaceSpans(step, step_rank, of_step, epoch, epochs, total)
