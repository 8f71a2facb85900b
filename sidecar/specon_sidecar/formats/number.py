"""Numbers as logs print them."""

import re
from typing import Final

# Possessive and bounded throughout, so that a hostile line costs no more than its length.
# The end is guarded: `3rd`, `1.2.3` and a half of `12x` are not numbers.
NUMBER: Final = (
    rb"[-+]?(?:(?:\d{1,3}(?:,\d{3})++(?!\d)|\d++)(?:\.\d*+)?|\.\d++)(?:[eE][-+]?\d++)?+(?!\w|\.\d)"
    rb"|[-+]?(?:[nN][aA][nN]|[iI][nN][fF](?:inity)?)(?![\w.])"
)

_THOUSANDS: Final = re.compile(r"[-+]?\d{1,3}(?:,\d{3})+(?:\.\d*)?(?:[eE][-+]?\d+)?")

_MULTIPLES: Final[dict[bytes | str, int]] = {
    b"k": 1000,
    b"K": 1000,
    b"M": 1_000_000,
    "k": 1000,
    "K": 1000,
    "M": 1_000_000,
}

# Steps beyond this are no steps, and integers beyond it are not exact in JSON for most readers.
_LARGEST_STEP: Final = 2**53
# None of so many digits is.
_MOST_DIGITS: Final = 15


def to_float(raw: object) -> float | None:
    """Return the number that `raw` is or spells, else None. True and False are no numbers."""
    if raw is None or type(raw) is float:
        return raw
    if type(raw) is int:
        try:
            return float(raw)
        except OverflowError:
            return None
    if not isinstance(raw, bytes | str):
        return None
    try:
        return float(raw)
    except ValueError:
        pass
    text = raw.decode("ascii", "replace") if isinstance(raw, bytes) else raw
    text = text.strip()
    return float(text.replace(",", "")) if _THOUSANDS.fullmatch(text) else None


def to_step(raw: object) -> int | None:
    """Return the non-negative whole number that `raw` is or spells, else None.

    As in `12`, `12.0`, `12,345`, `7K` and `1.2M`.
    """
    if raw is None:
        return None
    if isinstance(raw, bytes) and len(raw) <= _MOST_DIGITS and raw.isdigit():
        return int(raw)  # as nearly all
    number = raw if type(raw) is int else to_float(raw)
    if number is None and isinstance(raw, bytes | str) and raw[-1:] in _MULTIPLES:
        number = to_float(raw[:-1])
        number = None if number is None else round(number * _MULTIPLES[raw[-1:]], 3)
    if number is None or not 0 <= number < _LARGEST_STEP:  # NaN compares false
        return None
    step = int(number)
    return step if step == number else None
