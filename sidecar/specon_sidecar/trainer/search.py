"""Finds the trainer among the processes of a pod whose containers share one process namespace.

The first process of each container has no parent there. The trainer's has the mark `SPECON_TRAINER=1` in its
environment, which the kernel shows to a process of the same user whose capabilities are not fewer.
"""

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from specon_sidecar.trainer.process import PROC, CannotAskError, TrainerProcess, Usage

MARK: Final = b"SPECON_TRAINER=1"
"""Entry of the environment of the trainer's container."""
_PAUSE: Final = 1
"""Process id of what holds a shared namespace open; without sharing it is the first process of ours."""
_MAX_PROCESSES: Final = 100_000
_SEARCH_SECONDS: Final = 1.0
_PARENT, _STARTED = 1, 19  # fields of /proc/PID/stat after the name, see proc(5)


class _First(NamedTuple):
    """A process without a parent in this namespace."""

    started: int
    pid: int


def find_trainer(proc: Path = PROC, own: int | None = None) -> int | None:
    """Return the process id of the trainer, or None while there is none; `own` is a process of ours.

    Of several with the mark it is the oldest one: a process executed in a container later inherits its
    environment, but the first process is there before and ends last. The environment of a container that
    keeps capabilities of the superuser cannot be read; if only one such process of our own user is there, and
    none with the mark, then it is the trainer.
    """
    ours = _first_of(proc, os.getpid() if own is None else own)
    marked: list[_First] = []
    hidden: list[_First] = []
    for process in _firsts(proc):
        if process.pid in {_PAUSE, ours}:
            continue
        directory = proc / str(process.pid)
        try:
            if MARK in (directory / "environ").read_bytes().split(b"\0"):
                marked.append(process)
        except PermissionError:
            if _user(directory) == os.geteuid():
                hidden.append(process)
        except OSError:
            continue  # it ended just now
    if marked:
        return min(marked).pid
    return hidden[0].pid if len(hidden) == 1 else None


class SearchedTrainer:
    """The trainer as it is found: looked for until it is there, and again once its container restarted."""

    def __init__(
        self,
        find: Callable[[], int | None] = find_trainer,
        clock: Callable[[], float] = time.monotonic,
        proc: Path = PROC,
    ) -> None:
        """Look for the first time at once; from then on at most once a second, and only when asked."""
        self._find = find
        self._clock = clock
        self._proc = proc
        self._next_search = clock()
        self._process: TrainerProcess | None = None
        self._search()

    @property
    def alive(self) -> bool:
        """Whether the trainer may still do what it is asked: before it was found, and while it runs."""
        return self._search() or self._process is None

    @property
    def root(self) -> int | None:
        """The process id of the trainer, or None while it is not there."""
        return self._process.pid if self._search() and self._process is not None else None

    def usage(self) -> Usage | None:
        """Return the CPU time and memory of the trainer, or None while it is not there."""
        return self._process.usage() if self._search() and self._process is not None else None

    def send(self, number: signal.Signals) -> None:
        """Send it the signal; raises CannotAskError where it is not there or would not catch it."""
        if not self._search() or self._process is None:
            raise CannotAskError(
                "no process of the trainer is found: is the process namespace of the pod shared, and is the "
                "user of the sidecar the same?"
            )
        self._process.send(number)

    def _search(self) -> bool:
        """Return whether the trainer is there, having looked for it where it is time to."""
        if self._process is not None and self._process.alive:
            return True
        now = self._clock()
        if now < self._next_search:
            return False
        self._next_search = now + _SEARCH_SECONDS
        pid = self._find()
        if pid is None:
            return False
        found = TrainerProcess(pid, self._proc)
        if not found.alive:
            return False
        self._process = found
        return True


def _firsts(proc: Path) -> Iterator[_First]:
    """Yield the processes that have no parent in this namespace."""
    try:
        names = [entry.name for entry in os.scandir(proc) if entry.name.isdecimal()]
    except OSError:
        return
    for name in names[:_MAX_PROCESSES]:
        fields = _stat(proc / name)
        if fields is not None and fields[_PARENT] == b"0":
            yield _First(int(fields[_STARTED]), int(name))


def _first_of(proc: Path, pid: int) -> int:
    """Return the first process of the container that `pid` is in."""
    seen = {pid}
    while (fields := _stat(proc / str(pid))) is not None:
        parent = int(fields[_PARENT])
        if parent == 0 or parent in seen:
            break
        pid = parent
        seen.add(pid)
    return pid


def _stat(directory: Path) -> list[bytes] | None:
    try:
        content = (directory / "stat").read_bytes()
    except OSError:
        return None
    # The name stands in parentheses and may hold anything.
    fields = content[content.rfind(b")") + 2 :].split()
    return fields if len(fields) > _STARTED else None


def _user(directory: Path) -> int | None:
    try:
        return directory.stat().st_uid
    except OSError:
        return None
