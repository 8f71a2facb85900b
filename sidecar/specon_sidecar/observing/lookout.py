"""Looks out for a trainer that hangs: at its processes, its log, and whether its checkpoints change."""

import asyncio
import os
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from specon_sidecar.observing.hang import HangWatch, Signs
from specon_sidecar.observing.observer import Observer
from specon_sidecar.trainer.activity import ActivityMeter
from specon_sidecar.trainer.process import Trainer
from specon_sidecar.wire import MAX_HANG_LINES, Hang

_MOST: Final = 2000  # entries
_LONGEST_LINE: Final = 1000  # bytes


class Lookout:
    """Watches over one trainer."""

    def __init__(self, observer: Observer, process: Trainer | None, checkpoints: Path | None) -> None:
        """Look at this process and what it started, and at the folder or file of its checkpoints."""
        self._observer, self._process, self._checkpoints = observer, process, checkpoints
        self._meter = ActivityMeter()
        self._watch = HangWatch(observer.steps)
        self._ends: deque[bytes] = deque(maxlen=MAX_HANG_LINES)

    @property
    def pace(self) -> float:
        """How long to wait before the next look, seconds."""
        return self._watch.pace

    @property
    def hangs(self) -> bool:
        """Whether the trainer is known to hang."""
        return self._watch.since is not None

    def take(self, lines: Sequence[bytes]) -> None:
        """Remember the last lines of its log."""
        self._ends.extend(line[:_LONGEST_LINE] for line in lines[-MAX_HANG_LINES:])

    async def look(self, now: float, paused: float) -> bool:
        """Look, and return whether that has changed whether it is known to hang.

        `now` is on the clock that stands still while the trainer is stopped; for `paused` seconds since the
        last look it was kept from training.
        """
        hung, done = self.hangs, self._observer.curve.done
        signs = await asyncio.to_thread(self._look)
        return self._watch.look(now, signs, paused=paused, done=done is not None and done >= 1) != hung

    def evidence(self, now: float) -> Hang | None:
        """Return what shows that it hangs; None where it does not."""
        return self._watch.evidence(now, [line.decode("utf-8", "replace") for line in self._ends])

    def _look(self) -> Signs:
        root = None if self._process is None else self._process.root
        activity = None if root is None else self._meter.read(root)
        return Signs(activity=activity, lines=self._observer.lines, saved=_mark(self._checkpoints))


def _mark(path: Path | None) -> int:
    """Return a number that changes while something at the path is written; 0 where nothing can be seen."""
    if path is None:
        return 0
    seen, waiting = list[tuple[str, int, int]](), [(os.fspath(path), 0)]
    while waiting:
        folder, depth = waiting.pop()
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    if len(seen) >= _MOST:
                        break
                    status = entry.stat(follow_symlinks=False)
                    seen.append((entry.path, status.st_size, status.st_mtime_ns))
                    if depth < 2 and entry.is_dir(follow_symlinks=False):  # noqa: PLR2004  (folders of folders)
                        waiting.append((entry.path, depth + 1))
        except NotADirectoryError:
            status = path.lstat()
            seen.append((folder, status.st_size, status.st_mtime_ns))
        except OSError:
            continue
    return hash(tuple(sorted(seen)))
