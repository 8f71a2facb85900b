"""A manager that runs as a process of this machine and serves a real cluster."""

import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import aiohttp

from support.ports import free_port

_UNREADY_SECONDS = 13.0
"""Two probes that fail after three seconds each, five seconds apart, as the chart has them; and a moment."""


class LiveManager:
    """One manager; `identity` is its name in the Lease."""

    def __init__(self, identity: str, host: str, folder: Path) -> None:
        self.identity = identity
        self.host = host
        self.port = free_port(host)
        self.reports_port = free_port(host)
        self.metrics_port = free_port()
        self.log = folder / f"{identity}.log"
        self._process: subprocess.Popen[bytes] | None = None
        self._told_to_end = False
        self._stopped_at: float | None = None

    def start(self, arguments: Sequence[str]) -> None:
        """Start it, or start it again."""
        self._told_to_end, self._stopped_at = False, None
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "specon_manager",
                    "serve",
                    *arguments,
                    f"--identity={self.identity}",
                    f"--listen={self.host}:{self.port}",
                    f"--reports-listen={self.host}:{self.reports_port}",
                    f"--metrics-listen=127.0.0.1:{self.metrics_port}",
                ],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
            )

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def in_service(self) -> bool:
        """Whether a Service would have it among those that answer: one that stands still is taken out."""
        stopped_at = self._stopped_at
        return self.alive and (stopped_at is None or time.monotonic() - stopped_at < _UNREADY_SECONDS)

    def check_alive(self) -> None:
        """Fail where it has ended without being told to."""
        if self._process is None or self._told_to_end:
            return
        code = self._process.poll()
        assert code is None, f"manager {self.identity} ended with {code}: {self.tail}"

    def send(self, number: signal.Signals) -> None:
        assert self._process is not None
        if number == signal.SIGSTOP:
            self._told_to_end = True  # a leader that wakes up after its time may find that it has to end
        if number in {signal.SIGSTOP, signal.SIGCONT}:
            self._stopped_at = time.monotonic() if number == signal.SIGSTOP else None
        self._process.send_signal(number)

    def kill(self) -> None:
        """End it as a power failure would."""
        self._told_to_end = True
        self.send(signal.SIGKILL)
        self._reap(10)

    def stop(self, seconds: float = 15) -> int:
        """End it in peace and return its exit status."""
        self._told_to_end = True
        self.send(signal.SIGCONT)  # a process that was stopped hears nothing
        self.send(signal.SIGTERM)
        return self._reap(seconds)

    async def ready(self) -> bool:
        """Whether it says that it is ready."""
        self.check_alive()
        url = f"http://127.0.0.1:{self.metrics_port}/readyz"
        limit = aiohttp.ClientTimeout(total=2)
        try:
            async with aiohttp.ClientSession(timeout=limit) as session, session.get(url) as response:
                return response.status == 200
        except (aiohttp.ClientError, TimeoutError):
            return False

    @property
    def tail(self) -> str:
        """The end of what it wrote."""
        return self.log.read_text("utf-8", "replace")[-6000:] if self.log.exists() else ""

    def _reap(self, seconds: float) -> int:
        assert self._process is not None
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(10)
            raise
