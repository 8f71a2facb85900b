"""A bare `total` that is the sum of other numbers of its line: the loss, where these are parts of a loss.

`Total: 2.27 | Recon: 1.59 | KL: 0.68`. The name alone may be that of anything: a time, memory, a count. The
sum says what it consists of, and a part that is no loss by its name speaks against it.
"""

import re
from collections import deque
from collections.abc import Sequence
from itertools import islice
from typing import Final

from specon_sidecar.formats.number import NUMBER, to_float

_TOTAL: Final = re.compile(rb"(?<![\w./-])(?i:total)(?=[\"']?\s{0,4}+[:=]?\s{0,4}+" + NUMBER + rb")")
# A part, with or without a sign: `rec=1.59`, `seg 1.6183`. A fraction each: counts and seeds have none.
_PART: Final = re.compile(
    rb"(?<![\w./-])([A-Za-z_][\w/-]{0,40}+)[\"']?\s{0,4}+[:=]?\s{0,4}+(\d{1,12}+\.\d{2,20}+(?:[eE][+-]?\d{1,3})?+)"
    rb"(?![\w%])"
)
# `losses:` is a heading, `box_loss` is read by its name.
_NAMED_LOSS: Final = re.compile(rb"(?i:loss)(?!(?i:es)\b)")
_WORD: Final = re.compile(rb"[a-z]+")
# What else a total is made of: times and memory.
_NO_PARTS: Final = frozenset(
    {
        *(
            b"time",
            b"sec",
            b"secs",
            b"seconds",
            b"ms",
            b"data",
            b"load",
            b"forward",
            b"backward",
            b"fwd",
            b"bwd",
        ),
        *(
            b"step",
            b"iter",
            b"comm",
            b"compute",
            b"optim",
            b"optimizer",
            b"epoch",
            b"eta",
            b"elapsed",
            b"wait",
        ),
        *(
            b"mem",
            b"memory",
            b"used",
            b"free",
            b"alloc",
            b"allocated",
            b"reserved",
            b"cached",
            b"gpu",
            b"cpu",
        ),
        *(b"size", b"count", b"tokens", b"reward", b"rewards", b"return", b"score", b"acc", b"accuracy"),
    }
)
_MOST_PARTS: Final = 8
_FEWEST_PARTS: Final = 2
_TOLERANCE: Final = 1e-3
"""Of the sum: each part is rounded."""


def name_summed_total(line: bytes) -> bytes:
    """Return the line with `total_loss` for a `total` that is the sum of the parts beside it."""
    found = _TOTAL.search(line) if b"otal" in line or b"OTAL" in line else None
    if found is None or _NAMED_LOSS.search(line):
        return line
    whole = _PART.match(line, found.start())
    if whole is None:
        return line
    before = [(each[1], each[2]) for each in deque(_PART.finditer(line, 0, found.start()), _MOST_PARTS)]
    behind = [(each[1], each[2]) for each in islice(_PART.finditer(line, whole.end()), _MOST_PARTS)]
    total = to_float(whole[2])
    if total and (_is_sum(total, before[::-1]) or _is_sum(total, behind)):
        return line[: found.end()] + b"_loss" + line[found.end() :]
    return line


def _is_sum(total: float, parts: Sequence[tuple[bytes, bytes]]) -> bool:
    """Whether the first two parts or more may be losses, and add up to the total."""
    told = 0.0
    for number, (name, written) in enumerate(parts, start=1):
        value = to_float(written)
        if value is None or not _NO_PARTS.isdisjoint(_WORD.findall(name.lower())):
            return False
        told += value
        if number >= _FEWEST_PARTS and abs(told - total) <= _TOLERANCE * abs(total):
            return True
    return False
