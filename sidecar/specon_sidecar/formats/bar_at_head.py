"""The bar at the head of a line: what it counts, how far it is, and what stands behind it."""

import re
from typing import Final, Literal, NamedTuple

import msgspec

_BAR: Final = re.compile(
    rb"[^%]{0,80}?\d{1,3}%(?:\|[^|]{0,1200}+\||(?=\s))\s{0,4}+(\d{1,15}+)/(\d{1,15}+)\s{0,4}+[\[<]"
)
# Drawn with signs, the percentage and the count behind it: `Training [===>  ] 8.5% 500/5900 | 4.6 it/s`.
_DRAWN: Final = re.compile(
    rb"[^\[\]%]{0,40}+\[[=>#.*\- \x80-\xff]{3,400}+\]\s{0,4}+\d{1,3}+(?:\.\d{1,4}+)?+%\s{1,4}+"
    rb"(\d{1,15}+)/(\d{1,15}+)\s{0,4}+\|"
)
# A bar that counts epochs, and not the steps of one.
_OF_EPOCHS: Final = re.compile(rb"\s{0,8}+(?i:epochs)\W{0,4}+\d{1,3}%")
# The same without a name, as tqdm-loggable writes it: `Progress on: 12.6kit/30.0kit rate:1.1s/it`.
BAR_IN_WORDS: Final = re.compile(rb"Progress on: ?[\d.]{1,15}+[kM]?it/([\d.]{1,15}+[kM]?)it rate")
"""How long the training is, as tqdm-loggable writes it."""
# A bar of these is no bar of the training.
_OTHER: Final = re.compile(
    rb"(?i:\s{0,8}+(?:val|eval|test|pred|sanity|infer|download|load|map|filter|token|generat|pars|read|process"
    rb"|epoch|pack|comput|extract|creat|prepar|sampl))"
)


class Bar(msgspec.Struct, frozen=True, gc=False):
    """The state of a bar: `i` of `n`."""

    i: int
    n: int


class BarAtHead(NamedTuple):
    """A bar, whether it counts the training, its epochs or something else, and what stands behind it."""

    bar: Bar
    counts: Literal["training", "epochs", "other"]
    behind: bytes


def find_bar(line: bytes) -> BarAtHead | None:
    """Return the bar at the head of a line, if there is one."""
    found = _BAR.match(line)
    behind = b""
    if found is not None:
        behind = line[found.end() :].partition(b"]")[2]
    else:
        found = _DRAWN.match(line)
        if found is None:
            return None
        behind = line[found.end() :]
    bar = Bar(int(found[1]), int(found[2]))
    if not _OTHER.match(line):
        return BarAtHead(bar, "training", behind)
    return BarAtHead(bar, "epochs" if _OF_EPOCHS.match(line) else "other", behind)
