"""One sidecar at work: follow the log, judge each interval, watch checkpoints, talk to the manager."""

import asyncio
import contextlib
import logging
import os
from collections.abc import Callable, Coroutine, Iterable
from pathlib import Path
from random import Random
from typing import Any, Final

from specon_sidecar.checkpoints.checkpoint_request import Checkpoints, Identity
from specon_sidecar.checkpoints.checkpoint_watch import CheckpointWatch
from specon_sidecar.checkpoints.pause_lease import RENEW_SECONDS, PauseLease, lease_file
from specon_sidecar.checkpoints.verify import CancelledError
from specon_sidecar.clock import RealTime
from specon_sidecar.following.log_choice import choose_log
from specon_sidecar.observing.follow import LogFollower
from specon_sidecar.observing.resume import begin
from specon_sidecar.observing.state_file import save
from specon_sidecar.observing.trouble import explain
from specon_sidecar.reporting.console import Narrator, summary
from specon_sidecar.reporting.links import Instructed, Manager, Reporter
from specon_sidecar.reporting.outbox import Outbox, OutboxSettings
from specon_sidecar.reporting.outcome import Outcome
from specon_sidecar.reporting.snapshot import Snapshot
from specon_sidecar.settings import Settings
from specon_sidecar.trainer.process import Trainer, TrainerProcess, Usage
from specon_sidecar.trainer.search import SearchedTrainer
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
_RETRY_SECONDS: Final = 0.1
_SCAN_SECONDS: Final = 1.0
_LOOKS: Final = 0.02  # of an interval: between two looks whether it is over, where the trainer was stopped
_SCAN_SHARE: Final = 20.0  # a scan that takes long is made so many times rarer than it is long


class Sidecar:
    """The parts of a sidecar, wired."""

    def __init__(self, settings: Settings, manager: Manager | None, write: Callable[[str], object]) -> None:
        """Read what was before; must be made in a running event loop. Without a manager it writes lines."""
        self._settings = settings
        self._write = write
        self._time = RealTime()
        log = choose_log(settings.log)
        self._training = TrainingTime(self._time, _file(settings.stopped_file))
        self._observer, start = begin(settings, self._training.now(), log)
        self._follower = LogFollower(settings, log, start)
        self._process = _trainer(settings)
        self._checkpoints = Checkpoints(
            mode=settings.checkpoint,
            watch=_watch(settings),
            process=self._process,
            step=lambda: self._observer.step,
            clock=self._time,
            lease=PauseLease(settings.checkpoint, _path(settings)),
            training=self._training.now,
        )
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
        parts = [self._judge(), self._explain()]
        if self._settings.checkpoint_path is not None:
            parts += [self._look(), self._keep_pause()]
        if self._reporter is not None:
            parts.append(self._reporter.run())
        return parts

    async def _follow(self) -> None:
        # Cancelled, it is in the generator, which then ends its watching threads: nothing here waits.
        async for lines in self._follower.batches():
            trained = self._observer.first_seen
            self._observer.take(lines, self._training.now())
            if self._observer.first_seen and not trained:
                self._offer()

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
        """Say, as long as there is no sample, what is seen instead, and again where that changes."""
        known = ""
        while not self._observer.samples:
            await self._time.sleep(self._settings.explain_after)
            follower, options = self._follower, self._settings.format_options
            trouble = explain(self._observer, follower.look(), options, follower.oversized)
            if trouble is None or trouble.kind == known:
                continue
            known, self._observer.trouble = trouble.kind, trouble.text
            _LOG.warning("%s", trouble.text)
            self._offer()

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
        """Send what is known now, which covers all that still waits, and the answers that are known."""
        self._outbox.heartbeat = 0.0  # this one is due in any case
        reporter.offer()
        report = self._outbox.newest(self._time.now())
        while report is not None and await reporter.send(report) is Outcome.LOST:
            await self._time.sleep(_RETRY_SECONDS)
        await instructed.drain()

    async def _save(self) -> None:
        position, events = self._follower.position, self._follower.event_positions
        if self._settings.state_file is None or (position is None and not events):
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
        identity = self._identity()
        return self._observer.report(
            self._training.now(),
            replica=identity.replica,
            incarnation=identity.incarnation,
            session=self._session,
            checkpoint=self._checkpoints.newest,
            cpu_seconds=None if usage is None else usage.cpu_seconds,
            memory_bytes=None if usage is None else usage.memory_bytes,
            stopped_seconds=self._training.stopped or None,
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


def _trainer(settings: Settings) -> Trainer | None:
    if settings.trainer_pid == "auto":
        return SearchedTrainer()
    return None if settings.trainer_pid is None else TrainerProcess(settings.trainer_pid)


def _watch(settings: Settings) -> CheckpointWatch | None:
    path = _path(settings)
    if path is None:
        return None
    files = [settings.state_file, settings.log, lease_file(settings.checkpoint, path)]
    if settings.checkpoint.kind == "file":
        files.append(settings.checkpoint.target)
    return CheckpointWatch(
        path,
        marker=settings.marker,
        settle=settings.settle,
        ignore=frozenset(Path(file) for file in files if file is not None),
    )


def _path(settings: Settings) -> Path | None:
    return _file(settings.checkpoint_path)


def _file(path: str | None) -> Path | None:
    return None if path is None else Path(path)
