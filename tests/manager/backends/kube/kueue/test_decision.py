"""When a gate is opened, when it waits, and when it is closed again."""

from datetime import UTC, datetime

import msgspec
import pytest

from specon_manager.backends.kube.kueue.decision import (
    REOPENED,
    Ask,
    PreemptionGateSettings,
    Victim,
    decide,
    request_of,
)
from specon_manager.backends.kube.kueue.facts import GATE, PreemptionGate
from specon_manager.backends.kube.kueue.queue_line import AT_ONCE, victims_by_waiting
from support.kube.kueue_objects import NOW, queue, running, waiting

PATIENCE = 60.0


def at(seconds):
    return datetime.fromtimestamp(NOW + seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def blocked(since=0.0, gate=None, **changes):
    gates = () if gate is None else (PreemptionGate(name=GATE, open=gate[0], since=at(gate[1])),)
    made = waiting("in", priority=1, cpu=1)
    return msgspec.structs.replace(made, blocked_since=NOW + since, gates=gates, **changes)


def done(workload, *standings, after=5.0, known=True):
    victims = [Victim(f"v{index}", standing) for index, standing in enumerate(standings)]
    return decide(workload, victims, NOW + after, PATIENCE, known=known)


@pytest.mark.parametrize(
    "changes",
    [{"gated": False}, {"active": False}, {"finished": True}, {"reserved_at": NOW}, {"blocked_since": None}],
)
def test_only_what_waits_at_our_gate_concerns_us(changes):
    """Anything else is Kueue's."""
    assert done(blocked()) is not None
    assert done(msgspec.structs.replace(blocked(), **changes)) is None


def test_who_was_not_asked_is_asked_though_others_save():
    """All at once: they save at the same time."""
    found = done(blocked(), "unasked", "saving", "saved", "unasked")
    assert isinstance(found, Ask)
    assert [each.replica for each in found.victims] == ["v0", "v3"]


def test_it_waits_while_one_saves_and_opens_then():
    """One that cannot save is not waited for."""
    assert done(blocked(), "saving", "saved") is None
    assert done(blocked(), "saved", "unsaved").open
    assert done(blocked()).open


@pytest.mark.parametrize("known", [True, False])
def test_it_opens_after_the_patience_whatever_is_known(known):
    """Also where the manager has just begun, and knows of no queue."""
    assert done(blocked(), after=1.0, known=False) is None
    found = done(blocked(), "saving", after=PATIENCE, known=known)
    assert (found.open, found.warning) == (True, True)
    assert done(blocked(), "unsaved", after=PATIENCE, known=known).warning is False


def test_an_open_gate_is_closed_again_once_what_was_saved_is_old():
    """Kueue may preempt hours later, when something else has changed."""
    assert done(blocked(gate=(True, 0.0)), "unasked", after=REOPENED - 1) is None
    assert done(blocked(gate=(True, 0.0)), after=REOPENED).open is False


def test_a_gate_that_was_closed_again_has_its_patience_anew():
    """Its condition is as old as before."""
    again = blocked(gate=(False, REOPENED))
    assert isinstance(done(again, "unasked", after=REOPENED + 1), Ask)
    assert done(again, "unasked", after=REOPENED + PATIENCE).open
    assert request_of(again, "v0") != request_of(blocked(), "v0")


def test_a_request_is_called_the_same_at_each_look_and_by_each_manager():
    """So it is made once, under any leader."""
    assert request_of(blocked(), "v0") == request_of(blocked(version="7"), "v0")
    assert request_of(blocked(), "v0") != request_of(blocked(), "v1")


def test_queues_that_are_named_are_covered_and_all_where_none_is():
    """As the chart says."""
    assert PreemptionGateSettings().covers("any")
    named = PreemptionGateSettings(cluster_queues=("team",))
    assert (named.covers("team"), named.covers("other"), named.covers("")) == (True, False, False)


def test_who_comes_second_waits_for_the_victims_of_the_first_as_well():
    """Kueue may come to either first."""
    queues = {"q": queue("q", **{"default/cpu": 3})}
    runs = [running(f"w{index}", "q", 0, reserved=index, **{"default/cpu": 1}) for index in range(3)]
    first, second = waiting("a", priority=9, cpu=1), waiting("b", priority=8, cpu=1)
    found = victims_by_waiting([(second, "q"), (first, "q")], runs, queues, NOW)
    assert {uid: [each.name for each in victims] for uid, victims in found.items()} == {
        "a": ["w2"],
        "b": ["w2", "w1"],
    }


def test_those_far_behind_wait_for_their_turn():
    """A queue of hundreds does not ask all that runs to save at once."""
    queues = {"q": queue("q", **{"default/cpu": 1})}
    line = [waiting(f"w{index:03}", priority=9, created=index, cpu=1) for index in range(AT_ONCE + 5)]
    runs = [running("r", "q", 0, **{"default/cpu": 1})]
    found = victims_by_waiting([(each, "q") for each in reversed(line)], runs, queues, NOW)
    assert set(found) == {each.uid for each in line[:AT_ONCE]}


def test_queues_of_other_cohorts_do_not_wait_for_each_other():
    """They share no quota."""
    queues = {name: queue(name, **{"default/cpu": 1}) for name in ("q", "r")}
    runs = [running(f"w{name}", name, 0, **{"default/cpu": 1}) for name in queues]
    one, other = waiting("a", priority=9, cpu=1), waiting("b", priority=8, cpu=1)
    found = victims_by_waiting([(one, "q"), (other, "r")], runs, queues, NOW)
    assert {uid: [each.name for each in victims] for uid, victims in found.items()} == {
        "a": ["wq"],
        "b": ["wr"],
    }
