"""How many processors each pod would keep busy if it had them: how many of its threads want to run.

What it uses says less: of a node that is full everybody uses a part.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Final

from specon_manager.backends.local.supervise import read_stat

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

_NEWS: Final = 0.1  # of each look: threads that wait for a disk or a lock now and then are no fewer
_HOLD: Final = 0.7  # a number that is about between two others is the one it was


class Appetite:
    """Observations of one pod, look by look."""

    def __init__(self) -> None:
        """Take one processor as long as nothing was seen."""
        self._mean: float | None = None
        self.processors = 1
        """How many it would keep busy, at least 1."""

    def see(self, threads: int) -> None:
        """Take note of how many threads want to run now."""
        self._mean = threads if self._mean is None else self._mean + _NEWS * (threads - self._mean)
        if abs(self._mean - self.processors) > _HOLD:
            self.processors = max(1, round(self._mean))


def running_threads(roots: Collection[int]) -> dict[int, int]:
    """Return how many threads want to run now below each of these processes, itself included.

    Processes whose whole tree is stopped, or gone, are left out.
    """
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with contextlib.suppress(OSError):
                children.setdefault(int(read_stat(int(entry.name))[1]), []).append(int(entry.name))
    found = {}
    for root in roots:
        states = [state for pid in _descendants(root, children) for state in _states(pid)]
        if any(state not in "TtZX" for state in states):
            found[root] = states.count("R")
    return found


def _descendants(root: int, children: dict[int, list[int]]) -> Iterator[int]:
    waiting = [root]
    while waiting:
        pid = waiting.pop()
        yield pid
        waiting += children.get(pid, ())


def _states(pid: int) -> list[str]:
    states = []
    with contextlib.suppress(OSError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            content = (thread / "stat").read_text(errors="replace")
            states.append(content.rpartition(")")[2].split(None, 1)[0])
    return states
