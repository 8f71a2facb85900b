"""Which lines are about other data than those of the training: `Test set: Average loss: 2.1`."""

import re
from collections.abc import Sequence
from typing import Final

from specon_sidecar.formats.metric_choice import BESIDE, MetricCandidate, MetricChoice

MetricValues = Sequence[tuple[MetricCandidate, float]]
"""The metrics of a line, with their values."""

# A line that begins with the name of another data set is about that one: `Test set: Average loss: 2.1`.
_OTHER_SET: Final = re.compile(
    rb"\W{0,4}+(?i:(?:epoch\W{0,4}\d{0,6}\W{1,4})?(?:\w{1,16}+-)?"
    rb"(val|valid|validation|eval|evaluation|test|dev)(?: (?:set|metrics|results?))?)"
    rb"\s?[\[:(|\])]"
)
# The same anywhere before the first metric; `test.py` and `test_loss` are no data set, and `Test: 0.8` is a
# value.
_SETS: Final = re.compile(
    rb"(?<![\w./-])(?i:(val|valid|validation|validating|eval|evaluation|evaluating|test|testing|dev))"
    rb"(?![\w./=-]| steps|:\s{0,4}\d{1,9}+(?:\.\d|%))"
)
# `Train loss: 0.5 acc: 0.9` and `Test acc: 0.8 loss: 0.6`: all of the second line is of other data.
_HEAD: Final = re.compile(
    rb"\W{0,8}+(?i:(?:epoch\W{0,4}\d{0,6}(?:/\d{1,6})?\W{1,4})?"
    rb"(?:(train(?:ing)?)|(val|valid|validation|eval|evaluation|test|dev)))\s{1,4}+[A-Za-z]"
)
OTHER_SET_LATER: Final = re.compile(_OTHER_SET.pattern.replace(rb"\d{0,6}", rb"\d*+"))
"""A line of other data, with an epoch of any number of digits."""
PROGRESS: Final = re.compile(rb"%\||[\[|]\s{0,8}+\d{1,15}+/\d{1,15}+\s?[\]|]")
"""What a line within a validation holds, whose value is that of some of its data: `Test: [10/50]`, a bar."""


def name_of_other_set(text: bytes) -> str:
    """Return the name of the data set that all of a line is about; empty where none begins the line."""
    found = _OTHER_SET.match(text)
    return "" if found is None else found[1].decode().lower()


class OtherData:
    """Tells the lines of other data from those of the training.

    Once lines begin with `Train`, one that begins with `Test` or the like is of other data in all its pairs.
    """

    def __init__(self) -> None:
        self._has_training = False

    def name(self, text: bytes, pair: re.Pattern[bytes], choice: MetricChoice, found: MetricValues) -> str:
        """Return the name of the data set that a line is about; empty for that of the training."""
        other = name_of_other_set(text) or _name_before(text, pair, choice)
        head = None if other else _HEAD.match(text)
        if head is None or not any(one.validates is None and one.rank != BESIDE for one, _ in found):
            return other  # all of its names say of which data they are
        self._has_training |= head[1] is not None
        is_other = head[1] is None and self._has_training and b"rain" not in text
        return head[2].decode().lower() if is_other else ""


def _name_before(text: bytes, pair: re.Pattern[bytes], choice: MetricChoice) -> str:
    """Return the data set that stands before the first number of a metric: `epoch 3, valid: loss 2.1`."""
    if not _SETS.search(text):
        return ""
    for found in pair.finditer(text):
        if choice.named(found[1]) is not None:
            named = _SETS.search(text, 0, found.start())
            return "" if named is None else named[1].decode().lower()
    return ""
