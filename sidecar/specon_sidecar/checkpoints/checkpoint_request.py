"""A checkpoint that was asked for: ask the trainer, wait until one is complete, verify it, answer.

One instruction has one effect, however often it is seen; its answer is remembered and given again. Where a
pause was asked for, the trainer waits after the save: see `pause_lease`.
"""

import asyncio
import logging
import math
import os
from collections.abc import Awaitable, Callable
from threading import Event
from typing import Final, TypeVar

from msgspec import Struct

from specon_sidecar.checkpoints.ask import ask
from specon_sidecar.checkpoints.checkpoint_watch import Candidate, CheckpointWatch, Fingerprint
from specon_sidecar.checkpoints.pause_lease import PauseLease
from specon_sidecar.checkpoints.verify import CancelledError, UnreadableError, verify
from specon_sidecar.clock import Time
from specon_sidecar.parse import CheckpointMode
from specon_sidecar.trainer.process import CannotAskError, Trainer
from specon_sidecar.wire import Acknowledgement, Checkpoint, CheckpointInstruction

_LOG = logging.getLogger(__name__)
Asker = Callable[[CheckpointMode, Trainer | None, str], Awaitable[None]]
_P = TypeVar("_P")
_LOOK_SECONDS: Final = 0.05
_LATER_LOOK_SECONDS: Final = 0.25
_SOON_SECONDS: Final = 10.0
_ASK_AGAIN_SECONDS: Final = 0.5
_LAST_LOOK_SECONDS: Final = 0.2
_REMEMBERED: Final = 64


class Identity(Struct, frozen=True):
    """Whose checkpoints these are."""

    replica: str
    incarnation: str


class Checkpoints:
    """The replica's checkpoints: the newest one that is known, and the ones that are asked for."""

    def __init__(
        self,
        *,
        mode: CheckpointMode,
        watch: CheckpointWatch | None,
        process: Trainer | None,
        step: Callable[[], int | None],
        clock: Time,
        asker: Asker = ask,
        lease: PauseLease | None = None,
        training: Callable[[], float] | None = None,
    ) -> None:
        """Prepare; `step` tells the last step in the log, `watch` is None without a declared path.

        Without a lease no trainer is asked to pause. `training` is a clock that stands still while the
        trainer is stopped: a file that it does not write then is not complete for that.
        """
        self._mode = mode
        self._watch = watch
        self._process = process
        self._step = step
        self._time = clock
        self._ask = asker
        self._training = training or clock.now
        self._lease = lease
        self._leasing = asyncio.Lock()
        self._scanning = asyncio.Lock()
        self._verifying: set[Event] = set()
        self._ended = False
        self._answers: dict[str, asyncio.Task[tuple[Checkpoint | None, str]]] = {}
        self._digests: dict[tuple[object, Fingerprint], str] = {}
        self.newest: Checkpoint | None = None
        """The newest complete checkpoint; verified if somebody asked for it."""
        self.verified = 0
        self.unreadable = 0

    def note_trainer_end(self) -> None:
        """Note that the trainer is gone: requests end soon, for nothing new will come."""
        self._ended = True
        if self._watch is not None:
            self._watch.settle = 0.0  # nobody is left to change anything

    def cancel(self) -> None:
        """Call off what is under way: what was asked for is answered with a refusal."""
        for verifying in self._verifying:
            verifying.set()
        if self._lease is not None:
            self._lease.end(self._time.now())

    async def keep_pause(self) -> None:
        """Keep a trainer that pauses from training on, or let it where that is over; call it every second."""
        if self._lease is None or not self._lease.held:
            return
        await self._on_lease(self._lease.end if self._is_gone() else self._lease.look, self._time.now())

    async def release(self, request: str) -> None:
        """Let a trainer that pauses for this request train on."""
        if self._lease is not None and self._lease.holds(request):
            await self._on_lease(self._lease.end, self._time.now())

    def paused(self, begin: float, end: float) -> float:
        """Return for how many seconds between two times the trainer was kept from training on."""
        return 0.0 if self._lease is None else self._lease.paused(begin, end)

    async def look(self) -> list[Candidate]:
        """Scan once and return the complete checkpoints, oldest first; raises OSError."""
        if self._watch is None:
            return []
        async with self._scanning:
            found = await asyncio.to_thread(self._watch.scan, self._training(), self._step())
        if found and found[-1].step is not None:
            digest = self._digests.get((found[-1].path, found[-1].fingerprint))
            self.newest = _message(found[-1], digest)
        return found

    async def verify_newest(self, seconds: float) -> Checkpoint | None:
        """Return the newest complete checkpoint that can be read in so many seconds; raises OSError."""
        deadline = self._time.now() + seconds
        for candidate in reversed(await self.look()):
            try:
                return await self._verify(candidate, deadline - self._time.now())
            except UnreadableError as error:
                _LOG.warning("checkpoint %s", error)
        return None

    async def obtain(self, instruction: CheckpointInstruction, identity: Identity) -> Acknowledgement:
        """Carry out the instruction, or take part in what carries it out already, and return the answer."""
        task = self._answers.get(instruction.id)
        if task is None:
            task = asyncio.create_task(self._carry_out(instruction))
            self._answers[instruction.id] = task
            for old in list(self._answers)[:-_REMEMBERED]:
                self._answers.pop(old).cancel()
        # Shielded: a second asker that goes away does not end it for the first.
        checkpoint, reason = await asyncio.shield(task)
        return Acknowledgement(
            schema=1,
            replica=identity.replica,
            incarnation=identity.incarnation,
            id=instruction.id,
            done=not reason,
            checkpoint=checkpoint,
            reason=reason[:512],
            paused=not reason and self._lease is not None and self._lease.holds(instruction.id),
        )

    async def _carry_out(self, instruction: CheckpointInstruction) -> tuple[Checkpoint | None, str]:
        """Return the checkpoint, or None and the reason; then nobody pauses."""
        if self._lease is None:
            return await self._obtained(instruction)
        if instruction.pause:
            await self._on_lease(self._lease.begin, instruction.id)
        else:
            await self._on_lease(self._lease.end, self._time.now())
        checkpoint, reason = await self._obtained(instruction)
        if reason:
            await self.release(instruction.id)
        elif self._lease.holds(instruction.id):
            self._lease.grant(self._time.now(), instruction.pause)
        return checkpoint, reason

    async def _on_lease(self, change: Callable[[_P], None], argument: _P) -> None:
        async with self._leasing:
            await asyncio.to_thread(change, argument)

    async def _obtained(self, instruction: CheckpointInstruction) -> tuple[Checkpoint | None, str]:
        if self._mode.kind == "none":
            return None, "the job declares no way to a checkpoint"
        try:
            if self._mode.kind == "sigterm":
                # It saves when told to end, and is verified then; an earlier one is told if there is one.
                return await self.verify_newest(instruction.seconds_left), ""
            if self._watch is None:
                return None, "the job declares no checkpoint path"
            return await self._wait_for_new(self._watch, instruction)
        except OSError as error:
            return None, f"the checkpoint path cannot be read: {error}"
        except CancelledError:
            return None, "the trainer has ended"

    async def _wait_for_new(
        self, watch: CheckpointWatch, instruction: CheckpointInstruction
    ) -> tuple[Checkpoint | None, str]:
        begun = self._time.now()
        deadline = begun + instruction.seconds_left
        await self.look()
        old = watch.known()
        asking = _Asking(self._mode, self._process, instruction.id, self._ask)
        unreadable = ""
        ended = False
        while True:
            if not ended and self._is_gone():
                ended = True
                # What it wrote last may still have to settle.
                deadline = min(deadline, self._time.now() + watch.settle + _LAST_LOOK_SECONDS)
            if not ended:
                await asking.ask(self._time.now())
            for candidate in reversed(await self.look()):
                if old.get(candidate.path) == candidate.fingerprint:
                    continue
                try:
                    return await self._verify(candidate, deadline - self._time.now()), ""
                except UnreadableError as error:
                    unreadable = str(error)
                    old[candidate.path] = candidate.fingerprint
                    self.unreadable += 1
            if self._time.now() >= deadline:
                what = f"no new checkpoint within {instruction.seconds_left:.0f} s"
                what = "the trainer ended without a new checkpoint" if ended else what
                trouble = unreadable or watch.lacking or asking.trouble
                return None, f"{what}: {trouble}" if trouble else what
            soon = self._time.now() - begun < _SOON_SECONDS
            await self._time.sleep(_LOOK_SECONDS if soon else _LATER_LOOK_SECONDS)

    def _is_gone(self) -> bool:
        return self._ended or (self._process is not None and not self._process.alive)

    async def _verify(self, candidate: Candidate, seconds: float) -> Checkpoint:
        if candidate.step is None:
            raise UnreadableError(f"{candidate.path.name}: tells no step, and neither does the log")
        key = (candidate.path, candidate.fingerprint)
        if key not in self._digests:
            cancelled = Event()
            self._verifying.add(cancelled)
            try:
                async with asyncio.timeout(max(0.0, seconds)):
                    digest = await asyncio.to_thread(verify, candidate, cancelled)
            except TimeoutError:
                raise UnreadableError(f"{candidate.path.name}: not read to its end in time") from None
            finally:
                cancelled.set()  # the thread may still be reading
                self._verifying.discard(cancelled)
            self._digests = {key: digest}
            self.verified += 1
        self.newest = _message(candidate, self._digests[key])
        return self.newest


class _Asking:
    """Asks the trainer once, and where that fails again at most twice a second."""

    def __init__(self, mode: CheckpointMode, process: Trainer | None, instruction: str, asker: Asker) -> None:
        self._arguments = (mode, process, instruction)
        self._asker = asker
        self._again_at: float | None = -math.inf
        self.trouble = ""

    async def ask(self, now: float) -> None:
        if self._again_at is None or now < self._again_at:
            return
        try:
            await self._asker(*self._arguments)
        except CannotAskError as error:
            self.trouble, self._again_at = str(error), now + _ASK_AGAIN_SECONDS
        else:
            self.trouble, self._again_at = "", None


def _message(candidate: Candidate, digest: str | None) -> Checkpoint:
    path = os.fsencode(candidate.path).decode("utf-8", "replace")
    return Checkpoint(step=candidate.step or 0, path=path, digest=digest)
