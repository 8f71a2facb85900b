"""The trainer's process: is it alive, what does it use, and how is it sent a signal.

Reads /proc (Linux). A process id is only trusted together with its start time, for ids are used again.
"""

import os
import signal
from pathlib import Path
from typing import Final, NamedTuple, Protocol

PROC: Final = Path("/proc")
"""Where the kernel tells of its processes."""


class CannotAskError(Exception):
    """The trainer could not be asked for now; the text says why."""


class Usage(NamedTuple):
    """What the trainer's process has used: CPU seconds in all, and resident bytes now."""

    cpu_seconds: float
    memory_bytes: int


class Trainer(Protocol):
    """The trainer as far as it is observed and asked."""

    @property
    def alive(self) -> bool:
        """Whether it may still do what it is asked."""
        ...

    @property
    def root(self) -> int | None:
        """The process that all others of it descend from, or None when it is not there."""
        ...

    def usage(self) -> Usage | None:
        """Return its CPU time and memory, or None when it is not there."""
        ...

    def send(self, number: signal.Signals) -> None:
        """Send it the signal; raises CannotAskError where that could not be done or would end it."""
        ...


class _Stat(NamedTuple):
    state: str
    cpu_ticks: int
    started: int
    resident_pages: int


class TrainerProcess:
    """One process, known by its id and its start time."""

    def __init__(self, pid: int, proc: Path = PROC) -> None:
        """Take the process that has `pid` now; `alive` is False where there is none."""
        self.pid = pid
        self._directory = proc / str(pid)
        found = self._stat()
        self._started = None if found is None else found.started

    @property
    def alive(self) -> bool:
        """Whether the process still runs: a zombie does not."""
        return self._current() is not None

    @property
    def root(self) -> int | None:
        """The process id while the process runs."""
        return self.pid if self.alive else None

    def usage(self) -> Usage | None:
        """Return the CPU time and memory of the process, or None when it is gone."""
        current = self._current()
        if current is None:
            return None
        return Usage(
            current.cpu_ticks / os.sysconf("SC_CLK_TCK"), current.resident_pages * os.sysconf("SC_PAGE_SIZE")
        )

    def catches(self, number: signal.Signals) -> bool:
        """Return whether the process has a handler for the signal: the default action could end it."""
        try:
            status = (self._directory / "status").read_text("ascii", "replace")
        except OSError:
            return False
        for line in status.splitlines():
            if line.startswith("SigCgt:"):
                return bool(int(line.split()[1], 16) >> (number - 1) & 1)
        return False

    def send(self, number: signal.Signals) -> None:
        """Send the signal to exactly this process; raises CannotAskError where it would not be caught."""
        try:
            handle = os.pidfd_open(self.pid)
        except OSError as error:
            raise CannotAskError(f"process {self.pid}: {error.strerror}") from error
        try:
            # From here on the id cannot be given to another process.
            if not self.alive:
                raise CannotAskError(f"process {self.pid} is gone")
            if not self.catches(number):
                raise CannotAskError(f"process {self.pid} does not catch {number.name}, which would end it")
            signal.pidfd_send_signal(handle, number)
        except OSError as error:
            raise CannotAskError(f"process {self.pid}: {number.name}: {error.strerror}") from error
        finally:
            os.close(handle)

    def _current(self) -> _Stat | None:
        found = self._stat()
        if found is None or found.started != self._started or found.state in {"Z", "X"}:
            return None
        return found

    def _stat(self) -> _Stat | None:
        try:
            content = (self._directory / "stat").read_bytes()
        except OSError:
            return None
        # The name stands in parentheses and may hold anything; numbers as in proc(5), field 3 first.
        fields = content[content.rindex(b")") + 2 :].split()
        return _Stat(
            fields[0].decode("ascii"), int(fields[11]) + int(fields[12]), int(fields[19]), int(fields[21])
        )
