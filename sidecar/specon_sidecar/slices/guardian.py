"""Continues what another process has stopped once that one is gone, or says nothing for too long.

A process of its own, told of each process before that is stopped. Only the standard library: the supervisor
of a local pod loads this file too.
"""

# ruff: noqa: PTH100, PTH120 # importing pathlib lengthens the start of a supervisor by a fifth

from __future__ import annotations

import json
import os
import select
import signal
import sys
import time

from specon_sidecar.slices.processes import go_on

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import NoReturn

    from specon_sidecar.slices.processes import Known

_ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_STDIN = 0
_RETRY_SECONDS = 0.2


class Guardian:
    """Another process that knows what this one has stopped."""

    SECONDS = 6.0
    """For how long it waits for a word while something is stopped."""

    def __init__(self, pid: int, writing: int) -> None:
        """Take the process, and the pipe by which it is told."""
        self.pid, self._writing = pid, writing
        # A guardian that cannot take in what it is told is none.
        os.set_blocking(writing, False)

    def told(self, stopped: Sequence[Known]) -> bool:
        """Tell it the processes about to be stopped, or that none is any more; whether it knows."""
        message = json.dumps(stopped).encode() + b"\n"
        try:
            return os.write(self._writing, message) == len(message)
        except OSError:
            return False

    def close(self) -> None:
        """Say no more: it continues what it was told last, and ends. The reaper of children reaps it."""
        os.close(self._writing)


def fork_guardian() -> Guardian:
    """Start one as a copy of this process, which has one thread. Raises OSError."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        _guard(reading)
    os.close(reading)
    return Guardian(pid, writing)


def spawn_guardian() -> Guardian:
    """Start one as an interpreter of its own: a copy of a process with threads could hang. Raises OSError."""
    reading, writing = os.pipe()
    code = f"import sys; sys.path.append({_ROOT!r})\nfrom specon_sidecar.slices.guardian import main; main()"
    try:
        pid = os.posix_spawn(
            sys.executable,
            [sys.executable, "-I", "-S", "-c", code],
            {},
            file_actions=[(os.POSIX_SPAWN_DUP2, reading, _STDIN)],
        )
    except BaseException:
        os.close(writing)
        raise
    finally:
        os.close(reading)
    return Guardian(pid, writing)


def main() -> None:
    """Be the guardian of the process at the other end of standard input."""
    # What ends its parent by a signal is not to end it as well.
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    _guard(_STDIN)


def _continue(stopped: Iterable[Known]) -> None:
    while stopped := go_on(stopped):
        time.sleep(_RETRY_SECONDS)


def _guard(reading: int) -> NoReturn:
    """Be the guardian. It holds no file of its parent, so neither the lock of a replica."""
    stopped: list[Known] = []
    try:
        os.setsid()
        os.closerange(3, reading)
        os.closerange(max(3, reading + 1), 4096)
        read = b""
        while True:
            ready, _, _ = select.select([reading], [], [], Guardian.SECONDS if stopped else None)
            content = os.read(reading, 1 << 16) if ready else b""
            if not content:
                _continue(stopped)
                stopped = []
                if ready:
                    break
            read += content
            whole, end, rest = read.rpartition(b"\n")
            if end:
                read = rest
                stopped = [(int(pid), int(started)) for pid, started in json.loads(whole.split(b"\n")[-1])]
    except BaseException as error:  # noqa: BLE001 - nothing may escape into the code that forked
        sys.stderr.write(f"the guardian of a stopped trainer: {error!r}\n")
        _continue(stopped)
    finally:
        os._exit(0)
