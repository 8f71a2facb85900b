from random import Random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specon_sidecar.classify import Category
from specon_sidecar.reporting.outbox import Outbox, OutboxSettings
from specon_sidecar.wire import Checkpoint, Hang, Observation, Report

QUIET = Report(
    schema=1,
    replica="ns/job/worker/0",
    incarnation="uid",
    session="s",
    sequence=0,
    category=Category.PROGRESSING,
)
CHANGES = {
    "category": Category.WATCHING,
    "checkpoint": Checkpoint(step=1, path="/c/1"),
    "first": Observation(name="loss", value=1.0, age=0.0, step=1),
    "ended": True,
}


def changed(**changes):
    return msgspec.structs.replace(QUIET, **changes)


def outbox(**settings):
    return Outbox(OutboxSettings(**settings), Random(1))


def started(**settings):
    """Return an outbox whose first report was delivered at 0 s."""
    box = outbox(**settings)
    box.offer(QUIET, 0.0)
    box.note_delivered(box.due(0.0).sequence)
    return box


def test_the_first_report_is_due_at_once():
    """A sidecar makes itself known without waiting for a heartbeat."""
    box = outbox()
    assert box.offer(QUIET, 5.0)
    assert box.due(5.0).sequence == 1


def test_nothing_new_waits_for_the_heartbeat():
    """Without a change nothing is due before the heartbeat, and then one report is."""
    box = started()
    assert not box.offer(QUIET, 9.9)
    assert box.due(9.9) is None
    assert box.due_at() == 10.0
    assert box.offer(QUIET, 10.0)
    assert box.due(10.0).sequence == 2


@pytest.mark.parametrize("field", CHANGES)
def test_changes_are_due_at_once(field):
    """A change of category or checkpoint, the first sample and the end do not wait."""
    box = started()
    assert box.offer(changed(**{field: CHANGES[field]}), 0.1)
    assert box.due(0.1) is not None


def test_changes_keep_their_order_while_the_manager_is_away():
    """What happened meanwhile arrives in the order in which it happened."""
    box = started()
    order = [Category.WATCHING, Category.CONVERGED, Category.PROGRESSING]
    for at, category in enumerate(order):
        box.offer(changed(category=category), float(at))
    seen = []
    while (report := box.due(100.0)) is not None:
        seen.append(report.category)
        box.note_delivered(report.sequence)
    assert seen == order


def test_a_later_report_supersedes_a_heartbeat():
    """Of heartbeats only the newest waits, and none before a change."""
    box = started()
    box.offer(QUIET, 10.0)
    box.offer(QUIET, 20.0)
    assert box.due(20.0).sequence == 3
    box.offer(changed(category=Category.WATCHING), 21.0)
    box.note_delivered(box.due(21.0).sequence)
    assert box.due(21.0) is None


def test_the_queue_is_bounded_and_counts_what_it_drops():
    """Beyond the bound the oldest change is dropped, and counted."""
    box = outbox(changes=3)
    for number in range(5):
        box.offer(changed(checkpoint=Checkpoint(step=number, path="/c")), float(number))
    assert box.due(10.0).checkpoint.step == 2
    assert box.dropped == 2


def test_ages_move_on_while_a_report_waits():
    """Ages are those at sending: a report that waited seven seconds is seven seconds older."""
    box = outbox()
    box.offer(changed(category_age=1.0, first=Observation(name="loss", value=1.0, age=2.0)), 0.0)
    report = box.due(7.0)
    assert (report.category_age, report.first.age, report.last) == (8.0, 9.0, None)


def test_the_former_incarnation_ages_while_a_report_waits():
    """How long ago it ended is that at sending too: else a move during an outage had no downtime."""
    box = outbox()
    former, first = (Observation(name="loss", value=1.0, age=age, step=57) for age in (3.0, 1.0))
    box.offer(changed(former=former, first=first), 0.0)
    report = box.due(7.0)
    assert (report.former.age, report.first.age) == (10.0, 8.0)


def test_a_hang_ages_while_a_report_waits():
    """Since when it is known, and for how long there was no step, count until it is sent."""
    box = outbox()
    box.offer(changed(hang=Hang(age=2.0, silent=40.0, usual=1.0)), 0.0)
    hang = box.due(7.0).hang
    assert (hang.age, hang.silent, hang.usual) == (9.0, 47.0, 1.0)


@given(st.integers(0, 2**32), st.integers(1, 40))
def test_backoff_is_jittered_and_capped(seed, failures):
    """After each failure the wait is at most twice the one before and never beyond the cap."""
    box = Outbox(OutboxSettings(backoff=0.5, backoff_cap=30.0), Random(seed))
    box.offer(QUIET, 0.0)
    for count in range(failures):
        box.note_lost(0.0)
        assert 0.0 <= box.due_at() <= min(30.0, 0.5 * 2**count)


def test_a_lost_report_is_sent_again_with_its_number():
    """Nobody knows whether it arrived: the same sequence number makes the second one harmless."""
    box = outbox()
    box.offer(QUIET, 0.0)
    first = box.due(0.0)
    box.note_lost(0.0)
    again = box.due(box.due_at())
    assert again.sequence == first.sequence
    box.note_delivered(again.sequence)
    assert (box.sent, box.failed, box.due(60.0)) == (1, 1, None)


def test_a_refused_report_makes_room_for_the_next():
    """What the manager will never take is not sent for ever."""
    box = started()
    box.offer(changed(category=Category.WATCHING), 1.0)
    box.offer(changed(category=Category.CONVERGED), 2.0)
    box.note_refused(box.due(2.0).sequence)
    assert box.due(2.0).category is Category.CONVERGED


def test_delivery_of_a_superseded_report_removes_nothing_else():
    """A heartbeat that was replaced while on its way does not take its successor along."""
    box = started()
    box.offer(QUIET, 10.0)
    on_its_way = box.due(10.0)
    box.offer(QUIET, 20.0)
    box.note_delivered(on_its_way.sequence)
    assert box.due(20.0).sequence == on_its_way.sequence + 1


def test_the_manager_may_change_the_pace():
    """The heartbeat is the one that was asked for last."""
    box = started()
    box.heartbeat = 2.0
    assert box.offer(QUIET, 2.0)
