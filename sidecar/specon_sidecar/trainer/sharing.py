"""A trainer in another container of the pod runs in its turns, and is stopped in those of others.

All of it is continued where anything is in doubt: nobody renews the turns, a checkpoint is asked for, the
trainer is told to end, this sidecar ends. Where the sidecar is killed its guardian continues it. Where both
are killed at once, as the kernel may do for want of memory, the sidecar's next process does so first of all.
It then stops nothing for a while, so that it is started again without delay if it is killed again.
"""

import asyncio
import contextlib
import logging
import os
import signal
import time
from collections import deque
from collections.abc import Iterator
from typing import Final

from specon_sidecar.slices.freezing import Frozen
from specon_sidecar.slices.guardian import Guardian, spawn_guardian
from specon_sidecar.slices.lease import Lease
from specon_sidecar.slices.processes import children_of, identify, read_stat, send
from specon_sidecar.slices.slicing import Slicing
from specon_sidecar.trainer.container import Gpus, is_told_to_end, roots, strangers
from specon_sidecar.trainer.process import Trainer
from specon_sidecar.trainer.stops import Stops
from specon_sidecar.wire import Share, Turns

QUIET_SECONDS: Final = 600.0
"""For how long a sidecar that was started again stops nothing: the kubelet's back-off is over by then."""
_LOOK_SECONDS: Final = 1.0
_LOOK_WHILE_STOPPED: Final = 0.2
_JUDGE_SECONDS: Final = 5.0
_ANSWERS: Final = 16
_LOG = logging.getLogger(__name__)


class Sharing:
    """Stops and continues one trainer by what the manager says; wire it with `Leases`."""

    def __init__(self, process: Trainer) -> None:
        """Take how the trainer is found; from then on what an earlier process of ours left stopped runs."""
        self._process = process
        self._slicing = Slicing(self._lease_at, self._note, Frozen(self._roots, self._guard))
        self._lease: Lease | None = None
        self._behind: deque[float] = deque(maxlen=_ANSWERS)
        self._stops = Stops(0.0)
        self._root: tuple[int, int] | None = None
        self._quiet_until = 0.0
        self._told_to_end = False
        self._held = 0
        self._trouble = ""
        self._judged: tuple[float, Share] | None = None
        self._guardians: set[int] = set()
        self._wake = asyncio.Event()
        self._find()

    @property
    def stops(self) -> Stops:
        """For how long the trainer was stopped."""
        return self._stops

    @property
    def able(self) -> bool:
        """Whether the trainer could be stopped now and then."""
        return not self.report().why

    def report(self) -> Share:
        """Return whether it can, and what it would share; looked at again every few seconds."""
        now = time.monotonic()
        if self._judged is None or now >= self._judged[0]:
            try:
                found = self._judge(now)
            except OSError as error:
                found = Share(why=f"its processes cannot be looked at now: {error}"[:500])
            self._judged = now + _JUDGE_SECONDS, found
        return self._judged[1]

    def take(self, turns: Turns) -> None:
        """Take what the manager says; what makes no sense stops nobody."""
        now = time.monotonic()
        # An answer may be late, but never early: of the last ones the quickest tells best how clocks differ.
        self._behind.append(now - turns.clock)
        behind = min(self._behind)
        on = sorted(((turn.begin + behind) % turns.period, turn.length) for turn in turns.on)
        try:
            self._lease = Lease(turns.period, on, now + turns.seconds) if on else None
        except ValueError as error:
            _LOG.warning("the manager's turns stop nobody: %s", error)
            self._lease = None
        self._wake.set()

    @contextlib.contextmanager
    def leave_undisturbed(self) -> Iterator[None]:
        """Let the trainer run meanwhile."""
        self._held += 1
        self._slicing.go()
        try:
            yield
        finally:
            self._held -= 1
            self._wake.set()

    async def run(self) -> None:
        """Stop and continue until cancelled; then everything runs."""
        try:
            while True:
                self._wake.clear()
                longest = max(0.0, min(self._look() - time.monotonic(), self._pace))
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(longest):
                        await self._wake.wait()
        finally:
            self.end()

    def end(self) -> None:
        """Let the trainer run for good."""
        self._told_to_end = True
        self._slicing.end()
        self._reap()

    @property
    def _pace(self) -> float:
        return _LOOK_WHILE_STOPPED if self._slicing.stopped else _LOOK_SECONDS

    def _look(self) -> float:
        """Take the steps due now; return when to look again, monotonic seconds."""
        try:
            self._reap()
            self._find()
            if self._slicing.stopped and self._root is not None and is_told_to_end(self._root[0]):
                self._told_to_end, self._judged = True, None
            return self._slicing.look()
        except Exception as error:  # noqa: BLE001 - whatever it is, the trainer trains on
            self._trouble = f"it could not be stopped and continued: {error!r}"
            self._judged = None
            _LOG.exception("the trainer runs in turns no more")
            self._slicing.end()
            return time.monotonic() + _LOOK_SECONDS

    def _lease_at(self, now: float) -> Lease | None:
        if self._held or self._told_to_end or self._lease is None or now >= self._lease.until:
            return None
        return None if self.report().why else self._lease

    def _judge(self, now: float) -> Share:
        if self._root is None or not self._process.alive:
            return Share(why="no process of the trainer is found")
        if self._trouble:
            return Share(why=self._trouble[:500])
        gpus = Gpus(self._root[0])
        if gpus.by_mps:
            return Share(why="its GPUs are shared by MPS, under which no process may be stopped")
        if not gpus.names:
            return Share(why="no GPU is seen in the trainer's container")
        if strangers(self._root[0]):
            return Share(why="the trainer's container has processes of another user", devices=gpus.names)
        if self._told_to_end:
            return Share(why="its trainer was told to end, and is stopped no more", devices=gpus.names)
        if now < self._quiet_until:
            why = f"its sidecar was started again less than {QUIET_SECONDS:g} s ago"
            return Share(why=why, devices=gpus.names)
        return Share(devices=gpus.names)

    def _find(self) -> None:
        """Look who the trainer is; of one that was there before us everything is continued."""
        pid = self._process.root
        try:
            found = None if pid is None else identify(pid)
        except OSError:
            found = None
        if found == self._root:
            return
        self._root, self._judged, self._told_to_end = found, None, False
        if found is not None and found[1] < identify(os.getpid())[1]:
            self._quiet_until = time.monotonic() + QUIET_SECONDS
            self._continue_all()

    def _continue_all(self) -> None:
        waiting = self._roots()
        while waiting:
            pid = waiting.pop()
            waiting += children_of(pid)
            with contextlib.suppress(OSError):
                if pid != os.getpid() and read_stat(pid)[0] in "Tt":
                    send(identify(pid), signal.SIGCONT)

    def _roots(self) -> list[int]:
        return [] if self._root is None else [*roots(self._root[0])]

    def _note(self, seconds: float, since: float | None) -> None:
        self._stops = Stops(seconds, since)

    def _guard(self) -> Guardian:
        guardian = spawn_guardian()
        self._guardians.add(guardian.pid)
        return guardian

    def _reap(self) -> None:
        """Let go of guardians that have ended; what one of them guarded runs until there is another."""
        for pid in list(self._guardians):
            try:
                ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                ended = None
                self._guardians.discard(pid)
            if ended is not None:
                self._slicing.note_reaped(pid)
                os.waitpid(pid, 0)
                self._guardians.discard(pid)
