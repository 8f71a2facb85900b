"""The one line on standard error that a process may ever get from the helper."""

from __future__ import annotations

import sys

_said = False


def say_once(text: str) -> None:
    """Write a line to standard error, the first time only."""
    global _said  # noqa: PLW0603 - once per process is the promise
    if _said:
        return
    _said = True
    try:
        sys.stderr.write("specon: " + " ".join(text.split())[:300] + "\n")
        sys.stderr.flush()
    except Exception:  # noqa: BLE001, S110 - it may be closed, and there is nobody else to tell
        pass
