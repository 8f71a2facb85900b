"""Jobs take turns on a GPU: the one with the least left goes first, in place."""

import pytest

from specon_manager.core.plan import plan
from specon_manager.core.step import step
from specon_manager.model.actions import Refusal, Reweight, SetWeight
from specon_manager.model.events import Tick
from specon_manager.model.settings import Settings
from specon_manager.policies.expectation import Expectation
from specon_manager.policies.progress import ProgressSettings, propose
from specon_manager.policies.time_sharing import share_time
from support.decisions.gpu_shares import NOW, job, node, state

LOW = ProgressSettings().low_weight


def weights(*jobs, **changes):
    """Return the weights that change, by job and, where it has several, by replica."""
    snapshot = state(*jobs, **changes).snapshot(NOW)
    settings = ProgressSettings()
    expected = Expectation(
        snapshot, prior_seconds=settings.prior_seconds, size_power=0.0, objective="completion"
    )
    return {each.replica.split("/")[1]: each.weight for each in share_time(snapshot, expected, settings)}


def test_the_one_with_the_least_left_goes_first():
    """The others wait, and keep their memory on the GPU."""
    assert weights(job("long", "G", left=900), job("short", "G", left=100)) == {"long": LOW}


def test_who_has_the_turn_keeps_it_until_another_has_clearly_less_left():
    """Estimates err: a turn that goes to and fro serves nobody."""
    a, b = job("a", "G", left=100), job("b", "G", left=90, weight=LOW)
    assert weights(a, b) == {}
    assert weights(a, job("b", "G", left=50, weight=LOW)) == {"a": LOW, "b": 1.0}


def test_who_could_not_train_yet_is_still_tried():
    """What it has left is not known, and it was stopped nearly all the time since its start."""
    known, new = job("known", "G", left=500), job("new", "G", weight=LOW, stopped=NOW - 5)
    assert weights(known, new) == {"known": LOW, "new": 1.0}
    assert weights(known, job("tried", "G", weight=LOW, stopped=NOW - 500)) == {}


def test_other_gpus_are_other_turns():
    """Two on one, one on another: that one is alone there."""
    assert weights(job("a", "G", left=900), job("b", "G", left=100), job("c", "H", left=999)) == {"a": LOW}


def test_a_job_is_first_on_all_of_its_gpus_or_on_none():
    """Its ranks run together; who shares neither with the first goes first beside it."""
    wide = job("wide", "G", left=200, on=("node-1", "node-2"))
    one, two = job("one", "G", left=100), job("two", "G", left=300, on=("node-2",))
    assert weights(one, wide, two, nodes=(node("node-1"), node("node-2"))) == {"wide": LOW}
    assert weights(wide, two, nodes=(node("node-1"), node("node-2"))) == {"two": LOW}


def test_who_is_alone_or_takes_no_turns_any_more_has_its_whole_weight_back():
    """Its neighbour has ended; or its sidecar cannot stop it now."""
    assert weights(job("a", "G", left=900, weight=LOW)) == {"a": 1.0}
    assert weights(job("a", "G", left=9, weight=LOW, why="started again"), job("b", "G", left=1)) == {
        "a": 1.0
    }


def test_the_default_policy_orders_it_by_the_action_of_shares_in_place():
    """A Tick leads to the order of a weight, and the weight is known from then on."""
    known = state(job("long", "G", left=900), job("short", "G", left=100))
    after, actions = step(known, Tick(), NOW)
    assert [(each.replica, each.weight) for each in actions if isinstance(each, SetWeight)] == [
        ("default/long/worker/0", LOW)
    ]
    assert after.replicas["default/long/worker/0"].weight == LOW


@pytest.mark.parametrize(
    ("pair", "settings", "words"),
    [
        ((job("a", "G"), job("b", "G")), Settings(), "it takes no turns: weights are not changed here"),
        ((job("a", "G", why="no GPU is seen"), job("b", "G")), None, "it takes no turns: no GPU is seen"),
        ((job("a", "G", memory=2.0**40), job("b", "G")), None, "it takes no turns: 2 pods need"),
    ],
)
def test_the_plan_refuses_a_turn_by_the_same_predicate(pair, settings, words):
    """With the same words as everybody else says."""
    known = state(*pair, **({} if settings is None else {"settings": settings}))
    proposal = Reweight(replica="default/a/worker/0", weight=0.5, reason="test")
    [ruling] = plan(known, [proposal], NOW)
    assert ruling.objection is not None
    assert ruling.objection.refusal is Refusal.NOT_REWEIGHTABLE
    assert ruling.objection.text.startswith(words)
    assert not [
        each for each in propose(known.snapshot(NOW), ProgressSettings()) if isinstance(each, Reweight)
    ]
