"""The trainer's process: is it alive, what does it use, and how is it asked for a checkpoint.

Reads /proc (Linux). A process id is only trusted together with its start time, for ids are used again.
"""

import asyncio
import os
import signal
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from specon_sidecar.parse import CheckpointMode

PROC: Final = Path("/proc")
"""Where the kernel tells of its processes."""
_HTTP_SECONDS: Final = 5.0


class CannotAskError(Exception):
    """The trainer could not be asked for now; the text says why."""


class Usage(NamedTuple):
    """What the trainer's process has used: CPU seconds in all, and resident bytes now."""

    cpu_seconds: float
    memory_bytes: int


class Trainer(Protocol):
    """The trainer as far as it is observed and asked."""

    @property
    def alive(self) -> bool:
        """Whether it may still do what it is asked."""
        ...

    def usage(self) -> Usage | None:
        """Return its CPU time and memory, or None when it is not there."""
        ...

    def send(self, number: signal.Signals) -> None:
        """Send it the signal; raises CannotAskError where that could not be done or would end it."""
        ...


class _Stat(NamedTuple):
    state: str
    cpu_ticks: int
    started: int
    resident_pages: int


class TrainerProcess:
    """One process, known by its id and its start time."""

    def __init__(self, pid: int, proc: Path = PROC) -> None:
        """Take the process that has `pid` now; `alive` is False where there is none."""
        self.pid = pid
        self._directory = proc / str(pid)
        found = self._stat()
        self._started = None if found is None else found.started

    @property
    def alive(self) -> bool:
        """Whether the process still runs: a zombie does not."""
        return self._current() is not None

    def usage(self) -> Usage | None:
        """Return the CPU time and memory of the process, or None when it is gone."""
        current = self._current()
        if current is None:
            return None
        return Usage(
            current.cpu_ticks / os.sysconf("SC_CLK_TCK"), current.resident_pages * os.sysconf("SC_PAGE_SIZE")
        )

    def catches(self, number: signal.Signals) -> bool:
        """Return whether the process has a handler for the signal: the default action could end it."""
        try:
            status = (self._directory / "status").read_text("ascii", "replace")
        except OSError:
            return False
        for line in status.splitlines():
            if line.startswith("SigCgt:"):
                return bool(int(line.split()[1], 16) >> (number - 1) & 1)
        return False

    def send(self, number: signal.Signals) -> None:
        """Send the signal to exactly this process; raises CannotAskError where it would not be caught."""
        try:
            handle = os.pidfd_open(self.pid)
        except OSError as error:
            raise CannotAskError(f"process {self.pid}: {error.strerror}") from error
        try:
            # From here on the id cannot be given to another process.
            if not self.alive:
                raise CannotAskError(f"process {self.pid} is gone")
            if not self.catches(number):
                raise CannotAskError(f"process {self.pid} does not catch {number.name}, which would end it")
            signal.pidfd_send_signal(handle, number)
        except OSError as error:
            raise CannotAskError(f"process {self.pid}: {number.name}: {error.strerror}") from error
        finally:
            os.close(handle)

    def _current(self) -> _Stat | None:
        found = self._stat()
        if found is None or found.started != self._started or found.state in {"Z", "X"}:
            return None
        return found

    def _stat(self) -> _Stat | None:
        try:
            content = (self._directory / "stat").read_bytes()
        except OSError:
            return None
        # The name stands in parentheses and may hold anything; numbers as in proc(5), field 3 first.
        fields = content[content.rindex(b")") + 2 :].split()
        return _Stat(
            fields[0].decode("ascii"), int(fields[11]) + int(fields[12]), int(fields[19]), int(fields[21])
        )


async def ask(mode: CheckpointMode, process: Trainer | None, instruction: str) -> None:
    """Pass on the request for a checkpoint in the declared way.

    `instruction` is its id, for the trainer's log. Raises CannotAskError where it did not reach the trainer.
    With `periodic` and `sigterm` nothing is asked.
    """
    if mode.kind == "signal":
        if process is None:
            raise CannotAskError("no process id of the trainer is known")
        process.send(signal.Signals[f"SIG{mode.target}"])
    elif mode.kind == "file":
        await asyncio.to_thread(_create, Path(mode.target), instruction)
    elif mode.kind == "http":
        await _post(mode.target, instruction)


def _create(path: Path, content: str) -> None:
    """Create the request file in one piece; one that is still there was not taken yet and is renewed."""
    aside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        aside.write_text(content + "\n", "utf-8")
        aside.replace(path)
    except OSError as error:
        aside.unlink(missing_ok=True)
        raise CannotAskError(f"{path}: {error.strerror}") from error


async def _post(url: str, instruction: str) -> None:
    # Imported here: a stand-alone sidecar needs no HTTP.
    import aiohttp  # noqa: PLC0415 - see above

    timeout = aiohttp.ClientTimeout(total=_HTTP_SECONDS)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.post(url, json={"id": instruction}, allow_redirects=False) as response,
        ):
            status = response.status
    except (aiohttp.ClientError, OSError, ValueError) as error:
        raise CannotAskError(f"{url}: {type(error).__name__}: {error}"[:300]) from error
    if not 200 <= status < 300:  # noqa: PLR2004 - the success class of HTTP
        raise CannotAskError(f"{url}: status {status}")
