"""When a job starts, in the status of its TrainingJob: times, written again where they changed."""

import msgspec
import pytest

from specon_manager.backends.kube.records.expected_start import (
    ExpectedStartStatus,
    from_status,
    is_news,
    to_status,
)
from specon_manager.model.expected_start import ExpectedStart

NOW = 1_000_000.0
SOON = ExpectedStart(in_seconds=600.0, earliest_seconds=300.0, latest_seconds=900.0, worlds=19)


def written(start=SOON, now=NOW):
    return to_status(start, now)


def test_what_is_written_is_read_as_seconds_from_then():
    """A reader may come later than the writer."""
    assert from_status(written(), NOW) == msgspec.structs.replace(SOON, worlds=0)
    assert from_status(written(), NOW + 400).in_seconds == 200.0
    assert from_status(written(), NOW + 400).earliest_seconds == 0.0
    assert from_status(written(ExpectedStart(why="nobody knows")), NOW).why == "nobody knows"
    assert written(None) is None
    assert from_status(None, NOW) is None
    assert from_status(ExpectedStartStatus(at=written().at), NOW) is None, "half of it"


def test_a_bound_without_an_end_is_written_with_its_reason():
    """Not before then: that is known of a job whose start lies beyond what was simulated."""
    bound = ExpectedStart(earliest_seconds=3600.0, why="too far", worlds=19)
    assert from_status(written(bound), NOW + 600) == ExpectedStart(earliest_seconds=3000.0, why="too far")
    assert bound.after(600.0).earliest_seconds == 3000.0
    assert not is_news(written(bound), written(bound.after(60.0), NOW + 60), NOW + 60)
    assert not is_news(written(bound), written(bound.after(-60.0)), NOW)
    assert is_news(written(bound), written(bound.after(-1800.0)), NOW)
    assert is_news(written(bound), written(), NOW)


@pytest.mark.parametrize(
    ("seconds", "news"), [(0.0, False), (60.0, False), (-60.0, False), (200.0, True), (-200.0, True)]
)
def test_what_moves_by_a_fifth_is_news(seconds, news):
    """A fifth of the time left, or of the interval: an object is not written at each Tick."""
    moved = written(SOON.after(-seconds))
    assert is_news(written(), moved, NOW) is news


def test_the_same_expectation_a_minute_later_is_no_news():
    """It has come nearer, and is at the same time."""
    assert not is_news(written(), written(SOON.after(60.0), NOW + 60), NOW + 60)


def test_what_appears_or_goes_is_news():
    """A reason instead of times too, and another reason."""
    unknown, other = written(ExpectedStart(why="a")), written(ExpectedStart(why="b"))
    assert is_news(None, written(), NOW)
    assert is_news(written(), None, NOW)
    assert is_news(unknown, written(), NOW)
    assert is_news(unknown, other, NOW)
    assert not is_news(unknown, unknown, NOW)
    assert not is_news(None, None, NOW)
