"""A bare `total` that is the sum of other numbers of its line: the loss, where these may be parts of a loss.

`Total: 2.27 | Recon: 1.59 | KL: 0.68`. The name alone may be that of anything: a time, memory, a count. The
sum says what it consists of, and words that speak of something else rule it out.
"""

import re
from collections import deque
from collections.abc import Sequence
from itertools import islice
from typing import Final

from specon_sidecar.formats.metric_names import TOTAL_OF_PARTS
from specon_sidecar.formats.number import NUMBER, to_float

SUMMED: Final = frozenset({TOTAL_OF_PARTS, "total_loss"})
"""Names that a total gets: the second one below a heading `losses`."""
_TOTAL: Final = re.compile(rb"(?<![\w./-])(?i:total)(?=[\"']?\s{0,4}+[:=]?\s{0,4}+" + NUMBER + rb")")
# A part, with or without a sign: `rec=1.59`, `seg 1.6183`. A fraction each: counts and seeds have none.
_PART: Final = re.compile(
    rb"(?<![\w./-])([A-Za-z_][\w/-]{0,40}+)[\"']?\s{0,4}+[:=]?\s{0,4}+(\d{1,12}+\.\d{2,20}+(?:[eE][+-]?\d{1,3})?+)"
    rb"(?![\w%])"
)
# `losses:` is a heading, `box_loss` is read by its name.
_NAMED_LOSS: Final = re.compile(rb"(?i:loss)(?!(?i:es)\b)")
_HEADING: Final = re.compile(rb"(?i:losses)\b")
_WORD: Final = re.compile(rb"[a-z]+")
# What else a total may be: a time, memory, a reward.
_SOMETHING_ELSE: Final = frozenset(
    {
        *(
            b"time",
            b"times",
            b"timing",
            b"took",
            b"sec",
            b"secs",
            b"seconds",
            b"ms",
            b"data",
            b"load",
            b"fetch",
        ),
        *(b"forward", b"backward", b"fwd", b"bwd", b"comm", b"compute", b"elapsed", b"wait", b"gemm"),
        *(
            b"mem",
            b"memory",
            b"gb",
            b"mb",
            b"mib",
            b"gib",
            b"used",
            b"free",
            b"alloc",
            b"allocated",
            b"reserved",
        ),
        *(
            b"cached",
            b"activations",
            b"size",
            b"count",
            b"params",
            b"tokens",
            b"episode",
            b"episodes",
            b"reward",
        ),
        *(b"rewards", b"return", b"returns", b"score", b"alive", b"survive", b"bonus", b"ctrl", b"health"),
    }
)
_NO_PARTS: Final = frozenset(
    {
        *(
            b"step",
            b"iter",
            b"epoch",
            b"optim",
            b"optimizer",
            b"gpu",
            b"cpu",
            b"acc",
            b"accuracy",
            b"weights",
        ),
        *(b"train", b"eval", b"val", b"valid", b"test"),
    }
)
# Nothing but the place before it, and nothing behind: `[epoch: 3/200, iter: 25/640] total: 1.0132`.
_PLACE_ALONE: Final = re.compile(
    rb"(?i:epoch)\W{1,4}+\d{1,9}+(?:/\d{1,9}+)?+\W{1,4}+(?i:iters?|iteration|steps?|batch)\W{1,4}+\d{1,12}+"
    rb"(?:/\d{1,12}+)?+\W{1,6}+\Z"
)
# A part beside its weight: `IN=1.574e-01 (w=1.353)`.
_WEIGHED: Final = re.compile(
    rb"=\s{0,4}+(\d{1,12}+\.\d{2,20}+(?:[eE][+-]?\d{1,3})?+)(?:\s\[[^\[\]]{0,120}+\])?+\s{0,4}+"
    rb"\((?:w|weight|lambda)=(\d{1,12}+(?:\.\d{1,20}+)?+(?:[eE][+-]?\d{1,3})?+)\)"
)
_MOST_PARTS: Final = 8
_FEWEST_PARTS: Final = 2
_TOLERANCE: Final = 1e-3
"""Of the sum: each part is rounded."""
_ROUNDED: Final = 1e-2
"""Of a sum of products: the weights are rounded, too."""


def name_summed_total(line: bytes) -> bytes:
    """Return the line with another name for a `total` that is the sum of the parts beside it.

    Or one that stands alone behind an epoch and a step, or is the sum of parts times the weights beside them:
    then it is what the training minimises.
    """
    found = _TOTAL.search(line) if b"otal" in line or b"OTAL" in line else None
    if found is None or _NAMED_LOSS.search(line):
        return line
    whole = _PART.match(line, found.start())
    if whole is not None and _is_weighed_sum(whole[2], _WEIGHED.findall(line, whole.end())):
        return line[: found.start()] + TOTAL_OF_PARTS.encode("ascii") + line[found.end() :]
    if whole is None or not _SOMETHING_ELSE.isdisjoint(_WORD.findall(line.lower())):
        return line
    if not line[whole.end() :].strip() and _PLACE_ALONE.search(
        line, max(0, found.start() - 80), found.start()
    ):
        return line[: found.start()] + b"total_loss" + line[found.end() :]
    before = [(each[1], each[2]) for each in deque(_PART.finditer(line, 0, found.start()), _MOST_PARTS)]
    behind = [(each[1], each[2]) for each in islice(_PART.finditer(line, whole.end()), _MOST_PARTS)]
    if not (_is_sum(whole[2], before[::-1]) or _is_sum(whole[2], behind)):
        return line
    name = b"total_loss" if _HEADING.search(line, 0, found.start()) else TOTAL_OF_PARTS.encode("ascii")
    return line[: found.start()] + name + line[found.end() :]


def _is_sum(written: bytes, parts: Sequence[tuple[bytes, bytes]]) -> bool:
    """Whether the first two parts or more may be losses, and add up to the total as it is rounded."""
    total = to_float(written)
    if not total:
        return False
    digits = written.lower().partition(b"e")[0].partition(b".")[2]
    half, told = 0.5 * 10.0 ** -len(digits), 0.0
    for number, (name, part) in enumerate(parts, start=1):
        value = to_float(part)
        if value is None or not _NO_PARTS.isdisjoint(_WORD.findall(name.lower())):
            return False
        told += value
        error = max(_TOLERANCE * abs(total), 1.01 * (number + 1) * half)
        if number >= _FEWEST_PARTS and abs(told - total) <= error:
            return True
    return False


def _is_weighed_sum(written: bytes, parts: Sequence[tuple[bytes, bytes]]) -> bool:
    """Whether all parts times their weights add up to the total."""
    numbers = [(to_float(part) or 0.0) * (to_float(weight) or 0.0) for part, weight in parts[:_MOST_PARTS]]
    total = to_float(written) or 0.0
    return total > 0 and len(numbers) >= _FEWEST_PARTS and abs(sum(numbers) - total) <= _ROUNDED * total
