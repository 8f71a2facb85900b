"""How large the log is when the process starts, before anything that takes a while is imported.

In a pod the sidecar starts before its trainer, but the kubelet does not wait until it reads. What a quick
trainer writes in between would count as its former incarnation's.
"""

import os
import sys
from collections.abc import Sequence
from typing import Final, NamedTuple


class LogAtStart(NamedTuple):
    """A log that is a file: its bytes, and when it was changed last (seconds since 1970)."""

    size: int
    changed_at: float | None
    """None where there is no log yet."""


def look_at_log(arguments: Sequence[str]) -> LogAtStart | None:
    """Return the log that the flags name; None where they do not say `--fresh-from=now`, or it is no file."""
    if _value(arguments, "--fresh-from") != "now" or (log := _value(arguments, "--log")) is None:
        return None
    try:
        status = os.stat(log)  # noqa: PTH116 - importing pathlib takes longer
    except FileNotFoundError:
        return LogAtStart(0, None)
    except (OSError, ValueError):
        return None
    return None if os.path.isdir(log) else LogAtStart(status.st_size, status.st_mtime)  # noqa: PTH112 - as above


def _value(arguments: Sequence[str], flag: str) -> str | None:
    found = None
    for at, argument in enumerate(arguments):
        if argument.startswith(f"{flag}="):
            found = argument[len(flag) + 1 :]
        elif argument == flag and at + 1 < len(arguments):
            found = arguments[at + 1]
    return found


LOG_AT_START: Final = look_at_log(sys.argv[1:])
