"""All processes that a trainer has started, stopped and continued as one; nothing stays stopped for ever.

A process group would miss what has a session of its own, such as the workers of torchrun: what is stopped is
what descends from the pod's supervisor, which is the parent of every orphan, but for those that are spared.
A guardian, a process of its own, is told before anything is stopped. It continues what is stopped when the
supervisor is gone, or says nothing for too long.

Only the standard library: the supervisor loads this file (see `supervise`).
"""

# ruff: noqa: PTH123, PTH208 # importing pathlib lengthens the start of a supervisor by a fifth

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator
    from typing import NoReturn

    Known = tuple[int, int]  # a process for ever: its pid, and its start in clock ticks since boot
    Stat = Callable[[int], list[str]]  # /proc/PID/stat from the third field on; OSError for no such process

MOST_PROCESSES = 2000
"""A trainer of more processes is not stopped."""
SETTLE_SECONDS = 0.05  # a process that is forking, or waits for a disk, stops a moment later
LOOK_SECONDS = 0.001


class Frozen:
    """What descends from this process and is stopped."""

    def __init__(
        self, search: Callable[[int], Collection[int]], stat: Stat, spared: Callable[[], Collection[int]]
    ) -> None:
        """Take how to find the children and the state of a process, and which children are left alone."""
        self._search, self._stat, self._spared = search, stat, spared
        self._stopped: list[Known] = []
        self.guardian: Guardian | None = None

    def stop(self) -> bool:
        """Stop everything that runs, parents first; False: nothing is, for nobody could guard it."""
        if self.guardian is None:
            try:
                self.guardian = Guardian(self._stat)
            except OSError:
                return False
        settled = time.monotonic() + SETTLE_SECONDS
        known: set[Known] = set()
        while True:
            found = list(self._descendants(known))
            if len(known) > MOST_PROCESSES or (found and not self._tell([*self._stopped, *found])):
                self.go()
                return False
            self._stopped += found
            for process in found:
                send(process, signal.SIGSTOP, self._stat)
            if (not found and self._at_rest()) or time.monotonic() > settled:
                return True
            time.sleep(LOOK_SECONDS)

    def go(self) -> None:
        """Continue what was stopped, children first: a parent that looks finds them running."""
        go_on(self._stopped, self._stat)
        if self._stopped:
            self._tell([])
        self._stopped = []

    def end(self) -> None:
        """Continue everything, and end the guardian; whoever reaps children reaps it."""
        self.go()
        if self.guardian is not None:
            self.guardian.end()
            self.guardian = None

    def reaped(self, pid: int) -> bool:
        """Take note of a child that has ended and is about to be reaped; whether it was the guardian."""
        if self.guardian is None or self.guardian.pid != pid:
            return False
        self.guardian.close()
        self.guardian = None
        return True

    def _tell(self, stopped: list[Known]) -> bool:
        if self.guardian is not None and self.guardian.told(stopped):
            return True
        if self.guardian is not None:
            self.guardian.end()
            self.guardian = None
        return False

    def _descendants(self, known: set[Known]) -> Iterator[Known]:
        """Yield what is not known yet; what somebody else had stopped before is known, and not yielded."""
        spared = {*self._spared(), *([] if self.guardian is None else [self.guardian.pid])}
        waiting = [pid for pid in self._children(os.getpid()) if pid not in spared]
        while waiting:
            pid = waiting.pop(0)
            try:
                fields = self._stat(pid)
            except OSError:
                continue
            process = pid, int(fields[22 - 3])
            waiting += self._children(pid)
            if process in known or fields[0] in "ZX":
                continue
            known.add(process)
            if fields[0] not in "Tt":
                yield process

    def _children(self, parent: int) -> Collection[int]:
        """Return children; while they come and go some may be missing, which the next pass finds."""
        found: set[int] = set()
        try:
            for thread in os.listdir(f"/proc/{parent}/task"):
                with open(f"/proc/{parent}/task/{thread}/children", encoding="ascii") as file:
                    found.update(map(int, file.read().split()))
        except ProcessLookupError:
            return found
        except OSError:
            # A thread is gone, or this kernel has no such file.
            return self._search(parent)
        return found

    def _at_rest(self) -> bool:
        for pid, _ in self._stopped:
            with contextlib.suppress(OSError):
                if self._stat(pid)[0] not in "TtZX":
                    return False
        return True


def send(process: Known, number: signal.Signals, stat: Stat) -> None:
    """Send a signal to this very process; nothing happens when it is gone, or not ours any more."""
    pid, started = process
    with contextlib.suppress(OSError):
        descriptor = os.pidfd_open(pid) if hasattr(os, "pidfd_open") else None
        try:
            if int(stat(pid)[22 - 3]) != started:
                return
            if descriptor is None:
                os.kill(pid, number)
            else:
                signal.pidfd_send_signal(descriptor, number)
        finally:
            if descriptor is not None:
                os.close(descriptor)


def go_on(stopped: Iterable[Known], stat: Stat) -> None:
    """Continue processes, the last first."""
    for process in reversed([*stopped]):
        send(process, signal.SIGCONT, stat)


class Guardian:
    """Continues what this process has stopped when it is gone, or says nothing for `SECONDS`."""

    SECONDS = 6.0

    def __init__(self, stat: Stat) -> None:
        """Start it: a fork, in a session of its own. Raises OSError."""
        reading, self._writing = os.pipe()
        # Whoever cannot take in what it is told is no guardian.
        os.set_blocking(self._writing, False)
        self.pid = os.fork()
        if self.pid == 0:
            _guard(reading, stat)
        os.close(reading)

    def told(self, stopped: list[Known]) -> bool:
        """Tell it what is about to be stopped, or that nothing is any more; whether it knows."""
        message = json.dumps(stopped).encode() + b"\n"
        try:
            return os.write(self._writing, message) == len(message)
        except OSError:
            return False

    def end(self) -> None:
        """End it; it is not reaped yet. What is stopped is continued by whoever calls."""
        os.kill(self.pid, signal.SIGKILL)
        self.close()

    def close(self) -> None:
        """Let go of one that has ended."""
        os.close(self._writing)


def _guard(reading: int, stat: Stat) -> NoReturn:
    """Be the guardian. It holds no file of its parent, so neither the replica's lock."""
    stopped: list[Known] = []
    try:
        os.setsid()
        os.closerange(3, reading)
        os.closerange(reading + 1, 4096)
        read = b""
        while True:
            ready, _, _ = select.select([reading], [], [], Guardian.SECONDS if stopped else None)
            content = os.read(reading, 1 << 16) if ready else b""
            if not content:
                go_on(stopped, stat)
                stopped = []
                if ready:
                    break
            read += content
            whole, end, rest = read.rpartition(b"\n")
            if end:
                read = rest
                stopped = [(int(pid), int(started)) for pid, started in json.loads(whole.split(b"\n")[-1])]
    except BaseException as error:  # noqa: BLE001 - nothing may escape into the supervisor's own code
        sys.stderr.write(f"the guardian of a stopped trainer: {error!r}\n")
        go_on(stopped, stat)
    finally:
        os._exit(0)
