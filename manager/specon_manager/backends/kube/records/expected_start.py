"""When a waiting job is expected to start, in the status of its TrainingJob: as times, not as spans."""

from datetime import datetime
from typing import Final

from specon_manager.backends.kube.records.decoding import cut_text, moment
from specon_manager.backends.kube.records.records import Part, RecordedText
from specon_manager.model.expected_start import ExpectedStart

_PART: Final = 0.2
"""Of the time until the start, or of the interval where that is longer: less is no news."""
_LEAST: Final = 30.0


class ExpectedStartStatus(Part, frozen=True):
    """When it starts, as it was expected when this was written."""

    at: datetime | None = None
    """In half of the worlds that were played it starts before."""
    earliest: datetime | None = None
    latest: datetime | None = None
    """Between these two in 90 of 100; the earliest alone where no more is known."""
    reason: RecordedText | None = None
    """Why it is not known."""


def to_status(start: ExpectedStart | None, now: float) -> ExpectedStartStatus | None:
    """Return what the status says of a start, told at `now`; None where nobody has asked."""
    if start is None:
        return None
    if start.in_seconds is None or start.earliest_seconds is None or start.latest_seconds is None:
        earliest = start.earliest_seconds
        return ExpectedStartStatus(
            earliest=None if earliest is None else moment(now + earliest), reason=cut_text(start.why)
        )
    return ExpectedStartStatus(
        at=moment(now + start.in_seconds),
        earliest=moment(now + start.earliest_seconds),
        latest=moment(now + start.latest_seconds),
    )


def from_status(status: ExpectedStartStatus | None, now: float) -> ExpectedStart | None:
    """Return the same as seconds from `now`; None where it says nothing, or half of it."""
    if status is None:
        return None
    if status.at is None or status.earliest is None or status.latest is None:
        if not status.reason:
            return None
        earliest = None if status.earliest is None else max(0.0, status.earliest.timestamp() - now)
        return ExpectedStart(why=status.reason, earliest_seconds=earliest)
    return ExpectedStart(
        in_seconds=max(0.0, status.at.timestamp() - now),
        earliest_seconds=max(0.0, status.earliest.timestamp() - now),
        latest_seconds=max(0.0, status.latest.timestamp() - now),
    )


def is_news(told: ExpectedStartStatus | None, new: ExpectedStartStatus | None, now: float) -> bool:
    """Whether it differs from the written one by more than people care about."""
    if told is None or new is None:
        return told != new
    if told.at is None and new.at is None and told.earliest is not None and new.earliest is not None:
        left = max(new.earliest.timestamp() - now, _LEAST / _PART)
        return abs((new.earliest - told.earliest).total_seconds()) > _PART * left
    if told.at is None or new.at is None:
        return told != new
    if told.latest is None or new.latest is None or new.earliest is None:
        return True
    left = max(new.at.timestamp() - now, (new.latest - new.earliest).total_seconds(), _LEAST / _PART)
    moves = (abs((new.at - told.at).total_seconds()), abs((new.latest - told.latest).total_seconds()))
    return max(moves) > _PART * left
