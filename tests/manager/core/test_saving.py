"""What another manager is about to end saves where it is: nothing is ended, moved or started for it."""

import msgspec
import pytest

from specon_manager.model import events as ev
from specon_manager.model.actions import RequestCheckpoint, WithdrawRequest
from specon_manager.model.transactions import SAVED, TransactionState
from specon_sidecar.wire import Checkpoint
from support.decisions.cluster import DIGEST
from support.decisions.owned_moves import A1, A, running

ASK = "kueue-1"
KUEUE = {"immovable": "Kueue manages Job/a: it decides when and where its pods run"}


def save(cluster, replica=A, name=ASK):
    return cluster.post(ev.SaveRequested(id=name, replica=replica, reason="Kueue is about to preempt it"))


def asking(**changes):
    cluster = running(**{**KUEUE, **changes})
    cluster.sidecars_answer = False
    return cluster, save(cluster)


def refusal(cluster):
    (over,) = cluster.state.history
    assert over.state is TransactionState.REFUSED
    return over.note


def test_what_cannot_be_moved_is_asked_for_a_checkpoint_and_for_a_pause():
    """A job that Kueue manages is nobody's to move, and saves all the same."""
    cluster, (ask,) = asking()
    assert isinstance(ask, RequestCheckpoint)
    assert (ask.replica, ask.transaction) == (A, ASK)
    assert ask.pause > 0
    assert cluster.state.transaction_of(A).before == cluster.state.transaction_of(A).after


def test_once_it_has_saved_it_may_go_and_keeps_its_pause():
    """The other manager ends it in a moment: what it trained until then would be lost."""
    cluster, _ = asking()
    cluster.orders.clear()
    cluster.acknowledge(A, checkpoint=Checkpoint(step=100, path="/c", digest=DIGEST))
    (over,) = cluster.state.history
    assert (over.id, over.note, over.changing_at) == (ASK, SAVED, None)
    assert [each.release for each in cluster.orders if isinstance(each, WithdrawRequest)] == [False]
    assert cluster.state.transactions == {}
    replica = cluster.state.replicas[A]
    assert (replica.attempts, replica.disrupted, replica.cooldown_until) == (0, 0, 0.0)


def test_all_that_trains_as_one_saves_together():
    """One checkpoint stands for a gang, and every member of it would be ended."""
    cluster = running(2, coupled=True, **KUEUE)
    cluster.sidecars_answer = False
    asked = [each.replica for each in save(cluster, A1) if isinstance(each, RequestCheckpoint)]
    assert asked == [A]
    assert {*cluster.state.transactions[ASK].before} == {A, A1}


def test_a_request_that_is_made_twice_is_one():
    """A manager that took over asks for the same again."""
    cluster, _ = asking()
    before = cluster.state
    assert save(cluster) == []
    assert cluster.state == before


def test_while_something_of_it_is_in_flight_nothing_comes_of_another_request():
    """It may be made again; the first one serves both."""
    cluster, _ = asking()
    before = cluster.state
    assert save(cluster, name="kueue-2") == []
    assert cluster.state == before


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"checkpointing": "none"}, "writes no checkpoints"),
        ({"checkpointing": "on-termination"}, "saves when it is told to end"),
    ],
)
def test_what_cannot_save_is_refused_in_words(changes, words):
    """Who asked need not wait for it."""
    cluster, actions = asking(**changes)
    assert actions == []
    assert words in refusal(cluster)


def test_what_is_not_there_is_refused():
    """Nobody waits for what does not run."""
    cluster = running(**KUEUE)
    save(cluster, "default/b/worker/0")
    assert refusal(cluster) == "there is no replica default/b/worker/0"


def test_a_pause_and_a_dry_run_refuse():
    """Nothing new is ordered then."""
    cluster = running(**KUEUE)
    cluster.post(ev.Paused(reason="maintenance"))
    save(cluster)
    assert refusal(cluster) == "the manager is paused: maintenance"
    dry = running(**KUEUE)
    dry.state = msgspec.structs.replace(
        dry.state, settings=msgspec.structs.replace(dry.state.settings, dry_run=True)
    )
    save(dry)
    assert "would be ordered" in refusal(dry)
