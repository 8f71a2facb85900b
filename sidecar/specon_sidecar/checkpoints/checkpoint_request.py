"""A checkpoint that was asked for: ask the trainer, wait until one is complete, verify it, answer.

One instruction has one effect, however often it is seen; its answer is remembered and given again. Where a
pause was asked for, the trainer waits after the save: see `pause_lease`. What the trainer's helper says is
saved is looked at where it is, at once.
"""

import asyncio
import logging
import os
from collections import deque
from collections.abc import Callable
from pathlib import Path
from threading import Event
from typing import Final, TypeVar

from msgspec import Struct

from specon_sidecar.checkpoints.ask import Asker, Asking, ask
from specon_sidecar.checkpoints.checkpoint_watch import CheckpointWatch, UnverifiedCheckpoint, candidate_at
from specon_sidecar.checkpoints.find import Fingerprint, fingerprint
from specon_sidecar.checkpoints.pause_lease import PauseLease
from specon_sidecar.checkpoints.verify import Budget, CancelledError, UnreadableError, Verified, verify
from specon_sidecar.checkpoints.volumes import describe_misplacement
from specon_sidecar.clock import Time
from specon_sidecar.hook.messages import Saved
from specon_sidecar.hook.server import Hook
from specon_sidecar.parse import CheckpointMode
from specon_sidecar.trainer.process import Trainer
from specon_sidecar.wire import Acknowledgement, Checkpoint, CheckpointInstruction

_LOG = logging.getLogger(__name__)
_P = TypeVar("_P")
_LOOK_SECONDS: Final = 0.05
_LATER_LOOK_SECONDS: Final = 0.25
_SOON_SECONDS: Final = 10.0
_LAST_LOOK_SECONDS: Final = 0.2
_REMEMBERED: Final = 64
_KEPT: Final = 4
_ABSENT: Final = Fingerprint(0, 0, 0, 0)  # of a checkpoint that was reported and could not be looked at


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
        by_epochs: Callable[[], bool] = lambda: False,
        clock: Time,
        asker: Asker = ask,
        lease: PauseLease | None = None,
        training: Callable[[], float] | None = None,
        hook: Hook | None = None,
        budget: Budget = Budget(),  # noqa: B008 - frozen
        volumes: tuple[str, ...] | None = None,
    ) -> None:
        """Prepare; `step` tells the last step in the log, `watch` is None without a declared path.

        `by_epochs` tells whether the log counts epochs alone.

        Without a lease no trainer is asked to pause. `training` is a clock that stands still while the
        trainer is stopped: a file that it does not write then is not complete for that. What the trainer
        tells of counts within `volumes`; None: anywhere.
        """
        self._mode = mode
        self._watch = watch
        self._process = process
        self._step = step
        self._by_epochs = by_epochs
        self._time = clock
        self._ask = asker
        self._training = training or clock.now
        self._lease = lease
        self._hook = hook
        self._told: deque[Saved] = deque(maxlen=_KEPT)
        self._told_as: dict[Saved, Fingerprint] = {}
        self._budget = budget
        self._volumes = volumes
        self._leasing = asyncio.Lock()
        self._scanning = asyncio.Lock()
        self._verifying: set[Event] = set()
        self._ended = False
        self._answers: dict[str, asyncio.Task[tuple[Checkpoint | None, str, float]]] = {}
        self._digests: dict[tuple[object, object], Verified] = {}
        self.newest: Checkpoint | None = None
        """The newest complete checkpoint; verified if somebody asked for it."""
        self.verified = 0
        self.unreadable = 0

    @property
    def told(self) -> tuple[Saved, ...]:
        """The last checkpoints that the trainer's helper announced, oldest first."""
        return tuple(self._told)

    def recall_fingerprint(self, saved: Saved) -> Fingerprint | None:
        """Return how a checkpoint looked when it was told of; None where that is not known."""
        return self._told_as.get(saved)

    async def hear(self, saved: Saved) -> None:
        """Look at a checkpoint that the trainer's helper announces now; note it if it can be one."""
        if why := await asyncio.to_thread(describe_misplacement, saved.path, self._volumes):
            _LOG.warning("checkpoint %s", why)
            return
        self.note_saved(saved, await asyncio.to_thread(_fingerprint, saved))

    def note_saved(self, saved: Saved, told_as: Fingerprint | None = None) -> None:
        """Take note of a checkpoint that the trainer's helper announced, and how it looked then."""
        # Several ranks tell of the same one, and a file that is written again and again is one of now alone.
        for known in [known for known in self._told if known.path == saved.path]:
            self._told.remove(known)
        self._told.append(saved)
        if told_as is not None:
            self._told_as[saved] = told_as
        self._told_as = {known: self._told_as[known] for known in self._told if known in self._told_as}
        if self._digest_of(saved) is None:
            self.newest = Checkpoint(step=saved.step, path=saved.path)

    def note_trainer_end(self) -> None:
        """Note that the trainer is gone: requests end soon, for nothing new will come."""
        self._ended = True
        if self._watch is not None:
            self._watch.settle = 0.0  # nobody is left to change anything

    def cancel(self) -> None:
        """Call off the present request: it is answered with a refusal."""
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

    async def look(self) -> list[UnverifiedCheckpoint]:
        """Scan once and return the complete checkpoints, oldest first; raises OSError."""
        if self._watch is None:
            return []
        async with self._scanning:
            found = await asyncio.to_thread(
                self._watch.scan, self._training(), self._step(), by_epochs=self._by_epochs()
            )
        if found and found[-1].step is not None:
            known = self._digests.get((found[-1].path, found[-1].fingerprint))
            self.newest = _message(found[-1], known)
        return found

    async def verify_newest(self, seconds: float) -> Checkpoint | None:
        """Return the newest complete checkpoint that can be read in so many seconds; raises OSError."""
        deadline = self._time.now() + seconds
        for saved in reversed(self._told):
            if (checkpoint := await self.verify_told(saved, deadline - self._time.now())) is not None:
                return checkpoint
        for candidate in reversed(await self.look()):
            try:
                return await self._verify(candidate, deadline - self._time.now())
            except UnreadableError as error:
                _LOG.warning("checkpoint %s", error)
        return None

    async def verify_told(self, saved: Saved, seconds: float) -> Checkpoint | None:
        """Return that checkpoint if it can be read in so many seconds."""
        try:
            return await self._verify_saved(saved, seconds)
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
        checkpoint, reason, known_at = await asyncio.shield(task)
        return Acknowledgement(
            schema=1,
            replica=identity.replica,
            incarnation=identity.incarnation,
            id=instruction.id,
            done=not reason,
            checkpoint=checkpoint,
            reason=os.fsencode(reason).decode("utf-8", "replace")[:512],
            paused=not reason and self._lease is not None and self._lease.holds(instruction.id),
            age=max(0.0, self._time.now() - known_at),
        )

    async def _carry_out(self, instruction: CheckpointInstruction) -> tuple[Checkpoint | None, str, float]:
        """Return the checkpoint, or None and the reason; then nobody pauses. And when that was known."""
        if self._lease is None:
            return *await self._obtain(instruction), self._time.now()
        if instruction.pause:
            await self._on_lease(self._lease.begin, instruction.id)
        else:
            await self._on_lease(self._lease.end, self._time.now())
        checkpoint, reason = await self._obtain(instruction)
        if reason:
            await self.release(instruction.id)
        elif self._lease.holds(instruction.id):
            self._lease.grant(self._time.now(), instruction.pause)
        return checkpoint, reason, self._time.now()

    async def _on_lease(self, change: Callable[[_P], None], argument: _P) -> None:
        async with self._leasing:
            await asyncio.to_thread(change, argument)

    async def _obtain(self, instruction: CheckpointInstruction) -> tuple[Checkpoint | None, str]:
        if self._mode.kind == "none":
            return None, "the job declares no way to a checkpoint"
        try:
            if self._mode.kind == "sigterm":
                # It saves when told to end, and is verified then; an earlier one is told if there is one.
                return await self.verify_newest(instruction.seconds_left), ""
            if self._watch is None and self._hook is None:
                return None, "the job declares no checkpoint path"
            return await self._wait_for_new(instruction)
        except OSError as error:
            return None, f"the checkpoint path cannot be read: {error}"
        except CancelledError:
            return None, "the trainer has ended"

    async def _wait_for_new(self, instruction: CheckpointInstruction) -> tuple[Checkpoint | None, str]:
        begun = self._time.now()
        deadline = begun + instruction.seconds_left
        await self.look()
        watch = self._watch
        old = {} if watch is None else watch.known()
        told = self._told[-1] if self._told else None
        asking = Asking(self._mode, self._process, instruction, self._ask, self._hook)
        unreadable = ""
        ended = False
        while True:
            if not ended and self._is_gone():
                ended = True
                # What it wrote last may still have to settle.
                settle = 0.0 if watch is None else watch.settle
                deadline = min(deadline, self._time.now() + settle + _LAST_LOOK_SECONDS)
            if not ended:
                await asking.ask(self._time.now())
            if (answer := await self._answer(asking, told, deadline)) is not None:
                return answer
            for candidate in () if asking.by_hook else reversed(await self.look()):
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
                lacking, passed_over = ("", "") if watch is None else (watch.lacking, watch.passed_over)
                trouble = unreadable or lacking or asking.trouble or passed_over
                return None, f"{what}: {trouble}" if trouble else what
            soon = self._time.now() - begun < _SOON_SECONDS
            await self._time.sleep(_LOOK_SECONDS if soon else _LATER_LOOK_SECONDS)

    async def _answer(
        self, asking: Asking, before: Saved | None, deadline: float
    ) -> tuple[Checkpoint | None, str] | None:
        """Return what the trainer's helper said became of the request; None as long as it said nothing."""
        if asking.refused:
            return None, asking.refused
        saved = self._find_saved(before) if asking.saved is None else asking.saved
        if saved is None:
            return None
        try:
            return await self._verify_saved(saved, deadline - self._time.now()), ""
        except UnreadableError as error:
            self.unreadable += 1
            return None, str(error)

    def _find_saved(self, before: Saved | None) -> Saved | None:
        """Return what the trainer's helper told of since, where the trainer is asked in another way."""
        if self._mode.kind == "hook" or not self._told or self._told[-1] is before:
            return None
        return self._told[-1]

    async def _verify_saved(self, saved: Saved, seconds: float) -> Checkpoint:
        """Verify what the trainer says it has saved; it says the step as well."""
        path = Path(saved.path)
        if misplacement := await asyncio.to_thread(describe_misplacement, saved.path, self._volumes):
            raise UnreadableError(misplacement)
        try:
            candidate = await asyncio.to_thread(candidate_at, path, step=saved.step)
        except OSError as error:
            why = error.strerror or error
            raise UnreadableError(
                f"{saved.path}: {why}: is it on a volume that the sidecar has, too?"
            ) from error
        known = next((known for known in self._told if known.path == saved.path), saved)
        told_as = self.recall_fingerprint(known)
        changed = told_as is not None and _differ(told_as, candidate.fingerprint)
        if changed or known.step != saved.step:
            raise UnreadableError(f"{path.name}: was changed after its step {saved.step} was told")
        return await self._verify(candidate, seconds)

    def _digest_of(self, saved: Saved) -> str | None:
        newest = self.newest
        same = newest is not None and (newest.path, newest.step) == (saved.path, saved.step)
        return newest.digest if newest is not None and same else None

    def _is_gone(self) -> bool:
        return self._ended or (self._process is not None and not self._process.alive)

    async def _verify(self, candidate: UnverifiedCheckpoint, seconds: float) -> Checkpoint:
        if candidate.step is None:
            raise UnreadableError(f"{candidate.path.name}: names no step, and the log names none")
        key = (candidate.path, candidate.fingerprint)
        if key not in self._digests:
            cancelled = Event()
            self._verifying.add(cancelled)
            try:
                async with asyncio.timeout(max(0.0, seconds)):
                    found = await asyncio.to_thread(verify, candidate, cancelled, self._budget)
            except TimeoutError:
                raise UnreadableError(f"{candidate.path.name}: not read to its end in time") from None
            finally:
                cancelled.set()  # the thread may still be reading
                self._verifying.discard(cancelled)
            self._digests = {key: found}
            self.verified += 1
        self.newest = _message(candidate, self._digests[key])
        return self.newest


def _fingerprint(saved: Saved) -> Fingerprint:
    try:
        return fingerprint(Path(saved.path))
    except OSError:
        return _ABSENT  # what lies there later was not complete then


def _differ(before: Fingerprint, now: Fingerprint) -> bool:
    # A volume that is mounted again may have other inodes; an older sidecar kept no sum.
    if before.times != now.times and before.times >= 0:
        return True
    return (before.files, before.size, before.modified_ns) != (now.files, now.size, now.modified_ns)


def _message(candidate: UnverifiedCheckpoint, found: Verified | None) -> Checkpoint:
    path, step = os.fsencode(candidate.path).decode("utf-8", "replace"), candidate.step or 0
    if found is None:
        return Checkpoint(step=step, path=path, told=candidate.told)
    return Checkpoint(step=step, path=path, digest=found.digest, read=found.read, told=candidate.told)
