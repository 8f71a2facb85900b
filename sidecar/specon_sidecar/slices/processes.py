"""Processes for ever: a pid is given to another process once its owner is gone, so none is trusted alone.

Only the standard library: the supervisor of a local pod loads this file too.
"""

# ruff: noqa: PTH123, PTH208 # importing pathlib lengthens the start of a supervisor by a fifth

from __future__ import annotations

import contextlib
import errno
import os
import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    Known = tuple[int, int]  # a process for ever: its pid, and its start in clock ticks since boot

_PASSING = {errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN, errno.EINTR}
_PARENT, _STARTED = 4 - 3, 22 - 3  # fields of /proc/PID/stat after the name, see proc(5)


def read_stat(pid: int) -> list[str]:
    """Read /proc/PID/stat from its third field (the state) on. Raises OSError for no such process.

    A supervisor has its own: it starts without an import path.
    """
    with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
        # The second field, the name in parentheses, may itself contain spaces and parentheses.
        return file.read().rpartition(")")[2].split()


def identify(pid: int) -> Known:
    """Return the process that has this pid now. Raises OSError for no such process."""
    return pid, int(read_stat(pid)[_STARTED])


def children_of(parent: int) -> Collection[int]:
    """Return children; while they come and go some may be missing, which the next look finds."""
    found: set[int] = set()
    try:
        for thread in os.listdir(f"/proc/{parent}/task"):
            with open(f"/proc/{parent}/task/{thread}/children", encoding="ascii") as file:
                found.update(map(int, file.read().split()))
    except ProcessLookupError:
        return found
    except OSError:
        # A thread is gone, or this kernel has no such file.
        return _search(parent)
    return found


def _search(parent: int) -> set[int]:
    found = set()
    for name in os.listdir("/proc"):
        if name.isdecimal():
            with contextlib.suppress(OSError):
                if int(read_stat(int(name))[_PARENT]) == parent:
                    found.add(int(name))
    return found


def send(process: Known, number: signal.Signals) -> bool:
    """Send a signal to this very process; nothing happens when it is gone, or not ours any more.

    False: it could not be told whether it is, for want of descriptors, for instance. It may work later.
    """
    pid, started = process
    descriptor = None
    try:
        descriptor = os.pidfd_open(pid) if hasattr(os, "pidfd_open") else None
        if int(read_stat(pid)[_STARTED]) != started:
            return True
        if descriptor is None:
            os.kill(pid, number)
        else:
            signal.pidfd_send_signal(descriptor, number)
    except OSError as error:
        return error.errno not in _PASSING
    finally:
        if descriptor is not None:
            os.close(descriptor)
    return True


def go_on(stopped: Iterable[Known]) -> list[Known]:
    """Continue processes, the last first; return those that need another try, in their order."""
    left = [process for process in reversed([*stopped]) if not send(process, signal.SIGCONT)]
    return left[::-1]
