"""What one pod prints, judged as its sidecar would: with the times at which it was printed."""

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Final

import aiohttp
import msgspec

from specon_manager.backends.kube.objects.annotations import Options
from specon_manager.backends.kube.objects.pod import Detail, PodInfo
from specon_manager.backends.kube.transport.api import Api, ApiError, ApiUnavailableError
from specon_sidecar.classify import ClassifierSettings
from specon_sidecar.formats.parser import FormatOptions
from specon_sidecar.formats.table import make_reader
from specon_sidecar.observing.follow_output import OutputFollower
from specon_sidecar.observing.observer import Observer
from specon_sidecar.wire import Report

_LINES: Final = 500  # between two turns of the loop: a long log is read when it is first looked at
_QUIET: Final = 2.0  # seconds without a line: the log is read to its end
_LATE: Final = 5.0  # seconds; a line that is older is of the past, and is caught up with
_MOST_INTERVALS: Final = 10_000  # of silence between two lines that are closed one by one


class Printed:
    """Follows one pod from the first line that its node still has."""

    def __init__(
        self,
        api: Api,
        pod: PodInfo,
        *,
        report: Callable[[Report], object],
        heartbeat: float,
        now: Callable[[], float] = time.time,
    ) -> None:
        """Read by `api`; `report` is called for each report. `now` is seconds since the epoch."""
        assert pod.detail is not None
        assert pod.detail.identity is not None
        self._api, self._pod, self._report, self._now = api, pod, report, now
        self._heartbeat = heartbeat
        self._replica = pod.detail.identity.replica
        self._settings = classifier_of(pod.detail.options)
        self._observer = _observer(pod.detail, self._settings, now())
        self._session = os.urandom(8).hex()
        self._sequence = 0
        self._due: float | None = None
        """When the interval ends that the last line is in."""
        self._last, self._read_at = 0.0, now()
        self._follower = OutputFollower(self, pod.detail.container)

    def end(self) -> None:
        """Read the rest, report for the last time, and end."""
        self._follower.stop()

    async def run(self) -> None:
        """Follow until `end`, or until cancelled."""
        reporting = asyncio.create_task(self._keep_reporting())
        try:
            async with contextlib.aclosing(self._follower.follow_timed()) as batches:
                async for batch in batches:
                    await self._take(batch)
        finally:
            reporting.cancel()
        self._observer.finish(self._now())
        self._send(ended=True)

    @contextlib.asynccontextmanager
    async def output(self, container: str, since: str) -> AsyncIterator[AsyncIterator[bytes]]:
        """Give what the container prints, in pieces; raises OSError."""
        query = {"container": container, "timestamps": "true"}
        if since:
            query["sinceTime"] = since
        try:
            async with self._api.output(self._pod.name, self._pod.namespace, query=query) as pieces:
                yield _whole(pieces)
        except (ApiError, ApiUnavailableError, aiohttp.ClientError) as error:
            raise OSError(str(error)) from error

    async def _take(self, batch: Sequence[tuple[float, bytes]]) -> None:
        """Take lines, and close the intervals that ended before each."""
        lines: list[bytes] = []
        at = self._now()
        for count, (printed, line) in enumerate(batch, 1):
            at = printed or self._now()
            if self._due is None:
                self._observer = _observer(self._pod.detail, self._settings, at)
                self._due = at + self._settings.interval
            if at >= self._due:
                self._observer.take(lines, self._due)
                lines = []
                self._close(at)
            lines.append(line)
            if count % _LINES == 0:
                self._observer.take(lines, at)
                lines = []
                await asyncio.sleep(0)
        self._observer.take(lines, at)
        self._last, self._read_at = at, self._now()

    def _caught_up(self) -> bool:
        """Whether the last lines read are of now, or nothing more came after them."""
        now = self._now()
        return now - self._last < _LATE or now - self._read_at > _QUIET

    def _close(self, until: float) -> None:
        """Close the intervals that have ended by then."""
        assert self._due is not None
        interval = self._settings.interval
        if until - self._due > _MOST_INTERVALS * interval:
            self._due = until - _MOST_INTERVALS * interval
        while self._due <= until:
            self._observer.tick(self._due)
            self._due += interval

    async def _keep_reporting(self) -> None:
        while True:
            await asyncio.sleep(self._heartbeat)
            # Lines of the past end their intervals themselves, and a report of the past would be a riddle.
            if not self._caught_up():
                continue
            if self._due is not None and self._now() - self._due > _LATE:
                self._close(self._now() - _LATE)
            self._send(ended=False)

    def _send(self, *, ended: bool) -> None:
        self._sequence += 1
        report = self._observer.report(
            self._now(),
            replica=self._replica,
            incarnation=self._pod.uid,
            session=self._session,
            ended=ended,
        )
        self._report(msgspec.structs.replace(report, sequence=self._sequence))


def classifier_of(options: Options) -> ClassifierSettings:
    """Return how a log is judged by what its pod's annotations say, if it has any."""
    given = {
        name: value
        for name in ("classifier", "alpha", "interval", "remaining_gain", "confidence", "goal")
        if (value := getattr(options, name)) is not None
    }
    return ClassifierSettings(**given)


def _observer(detail: Detail | None, settings: ClassifierSettings, now: float) -> Observer:
    assert detail is not None
    options = detail.options
    read = FormatOptions(metric=options.metric, pattern=options.pattern, goal=options.goal)
    return Observer(settings, make_reader(options.format or "auto", read), now)


async def _whole(pieces: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    async for piece in pieces.iter_any():
        yield piece
