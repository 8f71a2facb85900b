"""The files by which a manager and a supervisor of this machine tell each other of slices of time.

The manager says when the trainer runs, and renews that every second; the clock is CLOCK_MONOTONIC, which is
the same for all processes of a machine. The supervisor says for how long it was stopped.

Only the standard library: the supervisor loads this file once its pod is to share (see `supervise`).
"""

# ruff: noqa: PTH105, PTH123 # importing pathlib lengthens the start of a supervisor by a fifth

from __future__ import annotations

import json
import os
import sys

from specon_sidecar.slices.lease import LONGEST_LEASE, Lease

LEASE_FILE = "share.json"  # in: {"period": seconds, "on": [[begin, length], ...], "until": monotonic seconds}
STOPPED_FILE = "stopped.json"  # out: {"seconds": stopped so far, "since": monotonic seconds, or null}
_LONGEST_FILE = 8192


def read_lease(path: str, now: float) -> Lease | None:
    """Read a lease; None where there is none, or garbage in its place, or one that is too long."""
    try:
        with open(path, "rb") as file:
            content = json.loads(file.read(_LONGEST_FILE + 1)[:_LONGEST_FILE])
        on = [(float(begin), float(length)) for begin, length in content["on"]]
        lease = Lease(float(content["period"]), on, float(content["until"]))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError, RecursionError, OverflowError) as error:
        sys.stderr.write(f"{path}: {error!r}\n"[:300])
        return None
    return lease if lease.until <= now + LONGEST_LEASE else None


def write_account(path: str, seconds: float, since: float | None) -> None:
    """Tell how long the trainer was stopped; what finds no room on the disk is told the next time."""
    temporary = f"{path}.tmp"
    try:
        with open(temporary, "w", encoding="utf-8") as file:
            json.dump({"seconds": seconds, "since": since}, file)
        os.replace(temporary, path)
    except OSError:
        pass
