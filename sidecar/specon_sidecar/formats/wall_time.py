"""Wall time as logs print it."""

import re
from datetime import datetime
from typing import Final

from specon_sidecar.formats.number import to_float

# The years 2001 to 2286. Smaller numbers are durations, which logs call `time` as well.
_EARLIEST: Final = 1e9
_LATEST: Final = 1e10
# Seconds, milliseconds, microseconds, nanoseconds.
_UNITS: Final = (1.0, 1e3, 1e6, 1e9)

# Only with a time zone: that of the trainer is not known here.
_STAMP: Final = re.compile(
    rb"\[?(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?) ?(Z|[+-]\d\d:?\d\d)(?!\w)",
)


def wall_time(raw: object) -> float | None:
    """Return seconds since 1970 for a number in s, ms, us or ns, or an ISO 8601 stamp with a time zone."""
    number = to_float(raw)
    if number is not None:
        for unit in _UNITS:
            if _EARLIEST <= number / unit < _LATEST:
                return number / unit
        return None
    if isinstance(raw, str):
        raw = raw.encode("utf-8", "replace")
    return leading_stamp(raw.strip()) if isinstance(raw, bytes) else None


def leading_stamp(line: bytes) -> float | None:
    """Return the time of a line that begins with an ISO 8601 stamp with its time zone, else None."""
    found = _STAMP.match(line)
    if found is None:
        return None
    stamp, zone = found.groups()
    try:
        return datetime.fromisoformat((stamp + zone).decode("ascii").replace(",", ".")).timestamp()
    except (ValueError, OverflowError):  # the 31st of February; a zone of 99 hours
        return None


def has_stamp(line: bytes) -> bool:
    """Whether something in the line has the form of a stamp with its time zone, though it be no date."""
    return _STAMP.search(line) is not None
