from __future__ import annotations

import asyncio
import os
import signal
import sys
from typing import TYPE_CHECKING

import pytest

from specon_manager.backends.local.processes import Process

if TYPE_CHECKING:
    from conftest import Place


def test_a_pid_with_another_start_time_is_a_stranger() -> None:
    """A process is its pid and its start time: a later holder of the pid is neither alive nor signalled."""
    me = Process.of(os.getpid())
    assert me is not None
    assert me.alive
    stranger = Process(me.pid, me.start_time - 1)
    assert not stranger.alive
    stranger.send(signal.SIGKILL)


async def test_the_wait_for_a_stranger_is_over_at_once() -> None:
    """A process that was replaced under its pid is gone."""
    await asyncio.wait_for(Process(os.getpid(), 1).wait_until_gone(), 60)


@pytest.mark.processes
@pytest.mark.parametrize("with_pidfd", [True, False])
async def test_an_end_is_noticed(place: Place, monkeypatch: pytest.MonkeyPatch, *, with_pidfd: bool) -> None:
    """The end of a process is noticed and a child is reaped, also where the system has no pidfd."""
    if not with_pidfd:
        monkeypatch.delattr(os, "pidfd_open")
    environment = {"SPECON_POD": f"{place.folder}/child/"}
    pid = os.posix_spawn(sys.executable, place.python("signal.pause()"), environment)  # noqa: ASYNC221 - returns at once
    process = Process.of(pid)
    assert process is not None
    await place.eventually(lambda: place.processes() == [process])
    waiting = asyncio.create_task(process.wait_until_gone())
    await asyncio.sleep(0)
    assert not waiting.done()
    process.send(signal.SIGTERM)
    await asyncio.wait_for(waiting, 60)
    assert not process.alive
    with pytest.raises(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)  # noqa: ASYNC222 - returns at once
    process.send(signal.SIGTERM)
    await process.wait_until_gone()


def test_nobody_is_found_by_an_unused_mark(place: Place) -> None:
    """Only processes that were given the mark are found."""
    assert place.processes() == []
