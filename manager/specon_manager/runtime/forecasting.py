"""When jobs start, as a manager asks now and then: in a process beside its own, never in its loop."""

import asyncio
import contextlib
import logging
import os
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

import msgspec
from msgspec import Struct

from specon_manager.core.state import State
from specon_manager.core.waiting import waiting_jobs
from specon_manager.model.expected_start import ExpectedStart

_log = logging.getLogger(__name__)
_COMMAND: Final = (sys.executable, "-m", "specon_manager.lab")
_SECONDS: Final = 600.0
"""After which the process is ended, whatever it does; it uses a processor for a minute at most."""
_EVERY: Final = 60.0
_LOOK: Final = 5.0
"""How often it is looked whether anybody waits."""
_REST: Final = 4.0  # times as long as an answer took, before the next question: a fifth of a core at most
_NICE: Final = 10
_JOBS: Final = 1000
_MOST_BYTES: Final = 4 * 1024 * 1024


class Asked(Struct, frozen=True, kw_only=True):
    """What the process is asked."""

    state: State
    now: float
    jobs: tuple[str, ...]


class Forecasts:
    """The latest answer, and what asks for the next."""

    def __init__(
        self,
        state: Callable[[], State],
        now: Callable[[], float],
        *,
        changed: Callable[[], None] = lambda: None,
        every: float = _EVERY,
        ask: "Callable[[bytes], Awaitable[bytes]] | None" = None,
    ) -> None:
        """Ask about `state` `every` so many seconds while jobs wait; `changed` is told of each answer."""
        self._state, self._now, self._changed, self._every = state, now, changed, every
        self._ask = ask_process if ask is None else ask
        self._at = 0.0
        self._starts: Mapping[str, ExpectedStart] = {}

    def start_of(self, job: str, now: float) -> ExpectedStart | None:
        """Return when the job starts, in seconds from `now`; None where nobody has asked yet."""
        known = self._starts.get(job)
        return None if known is None else known.after(now - self._at)

    def tell(self, now: float) -> Mapping[str, ExpectedStart]:
        """Return all of them, in seconds from `now`."""
        return {job: start.after(now - self._at) for job, start in self._starts.items()}

    async def run(self) -> None:
        """Ask until cancelled; trouble is logged, and the former answers are then dropped."""
        loop = asyncio.get_running_loop()
        while True:
            began = loop.time()
            asked = await self._once()
            rest = max(self._every, _REST * (loop.time() - began))
            await asyncio.sleep(rest if asked else min(_LOOK, self._every))

    async def _once(self) -> bool:
        """Return whether anybody waited, so that it was asked."""
        state, now = self._state(), self._now()
        jobs = tuple(job.name for job in waiting_jobs(state)[:_JOBS])
        answer: Mapping[str, ExpectedStart] = {}
        if jobs:
            asked = Asked(state=state.flatten(), now=now, jobs=jobs)
            try:
                # Of ten thousand replicas that takes a while.
                content = await asyncio.to_thread(msgspec.msgpack.encode, asked)
                answer = msgspec.msgpack.decode(await self._ask(content), type=dict[str, ExpectedStart])
            except (OSError, TimeoutError, msgspec.MsgspecError) as error:
                _log.warning("when jobs start is not known: %s", str(error) or type(error).__name__)
        if answer or self._starts:
            self._starts, self._at = answer, now
            self._changed()
        return bool(jobs)


async def ask_process(question: bytes, command: Sequence[str] = _COMMAND) -> bytes:
    """Return what a process of low priority answers; raises OSError, and TimeoutError."""
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, process.pid, _NICE)
        async with asyncio.timeout(_SECONDS):
            answer, errors = await process.communicate(question)
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    if process.returncode or len(answer) > _MOST_BYTES:
        last = errors.decode(errors="replace").strip().rpartition("\n")[2][:300]
        raise OSError(f"the simulation ended with {process.returncode}: {last}")
    return answer
