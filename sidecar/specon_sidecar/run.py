"""One sidecar at work: follow the log, judge each interval, watch checkpoints, talk to the manager."""

import asyncio
import contextlib
import logging
import os
import time
from collections.abc import Callable, Coroutine, Iterable
from pathlib import Path
from random import Random
from typing import Any, Final

from msgspec.structs import astuple

from specon_sidecar.checkpoints.checkpoint_request import Checkpoints, Identity
from specon_sidecar.checkpoints.find import Fingerprint
from specon_sidecar.checkpoints.pause_lease import RENEW_SECONDS, Keeper, PauseLease, file_keeper
from specon_sidecar.checkpoints.verify import Budget, CancelledError
from specon_sidecar.clock import RealTime
from specon_sidecar.following.log_choice import choose_log
from specon_sidecar.hook.held import SocketKeeper
from specon_sidecar.hook.messages import Progress, Saved
from specon_sidecar.hook.server import Hook
from specon_sidecar.observing.lookout import Lookout
from specon_sidecar.observing.resume import begin
from specon_sidecar.observing.state import Kept
from specon_sidecar.observing.state_file import save
from specon_sidecar.observing.trouble import Trouble, explain
from specon_sidecar.parts import (
    checkpoint_path,
    make_follower,
    make_sharing,
    make_stops,
    make_trainer,
    make_watch,
)
from specon_sidecar.reporting.console import Narrator, summary
from specon_sidecar.reporting.leases import Leases
from specon_sidecar.reporting.links import Instructed, Manager, Reporter
from specon_sidecar.reporting.outbox import Outbox, OutboxSettings
from specon_sidecar.reporting.outcome import Outcome
from specon_sidecar.reporting.snapshot import Snapshot
from specon_sidecar.settings import Settings
from specon_sidecar.trainer.process import Usage
from specon_sidecar.trainer.stops import TrainingTime
from specon_sidecar.wire import (
    Acknowledgement,
    CheckpointInstruction,
    Instruction,
    IntervalInstruction,
    ReleaseInstruction,
    Report,
    StopInstruction,
)

_LOG = logging.getLogger(__name__)
_FAREWELL_SECONDS: Final = (
    2.0  # each: to read the log to its end, to verify a checkpoint, to send the last report
)

_OFFER_SECONDS: Final = 10.0  # to verify a checkpoint that the trainer waits to go on from
_REMEMBER_SECONDS: Final = 15.0  # part of that wait: for a manager that says which checkpoint to use
_RETRY_SECONDS: Final = 0.1
_SCAN_SECONDS: Final = 1.0
_LOOKS: Final = 0.02  # of an interval: between two looks whether it is over, where the trainer was stopped
_PROOF_SECONDS: Final = 300.0  # to verify what a trainer that hangs has saved
_SCAN_SHARE: Final = 20.0  # a scan that takes long is made so many times rarer than it is long


class Sidecar:
    """The parts of a sidecar, wired."""

    def __init__(self, settings: Settings, manager: Manager | None, write: Callable[[str], object]) -> None:
        """Read the history; must be made in a running event loop. Without a manager it writes lines."""
        self._settings = settings
        self._write = write
        self._time = RealTime()
        self._loop = asyncio.get_running_loop()
        log = choose_log(settings.log)
        self._process = make_trainer(settings)
        self._sharing = make_sharing(settings, self._process)
        self._training = TrainingTime(self._time, make_stops(settings, self._sharing))
        self._observer, start = begin(settings, self._training.now(), log)
        self._follower = make_follower(settings, log, start, manager)
        self._hook = None if settings.hook is None else Hook(Path(settings.hook), self, self._time)
        self._checkpoints = Checkpoints(
            mode=settings.checkpoint,
            watch=make_watch(settings),
            process=self._process,
            step=lambda: self._observer.step,
            by_epochs=lambda: self._observer.by_epochs,
            clock=self._time,
            lease=PauseLease(self._keeper),
            training=self._training.now,
            hook=self._hook,
            budget=Budget(settings.verify.seconds, settings.verify.whole),
            volumes=settings.volume,
        )
        self._left = self._observer.kept if self._observer.brought_back else ()
        for kept in self._observer.kept:
            looked = None if kept.fingerprint is None else Fingerprint(*kept.fingerprint)
            self._checkpoints.note_saved(Saved(kept.path, kept.step), looked)
        self._lookout = Lookout(self._observer, self._process, checkpoint_path(settings))
        rng = Random()  # noqa: S311 - spreads retries, guards nothing
        self._outbox = Outbox(OutboxSettings(heartbeat=settings.heartbeat), rng)
        self._narrator = Narrator()
        self._session = os.urandom(8).hex()
        self._ended = False
        self._state_complained = False
        self._stopping = asyncio.Event()
        self._manager = manager
        self._reporter: Reporter | None = None
        self._instructed: Instructed | None = None
        if manager is not None:
            self._reporter = Reporter(manager, self._outbox, self._report, self._time)
            self._instructed = Instructed(manager, self._carry_out, self._time, rng)

    def stop(self) -> None:
        """End: the trainer is gone, or the user has seen enough."""
        self._ended = True
        self._stopping.set()

    async def run(self) -> None:
        """Work until `stop`; raises what broke one of the parts, after the farewell."""
        follow = asyncio.create_task(self._follow())
        parts = [asyncio.create_task(part) for part in self._parts()]
        tasks: list[asyncio.Task[Any]] = [follow, *parts]
        if self._instructed is not None:
            tasks.append(asyncio.create_task(self._instructed.run()))
        if self._sharing is not None and self._manager is not None:
            leases = Leases(self._manager, self._time, self._sharing)
            tasks.append(asyncio.create_task(leases.run()))
        stopping = asyncio.create_task(self._stopping.wait())
        try:
            while not stopping.done():
                done, _ = await asyncio.wait({stopping, *tasks}, return_when=asyncio.FIRST_COMPLETED)
                for task in [task for task in tasks if task in done]:
                    task.result()
                    # The manager said that this incarnation is gone: the log is followed all the same.
                    tasks.remove(task)
            # From here on only the farewell reports; answers to instructions are still sent.
            for part in parts:
                part.cancel()
            await self._farewell(follow)
        finally:
            self._checkpoints.cancel()
            for task in (stopping, *tasks):
                task.cancel()
            await asyncio.gather(stopping, *tasks, return_exceptions=True)

    def snapshot(self) -> Snapshot:
        """Return what the metrics tell."""
        observer = self._observer
        return Snapshot(
            report=self._state_report(None),
            goal=None if observer.last is None else observer.goal,
            step=observer.step,
            oversized=self._follower.oversized,
            reports_sent=self._outbox.sent,
            reports_failed=self._outbox.failed,
            changes_dropped=self._outbox.dropped,
            checkpoints_verified=self._checkpoints.verified,
            checkpoints_unreadable=self._checkpoints.unreadable,
        )

    def _parts(self) -> list[Coroutine[Any, Any, None]]:
        parts = [self._judge(), self._explain(), self._watch_for_hang()]
        if self._settings.checkpoint_path is not None:
            parts.append(self._look())
        if self._settings.checkpoint_path is not None or self._hook is not None:
            parts.append(self._keep_pause())
        if self._hook is not None:
            parts.append(self._hook.serve())
        port, token = self._settings.status_port, self._settings.incarnation
        if port is not None and token is not None:
            # Only here: most sidecars that stand alone have no such port.
            from specon_sidecar.status_server.server import StatusServer  # noqa: PLC0415 - see above

            parts.append(StatusServer(port, token, self._on_status).serve())
        if self._reporter is not None:
            parts.append(self._reporter.run())
        if self._sharing is not None:
            parts.append(self._sharing.run())
        return parts

    async def _follow(self) -> None:
        # Cancelled, it is in the generator, which then ends its watching threads: nothing here waits.
        async for lines in self._follower.batches():
            trained = self._observer.first_seen
            self._observer.take(lines, self._training.now(), time.time())
            self._lookout.take(lines)
            if self._observer.first_seen and not trained:
                self._offer()

    def on_hello(self) -> None:
        """Say no longer that the trainer's helper never reported."""
        if self._observer.remark:
            self._observer.remark = ""
            self._offer()

    def on_report(self, progress: Progress) -> None:
        """Take what the trainer says of itself."""
        trained = self._observer.first_seen
        self._observer.hear(progress, self._training.now())
        if not trained:
            self._offer()

    def _on_status(self, progress: Progress) -> None:
        """Take what the trainer reports as to Kubeflow Trainer, unless its helper says more."""
        if self._hook is None or not self._hook.spoke:
            self.on_report(progress)

    async def on_saved(self, saved: Saved) -> None:
        """Take note of a checkpoint, and keep that for the next incarnation."""
        await self._checkpoints.hear(saved)
        self._observer.kept = tuple(self._collect_kept(told) for told in self._checkpoints.told)
        self._offer()
        await self._save()

    def _collect_kept(self, told: Saved) -> Kept:
        looked = self._checkpoints.recall_fingerprint(told)
        return Kept(told.path, told.step, None if looked is None else astuple(looked))

    async def offer(self) -> Saved | None:
        """Return the verified checkpoint that this incarnation may go on from, where another one left it."""
        for kept in reversed(self._left or await self._recall()):
            found = await self._checkpoints.verify_told(Saved(kept.path, kept.step), _OFFER_SECONDS)
            if found is not None:
                return Saved(found.path, found.step)
        return None

    async def _recall(self) -> tuple[Kept, ...]:
        """Return from where the manager says that the training may go on: where pods leave nothing behind."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_REMEMBER_SECONDS):
                while self._manager is not None:
                    outcome, found = await self._manager.resumable()
                    if outcome is not Outcome.LOST:
                        return () if found is None else (Kept(found.path, found.step),)
                    await self._time.sleep(_RETRY_SECONDS)
        return ()

    @property
    def _silence(self) -> Trouble | None:
        """Why the trainer's helper says nothing, where it was to."""
        if self._hook is None or self._observer.first_seen:
            return None
        text = self._hook.silence or "the trainer's helper is there, and has reported no step yet"
        return Trouble(text, text)

    def _keeper(self) -> Keeper | None:
        """Return how the trainer can be kept waiting after a save."""
        if self._settings.checkpoint.kind == "hook" and self._hook is not None:
            return SocketKeeper(self._hook, self._loop) if self._hook.can_ask else None
        return file_keeper(self._settings.checkpoint, checkpoint_path(self._settings))

    async def _judge(self) -> None:
        interval = self._settings.classifier.interval
        end = self._time.now()
        due = self._training.now() + interval
        while True:
            await self._training.sleep_until(due, _LOOKS * interval)
            begin, end = end, self._time.now()
            now = self._training.now()
            due = max(due + interval, now)
            self._observer.tick(now, self._checkpoints.paused(begin, end))
            self._offer()
            if self._manager is None:
                self._tell(self._narrator.interval(self._observer))
            await self._save()

    async def _explain(self) -> None:
        """Say, as long as there is no sample, what the log shows instead, and again where that changes."""
        known, after = "", self._settings.explain_after
        while True:
            # A trainer that is stopped for the sake of others cannot write.
            await self._training.sleep_until(self._training.now() + after, _LOOKS * after)
            # Of a job whose log is understood it stands beside the verdict: that job cannot be asked.
            self._observer.remark = self._hook.silence if self._hook is not None else ""
            if self._observer.first_seen:
                if not self._observer.remark:
                    return
                continue
            follower, options = self._follower, self._settings.format_options
            trouble = self._silence or explain(self._observer, follower.look(), options, follower.oversized)
            if trouble is None or trouble.kind == known:
                continue
            known, self._observer.trouble = trouble.kind, trouble.text
            _LOG.warning("%s", trouble.text)
            self._offer()

    async def _watch_for_hang(self) -> None:
        end = self._time.now()
        while True:
            await self._time.sleep(self._lookout.pace)
            begin, end = end, self._time.now()
            if not await self._lookout.look(self._training.now(), self._checkpoints.paused(begin, end)):
                continue
            _LOG.warning("the trainer %s", "hangs" if self._lookout.hangs else "hangs no more")
            self._offer()
            if self._lookout.hangs:
                await self._prove()
                self._offer()

    async def _prove(self) -> None:
        """Verify the newest checkpoint: what hangs saves none any more, and may have to go on from it."""
        try:
            async with asyncio.timeout(_PROOF_SECONDS):
                await self._checkpoints.verify_newest(_PROOF_SECONDS)
        except (OSError, CancelledError) as error:
            _LOG.warning("checkpoint path: %s", str(error) or type(error).__name__)

    async def _look(self) -> None:
        complained = False
        while True:
            begun = self._time.now()
            try:
                await self._checkpoints.look()
                complained = False
            except OSError as error:
                if not complained:
                    _LOG.warning("checkpoint path: %s", error)
                complained = True
            self._offer()
            await self._time.sleep(max(_SCAN_SECONDS, _SCAN_SHARE * (self._time.now() - begun)))

    async def _keep_pause(self) -> None:
        while True:
            await self._checkpoints.keep_pause()
            await self._time.sleep(RENEW_SECONDS)

    async def _carry_out(self, instruction: Instruction) -> Acknowledgement:
        identity = self._identity()
        if isinstance(instruction, CheckpointInstruction):
            with contextlib.nullcontext() if self._sharing is None else self._sharing.leave_undisturbed():
                answer = await self._checkpoints.obtain(instruction, identity)
            self._offer()
            return answer
        if isinstance(instruction, IntervalInstruction):
            self._outbox.heartbeat = instruction.seconds
            if self._reporter is not None:
                self._reporter.hurry()
        elif isinstance(instruction, ReleaseInstruction):
            await self._checkpoints.release(instruction.request)
        elif isinstance(instruction, StopInstruction):
            self._stopping.set()
        return Acknowledgement(
            schema=1,
            replica=identity.replica,
            incarnation=identity.incarnation,
            id=instruction.id,
            done=True,
        )

    async def _farewell(self, follow: asyncio.Task[None]) -> None:
        """Read the log to its end, verify the newest checkpoint, send the last report; all bounded."""
        self._follower.stop()
        if self._ended:
            self._checkpoints.note_trainer_end()
        await asyncio.wait({follow}, timeout=_FAREWELL_SECONDS)
        self._observer.finish(self._training.now())
        await self._save()
        if self._ended and self._manager is not None:
            try:
                async with asyncio.timeout(_FAREWELL_SECONDS):
                    await self._checkpoints.verify_newest(_FAREWELL_SECONDS)
            except (OSError, CancelledError) as error:
                _LOG.warning("checkpoint path: %s", str(error) or type(error).__name__)
        if self._manager is None:
            self._tell(self._narrator.changes(self._observer))
            self._tell(summary(self._observer))
        elif self._reporter is not None and self._instructed is not None:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._send_last(self._reporter, self._instructed), _FAREWELL_SECONDS)

    async def _send_last(self, reporter: Reporter, instructed: Instructed) -> None:
        """Send the report of now, which covers all that still waits, and the known answers."""
        self._outbox.heartbeat = 0.0  # this one is due in any case
        reporter.offer()
        report = self._outbox.newest(self._time.now())
        while report is not None and await reporter.send(report) is Outcome.LOST:
            await self._time.sleep(_RETRY_SECONDS)
        await instructed.drain()

    async def _save(self) -> None:
        position, events = self._follower.position, self._follower.event_positions
        if self._settings.state_file is None or (position is None and not events and self._hook is None):
            return
        state = self._observer.state(self._training.now(), self._settings.incarnation or "", position, events)
        if state is None:
            return
        try:
            await asyncio.to_thread(save, state, Path(self._settings.state_file))
        except OSError as error:
            if not self._state_complained:
                _LOG.warning("state file %s: %s", self._settings.state_file, error.strerror)
            self._state_complained = True

    def _report(self, _: float) -> Report:
        process = self._process if self._settings.resources else None
        return self._state_report(None if process is None else process.usage())

    def _state_report(self, usage: Usage | None) -> Report:
        identity, now = self._identity(), self._training.now()
        return self._observer.report(
            now,
            replica=identity.replica,
            incarnation=identity.incarnation,
            session=self._session,
            checkpoint=self._checkpoints.newest,
            cpu_seconds=None if usage is None else usage.cpu_seconds,
            memory_bytes=None if usage is None else usage.memory_bytes,
            stopped_seconds=self._training.stopped or None,
            hang=None if self._ended else self._lookout.evidence(now),
            share=None if self._sharing is None else self._sharing.report(),
            ended=self._ended,
        )

    def _identity(self) -> Identity:
        return Identity(self._settings.replica or "", self._settings.incarnation or "")

    def _offer(self) -> None:
        if self._reporter is not None:
            self._reporter.offer()

    def _tell(self, lines: Iterable[str]) -> None:
        for line in lines:
            self._write(line)
