"""What the processes of the trainer do: all that it started counts, for what a launcher waits for trains.

Reads /proc (Linux), within bounds; what of it cannot be read counts as not seen.
"""

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from specon_sidecar.trainer.process import PROC

_MAX_PROCESSES: Final = 1024
_MAX_THREADS: Final = 4096
_PARENT, _USER_TICKS, _SYSTEM_TICKS, _STARTED = 1, 11, 12, 19  # after the name, see proc(5)


class Activity(NamedTuple):
    """What the processes did since they were looked at before; nothing where that was the first time."""

    wanted_seconds: float = 0.0
    """Processor time that they used, or waited for while others had the processors."""
    moved_bytes: int = 0
    """Read and written, be it from a disk, a pipe or a cache; 0 where the kernel does not say."""
    states: dict[str, int] = {}  # noqa: RUF012 - never changed
    """How many are in which state: R runs or wants to, S sleeps, D waits for a device, T is stopped."""

    @property
    def stopped(self) -> bool:
        """Whether somebody has stopped all of them."""
        return bool(self.states) and not self.states.keys() - {"T", "t"}


class _Process(NamedTuple):
    started: int
    wanted: float
    moved: int


class ActivityMeter:
    """Measures what a process and its descendants do between two looks."""

    def __init__(self, proc: Path = PROC) -> None:
        self._proc = proc
        self._before: dict[int, _Process] = {}

    def read(self, root: int) -> Activity | None:
        """Return what `root` and its descendants did since the last look; None where it is not there."""
        now: dict[int, _Process] = {}
        states: Counter[str] = Counter()
        threads = 0
        for pid in _family(self._proc, root):
            directory = self._proc / str(pid)
            fields = _fields(directory / "stat")
            if fields is None or fields[0] in {b"Z", b"X"}:
                continue
            states[fields[0].decode("ascii", "replace")] += 1
            wanted, more = _read_wait(directory, _MAX_THREADS - threads)
            threads += more
            if wanted is None:  # no such statistics here: coarser, and without the waiting
                ticks = int(fields[_USER_TICKS]) + int(fields[_SYSTEM_TICKS])
                wanted = ticks / os.sysconf("SC_CLK_TCK")
            now[pid] = _Process(int(fields[_STARTED]), wanted, _count_moved(directory / "io"))
        if not now:
            return None
        wanted, moved = 0.0, 0
        for pid, process in now.items():
            former = self._before.get(pid)
            if former is not None and former.started == process.started:
                wanted += max(0.0, process.wanted - former.wanted)
                moved += max(0, process.moved - former.moved)
            elif self._before:  # began since then
                wanted, moved = wanted + process.wanted, moved + process.moved
        self._before = now
        return Activity(wanted, moved, dict(sorted(states.items())))


def _family(proc: Path, root: int) -> list[int]:
    """Return the process and all that descend from it, as far as the bound allows."""
    if (proc / str(root) / "task" / str(root) / "children").exists():
        family = [root]
        for pid in family:
            if len(family) >= _MAX_PROCESSES:
                break
            family += _children(proc / str(pid) / "task")
        return family[:_MAX_PROCESSES]
    children: dict[int, list[int]] = {}
    for name in _names(proc):
        fields = _fields(proc / name / "stat") if name.isdecimal() else None
        if fields is not None:
            children.setdefault(int(fields[_PARENT]), []).append(int(name))
    family = [root]
    for pid in family:
        if len(family) >= _MAX_PROCESSES:
            break
        family += children.get(pid, ())
    return family[:_MAX_PROCESSES]


def _children(threads: Path) -> Iterator[int]:
    """Yield what the threads of a process have started."""
    for name in _names(threads):
        try:
            yield from map(int, (threads / name / "children").read_bytes().split())
        except OSError:
            continue


def _read_wait(directory: Path, most: int) -> tuple[float | None, int]:
    """Return for how many seconds the threads of a process ran or waited for a processor, and how many."""
    wanted, threads = 0, 0
    for name in _names(directory / "task"):
        if threads >= most:
            break
        try:
            fields = (directory / "task" / name / "schedstat").read_bytes().split()
        except OSError:
            continue
        if len(fields) < 2:  # noqa: PLR2004  (ran and waited, nanoseconds)
            return None, threads
        threads += 1
        wanted += int(fields[0]) + int(fields[1])
    return (wanted / 1e9 if threads and wanted else None), threads


def _names(directory: Path) -> Iterator[str]:
    try:
        with os.scandir(directory) as entries:
            yield from (entry.name for entry in entries)
    except OSError:
        return


def _fields(file: Path) -> list[bytes] | None:
    try:
        content = file.read_bytes()
    except OSError:
        return None
    # The name stands in parentheses and may hold anything.
    fields = content[content.rfind(b")") + 2 :].split()
    return fields if len(fields) > _STARTED else None


def _count_moved(file: Path) -> int:
    try:
        lines = file.read_bytes().splitlines()
    except OSError:
        return 0
    counts = (line.partition(b":") for line in lines)
    wanted = (count for name, _, count in counts if name in {b"rchar", b"wchar"})
    return sum(int(count) for count in wanted if count.strip().isdigit())
