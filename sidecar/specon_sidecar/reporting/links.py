"""The two conversations with the manager: reports go out, instructions come in and are acknowledged."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from random import Random
from typing import Final, Protocol

from msgspec.structs import replace

from specon_sidecar.clock import Time
from specon_sidecar.reporting.outbox import Outbox
from specon_sidecar.reporting.outcome import Outcome
from specon_sidecar.wire import Acknowledgement, Checkpoint, Instruction, Report, Turns

_WAIT: Final = 20.0
_OPEN_WAIT: Final = 2.0
_LEAST_PAUSE: Final = 1.0  # between two answers without news: a manager that does not wait is not hammered
_NEWS_PAUSE: Final = 0.1
_REFUSED_PAUSE: Final = 30.0
_BACKOFF_CAP: Final = 30.0
_KNOWN: Final = 16


class Manager(Protocol):
    """The interface of a client."""

    async def report(self, report: Report) -> Outcome:
        """Send a report."""
        ...

    async def acknowledge(self, acknowledgement: Acknowledgement) -> Outcome:
        """Answer an instruction."""
        ...

    async def instructions(
        self, known: tuple[str, ...], *, wait: float
    ) -> tuple[Outcome, tuple[Instruction, ...]]:
        """Wait for an instruction that is not known."""
        ...

    async def resumable(self) -> tuple[Outcome, Checkpoint | None]:
        """Ask from which checkpoint to go on."""
        ...

    async def turns(self, known: str, *, wait: float) -> tuple[Outcome, Turns | None]:
        """Wait for turns that are not known."""
        ...

    def output(
        self, container: str, since: str
    ) -> contextlib.AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Give what a container of this pod prints, from a time on; raises OSError."""
        ...


class Reporter:
    """Sends what the outbox says is due."""

    def __init__(self, manager: Manager, outbox: Outbox, make: Callable[[float], Report], time: Time) -> None:
        self._manager = manager
        self._outbox = outbox
        self._make = make
        self._time = time
        self._wake = asyncio.Event()

    def offer(self) -> None:
        """Take the report of now if it tells a change; news is then sent at once."""
        if self._outbox.offer(self._make(self._time.now()), self._time.now()):
            self._wake.set()

    def hurry(self) -> None:
        """Look again at the due times: the pace has changed."""
        self._wake.set()

    async def run(self) -> None:
        """Send until the manager says that this incarnation is gone."""
        while True:
            self._wake.clear()
            self.offer()
            while (report := self._outbox.due(self._time.now())) is not None:
                if await self.send(report) is Outcome.GONE:
                    return
            await self._sleep(max(0.0, self._outbox.due_at() - self._time.now()))

    async def send(self, report: Report) -> Outcome:
        """Send one report and note in the outbox what became of it."""
        outcome = await self._manager.report(report)
        if outcome is Outcome.DELIVERED:
            self._outbox.note_delivered(report.sequence)
        elif outcome is Outcome.LOST:
            self._outbox.note_lost(self._time.now())
        else:
            self._outbox.note_refused(report.sequence)
        return outcome

    async def _sleep(self, seconds: float) -> None:
        """Wait, but not beyond a wake-up."""
        waiting = [
            asyncio.ensure_future(self._time.sleep(seconds)),
            asyncio.ensure_future(self._wake.wait()),
        ]
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for one in waiting:
                one.cancel()


class Instructed:
    """Fetches instructions, has each carried out once, and sends the answers until they are taken."""

    def __init__(
        self,
        manager: Manager,
        carry_out: Callable[[Instruction], Awaitable[Acknowledgement]],
        time: Time,
        rng: Random,
    ) -> None:
        """Prepare; `carry_out` gives the same answer again for an id that it has seen."""
        self._manager = manager
        self._carry_out = carry_out
        self._time = time
        self._rng = rng
        self._open: dict[str, asyncio.Task[None]] = {}
        """By id: seen, and not yet known to be acknowledged."""

    async def run(self) -> None:
        """Fetch until the manager says that this incarnation is gone."""
        failures = 0
        try:
            while True:
                begun = self._time.now()
                # While one is carried out the manager is asked again soon: its answer may get lost.
                outcome, instructions = await self._manager.instructions(
                    tuple(self._open)[-_KNOWN:], wait=_OPEN_WAIT if self._open else _WAIT
                )
                if outcome is Outcome.GONE:
                    return
                news = [one for one in instructions if one.id not in self._open]
                for one in news:
                    self._open[one.id] = asyncio.create_task(self._answer(one))
                if outcome is Outcome.DELIVERED:
                    failures = 0
                    pause = (_NEWS_PAUSE if news else _LEAST_PAUSE) - (self._time.now() - begun)
                elif outcome is Outcome.REFUSED:
                    pause = _REFUSED_PAUSE
                else:
                    failures = min(failures + 1, 10)
                    pause = self._rng.uniform(0.0, min(_BACKOFF_CAP, 0.5 * 2.0**failures))
                if pause > 0:
                    await self._time.sleep(pause)
        finally:
            for task in list(self._open.values()):
                task.cancel()

    async def drain(self) -> None:
        """Wait until the answers that are known have been sent."""
        if self._open:
            await asyncio.wait(list(self._open.values()))

    async def _answer(self, instruction: Instruction) -> None:
        try:
            acknowledgement = await self._carry_out(instruction)
            known_at = self._time.now() - acknowledgement.age
            failures = 0
            while await self._manager.acknowledge(acknowledgement) is Outcome.LOST:
                failures = min(failures + 1, 6)
                await self._time.sleep(self._rng.uniform(0.0, min(_BACKOFF_CAP, 0.25 * 2.0**failures)))
                acknowledgement = replace(acknowledgement, age=max(0.0, self._time.now() - known_at))
        finally:
            self._open.pop(instruction.id, None)
