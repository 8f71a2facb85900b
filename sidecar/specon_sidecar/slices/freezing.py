"""All processes that a trainer has started, stopped and continued as one; nothing stays stopped for ever.

A process group would miss processes with a session of their own, such as the workers of torchrun. So all
descendants of the named roots are stopped. A guardian is told before anything is stopped (see `guardian`).

Only the standard library: the supervisor of a local pod loads this file too.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time

from specon_sidecar.slices.processes import children_of, go_on, read_stat, send

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from specon_sidecar.slices.guardian import Guardian
    from specon_sidecar.slices.processes import Known

MOST_PROCESSES = 2000
"""A trainer of more processes is not stopped."""
SETTLE_SECONDS = 0.05  # a process that is forking, or waits for a disk, stops a moment later
LOOK_SECONDS = 0.001


class Frozen:
    """What descends from the roots and is stopped."""

    def __init__(self, roots: Callable[[], Iterable[int]], guard: Callable[[], Guardian]) -> None:
        """Take what names the roots, and what starts a guardian."""
        self._roots, self._guard = roots, guard
        self._stopped: list[Known] = []
        self.guardian: Guardian | None = None

    def stop(self) -> bool:
        """Stop everything that runs, parents first; False: nothing is, for nobody could guard it."""
        if self.guardian is None:
            try:
                self.guardian = self._guard()
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
                send(process, signal.SIGSTOP)
            if (not found and self._at_rest()) or time.monotonic() > settled:
                return True
            time.sleep(LOOK_SECONDS)

    def go(self) -> None:
        """Continue the stopped processes, children first: a parent that looks finds them running.

        What this process cannot continue now, as it has no descriptor left, its guardian does.
        """
        if go_on(self._stopped):
            self._let_go()
        elif self._stopped:
            self._tell([])
        self._stopped = []

    def end(self) -> None:
        """Continue everything, and end the guardian; the reaper of children reaps it."""
        self.go()
        self._let_go()

    def note_reaped(self, pid: int) -> bool:
        """Take note of a child that has ended and is about to be reaped; whether it was the guardian."""
        if self.guardian is None or self.guardian.pid != pid:
            return False
        self.guardian.close()
        self.guardian = None
        return True

    def _tell(self, stopped: list[Known]) -> bool:
        if self.guardian is not None and self.guardian.told(stopped):
            return True
        self._let_go()
        return False

    def _let_go(self) -> None:
        """Let the guardian continue what it was told last, and end."""
        if self.guardian is not None:
            self.guardian.close()
            self.guardian = None

    def _descendants(self, known: set[Known]) -> Iterator[Known]:
        """Yield processes not known yet; one stopped before by somebody else is known, and not yielded."""
        spared = {os.getpid(), 0 if self.guardian is None else self.guardian.pid}
        waiting = [*self._roots()]
        while waiting:
            pid = waiting.pop(0)
            if pid in spared:
                continue
            try:
                fields = read_stat(pid)
            except OSError:
                continue
            process = pid, int(fields[22 - 3])
            waiting += children_of(pid)
            if process in known or fields[0] in "ZX":
                continue
            known.add(process)
            if fields[0] not in "Tt":
                yield process

    def _at_rest(self) -> bool:
        for pid, _ in self._stopped:
            with contextlib.suppress(OSError):
                if read_stat(pid)[0] not in "TtZX":
                    return False
        return True
