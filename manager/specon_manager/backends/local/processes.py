"""Processes of this machine that other programs started: who they are, whether they live, how to signal them.

A pid is given to another process once its owner is gone, so none is trusted without its start time.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from specon_manager.backends.local.supervise import MARK, read_stat, start_time

if TYPE_CHECKING:
    from collections.abc import Callable

POLL_SECONDS = 0.2  # for a long wait
LOOK_SECONDS = 0.01  # for a short one


class Process(msgspec.Struct, frozen=True):
    """One process for ever: its pid, and its start in clock ticks since boot (proc(5), stat, field 22)."""

    pid: int
    start_time: int

    @classmethod
    def of(cls, pid: int) -> Process | None:
        """Identify the process that has this pid now, if there is one."""
        try:
            return cls(pid, start_time(pid))
        except OSError:
            return None

    @property
    def alive(self) -> bool:
        """Whether it still runs. A dead child of this process is reaped on the way."""
        try:
            state, parent, *rest = read_stat(self.pid)
        except OSError:
            return False
        if int(rest[22 - 5]) != self.start_time:
            return False
        if state not in "ZX":
            return True
        if int(parent) == os.getpid():
            with contextlib.suppress(ChildProcessError):
                os.waitpid(self.pid, os.WNOHANG)
        return False

    def send(self, number: signal.Signals) -> None:
        """Send a signal to this very process; nothing happens when it is gone."""
        with contextlib.suppress(ProcessLookupError):
            descriptor = _open(self.pid)
            if descriptor is None:
                if self.alive:
                    os.kill(self.pid, number)
                return
            try:
                # The descriptor keeps meaning the process it was opened for, whatever becomes of the pid.
                if self.alive:
                    signal.pidfd_send_signal(descriptor, number)
            finally:
                os.close(descriptor)

    async def wait_until_gone(self) -> None:
        """Wait until it has ended."""
        try:
            descriptor = _open(self.pid)
        except ProcessLookupError:
            return
        if descriptor is None:
            while self.alive:  # noqa: ASYNC110 - without a pidfd there is no event to wait for
                await asyncio.sleep(POLL_SECONDS)
            return
        try:
            if self.alive:
                await _readable(descriptor)
        finally:
            os.close(descriptor)
        _ = self.alive  # reaps


def find_marked(mark: str) -> list[Process]:
    """Return the live processes, but this one, that were given a `SPECON_POD` starting with `mark`."""
    wanted = f"{MARK}={mark}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal() or int(entry.name) == os.getpid():
            continue
        # Identified before it is looked at: the findings then belong to the identified process or to none.
        process = Process.of(int(entry.name))
        try:
            variables = (entry / "environ").read_bytes().split(b"\0")
        except OSError:  # ended meanwhile, or another user's
            continue
        if process is not None and any(variable.startswith(wanted) for variable in variables):
            found.append(process)
    return found


def kill_marked(mark: str) -> bool:
    """SIGKILL the processes that were given such a mark; whether there were any."""
    processes = find_marked(mark)
    for process in processes:
        process.send(signal.SIGKILL)
    return bool(processes)


async def end_marked(mark: str, seconds: float) -> bool:
    """SIGKILL the processes that were given such a mark; whether they were gone in time."""
    quiet = 0

    def gone() -> bool:
        # Twice, for in the middle of its exec a process shows no environment.
        nonlocal quiet
        quiet = 0 if kill_marked(mark) else quiet + 1
        return quiet > 1

    return await poll(gone, seconds)


async def poll(condition: Callable[[], bool], seconds: float) -> bool:
    """Wait until a condition on files or other programs is met, but not longer; whether it was."""
    deadline = time.monotonic() + seconds
    while not (met := condition()) and time.monotonic() < deadline:  # noqa: ASYNC110 - they set no event
        await asyncio.sleep(LOOK_SECONDS)
    return met


def _open(pid: int) -> int | None:
    """Open a pidfd; None where the system has none. Raises ProcessLookupError for no such process."""
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError:
        raise
    except (AttributeError, OSError):
        return None


async def _readable(descriptor: int) -> None:
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()

    def settle() -> None:
        if not ready.done():
            ready.set_result(None)

    loop.add_reader(descriptor, settle)
    try:
        await ready
    finally:
        loop.remove_reader(descriptor)
