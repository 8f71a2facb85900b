from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest

from specon_manager.backends.local.pods import PodSpec, replica_directory
from specon_manager.backends.local.processes import Process, find_marked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from specon_manager.backends.local.pods import Exit, Pod

REPLICA = "default/vae-1/worker/0"


class Place:
    """A folder for pods, and the means to start them and to see what they did."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.root = folder / "pods"
        self.log = folder / "logs" / "trainer.log"

    def python(self, code: str, *arguments: str) -> list[str]:
        return [sys.executable, "-I", "-S", "-c", f"import os, signal, sys, time\n{code}", *arguments]

    def waiting(self) -> list[str]:
        """Return a trainer that says it is ready and then waits for its end."""
        return self.python("print('ready', flush=True)\nsignal.pause()")

    def spec(self, command: list[str], **changes: Any) -> PodSpec:
        settings: dict[str, Any] = {
            "replica": REPLICA,
            "incarnation": "first",
            "directory": str(replica_directory(self.root, REPLICA)),
            "command": command,
            "environment": {"PATH": os.defpath, "GREETING": "hello"},
            "working_directory": str(self.folder),
            "cpus": (),
            "log": str(self.log),
        }
        return PodSpec(**{**settings, **changes})

    def lines(self, path: Path | None = None) -> list[str]:
        path = path or self.log
        return path.read_text().splitlines() if path.exists() else []

    async def eventually(self, condition: Callable[[], Any], seconds: float = 60.0) -> Any:
        """Wait for something that other processes bring about."""
        deadline = time.monotonic() + seconds
        while not (met := condition()):
            assert time.monotonic() < deadline, "it never came true"
            await asyncio.sleep(0.01)
        return met

    async def ready(self) -> None:
        await self.eventually(lambda: "ready" in self.lines())

    def manager(self, code: str) -> subprocess.Popen[str]:
        """Start another manager, which can then be killed."""
        prelude = "import asyncio, os, signal, sys, msgspec\nfrom specon_manager.backends.local import pods\n"
        environment = {**os.environ, "SPECON_POD": f"{self.folder}/manager/"}
        return subprocess.Popen(
            [sys.executable, "-c", prelude + code], env=environment, stdout=subprocess.PIPE, text=True
        )

    async def ended(self, pod: Pod) -> Exit:
        return await asyncio.wait_for(pod.wait(), 60)

    async def lost(self, pod: Pod) -> Exit:
        """Kill the supervisor, and wait until the manager has dealt with it."""
        pod._record.supervisor.send(signal.SIGKILL)
        return await self.ended(pod)

    def processes(self) -> list[Process]:
        return find_marked(f"{self.folder}/")


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    """Give a place to start pods in, and end whatever was started there."""
    place = Place(tmp_path)
    yield place
    killed = set()
    deadline = time.monotonic() + 20
    while (left := place.processes()) or any(process.alive for process in killed):
        assert time.monotonic() < deadline, left
        killed.update(left)
        for process in left:
            process.send(signal.SIGKILL)
        time.sleep(0.01)
