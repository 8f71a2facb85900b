"""Which report is due now: changes at once and in order, else heartbeats; backoff while the manager is away.

Pure: the caller passes the time, the jitter's random numbers and the outcome of each sending.
"""

from collections import deque
from typing import Annotated, Protocol

from msgspec import Meta, Struct
from msgspec.structs import replace

from specon_sidecar.wire import Observation, Report


class Randomness(Protocol):
    """The interface needed of `random.Random`."""

    def uniform(self, least: float, most: float, /) -> float:
        """Return a number between the two."""
        ...


class OutboxSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Pace of the reports."""

    heartbeat: Annotated[float, Meta(gt=0)] = 10.0
    """Seconds between two reports when nothing changes."""
    backoff: Annotated[float, Meta(gt=0)] = 0.5
    """Longest wait after the first failure, seconds; doubled with each further one."""
    backoff_cap: Annotated[float, Meta(gt=0)] = 30.0
    """Longest wait after any failure, seconds."""
    changes: Annotated[int, Meta(ge=1)] = 64
    """So many changes are kept; beyond, the oldest is dropped."""


class _Waiting(Struct, frozen=True):
    report: Report
    at: float


class Outbox:
    """The reports that wait to be sent, with their sequence numbers."""

    def __init__(self, settings: OutboxSettings, rng: Randomness) -> None:
        self._settings = settings
        self._rng = rng
        self._changes: deque[_Waiting] = deque()
        self._heartbeat: _Waiting | None = None
        self._last: _Waiting | None = None
        self._retry_at = 0.0
        self._failures = 0
        self._sequence = 0
        self.heartbeat = settings.heartbeat
        """Seconds between heartbeats; the manager may ask for another pace."""
        self.sent = 0
        self.failed = 0
        self.dropped = 0
        """Changes that were lost because too many waited."""

    def offer(self, report: Report, now: float) -> bool:
        """Take the report if it tells a change or a heartbeat is due; its sequence number is given here.

        Returns whether it was taken. `now` is seconds on a clock that never goes back.
        """
        change = self._last is None or _differs(self._last.report, report)
        if not change and now < self.heartbeat_at:
            return False
        self._sequence += 1
        waiting = _Waiting(replace(report, sequence=self._sequence), now)
        self._last = waiting
        # A later report tells all that an earlier heartbeat told.
        self._heartbeat = None if change else waiting
        if change:
            self._changes.append(waiting)
            if len(self._changes) > self._settings.changes:
                self._changes.popleft()
                self.dropped += 1
        return True

    def due(self, now: float) -> Report | None:
        """Return the report to send now, with its ages moved on to `now`; None when none is due."""
        waiting = self._first()
        if waiting is None or now < self._retry_at:
            return None
        return _age(waiting.report, max(0.0, now - waiting.at))

    def newest(self, now: float) -> Report | None:
        """Return the report that was taken last, with its ages moved on to `now`."""
        return None if self._last is None else _age(self._last.report, max(0.0, now - self._last.at))

    def due_at(self) -> float:
        """Return when to look again: when sending may be tried, or the next heartbeat is due."""
        return self.heartbeat_at if self._first() is None else max(self._retry_at, 0.0)

    @property
    def heartbeat_at(self) -> float:
        """When the next report is due even though nothing changes."""
        return 0.0 if self._last is None else self._last.at + self.heartbeat

    def note_delivered(self, sequence: int) -> None:
        """Note that the manager has the report."""
        self.sent += 1
        self._failures = 0
        self._forget(sequence)

    def note_refused(self, sequence: int) -> None:
        """Note that the manager will never take the report: it is dropped, and others are tried."""
        self.failed += 1
        self._failures = 0
        self._forget(sequence)

    def note_lost(self, now: float) -> None:
        """Note that nobody knows whether the report arrived: it is sent again after a jittered wait."""
        self.failed += 1
        limit = min(self._settings.backoff_cap, self._settings.backoff * 2.0 ** min(self._failures, 30))
        self._failures += 1
        self._retry_at = now + self._rng.uniform(0.0, limit)

    def _first(self) -> _Waiting | None:
        return self._changes[0] if self._changes else self._heartbeat

    def _forget(self, sequence: int) -> None:
        waiting = self._first()
        # While it was on its way it may have been dropped or superseded.
        if waiting is None or waiting.report.sequence != sequence:
            return
        if self._changes:
            self._changes.popleft()
        else:
            self._heartbeat = None


def _differs(before: Report, after: Report) -> bool:
    """Return whether the manager should hear of this at once."""
    return (
        before.category is not after.category
        or before.checkpoint != after.checkpoint
        or (before.first is None) != (after.first is None)
        or before.ended != after.ended
        or (before.hang is None) != (after.hang is None)
        # Why there is no sample: as soon as that is known.
        or (not after.samples and before.reason != after.reason)
    )


def _age(report: Report, seconds: float) -> Report:
    hang = report.hang
    return replace(
        report,
        category_age=report.category_age + seconds,
        first=_age_observation(report.first, seconds),
        last=_age_observation(report.last, seconds),
        former=_age_observation(report.former, seconds),
        hang=None if hang is None else replace(hang, age=hang.age + seconds, silent=hang.silent + seconds),
    )


def _age_observation(observation: Observation | None, seconds: float) -> Observation | None:
    if observation is None:
        return None
    return replace(observation, age=observation.age + seconds)
