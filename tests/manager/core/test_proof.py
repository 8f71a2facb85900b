"""A move is a success only where the job goes on from its checkpoint, whatever that is said to hold."""

import pytest

from specon_manager.core.transaction.promise import not_resumed, promised_step
from specon_manager.model import events as ev
from specon_manager.model.transactions import TransactionState, Witness
from specon_sidecar.classify import Category
from specon_sidecar.wire import Checkpoint, Observation, Report
from support.decisions.cluster import SETTINGS, Cluster

A = "default/a/worker/0"
DIGEST = "0" * 64


def checkpoint(step, *, told=True):
    return Checkpoint(step=step, path="/checkpoints/it", digest=DIGEST, told=told)


def seen(first, saved, *, told=True, **known):
    """Return what is made of a first step after a checkpoint of a step; the job trained from 1 to 3000."""
    known = {"began_step": 1, "last_step": 3000, "asked_step": 2990, "asked_for": True, **known}
    held = None if saved is None else checkpoint(saved, told=told)
    return not_resumed("a", Witness(first_step=first, checkpoint=held, **known))


@pytest.mark.parametrize(
    ("first", "saved", "known", "words"),
    [
        (0, 3000, {}, "started from the beginning"),
        (0, 0, {"began_step": 0, "last_step": 0}, "started from the beginning"),
        (1, 3000, {}, "started from the beginning"),
        (1, 0, {}, "started from the beginning"),  # `version_0`, as a checkpoint of step 0
        (1, None, {}, "started from the beginning"),
        (5, 0, {"began_step": 10}, "started from the beginning"),
        (2, 3, {}, "made after step 2990"),  # epochs, beside a log of steps
        (2000, 3, {}, "older state"),
        (2000, 3000, {}, "older state"),
        (2000, 3000, {"told": False, "step_gap": 10}, "older state"),
        (2998, 2999 + 1, {}, "older state"),
        (2890, 2900, {}, "older state"),  # a save that was under way when it was asked for
    ],
)
def test_what_loses_more_than_its_checkpoint_promises_is_no_resume(first, saved, known, words):
    """Step 0, where it once started, and behind the checkpoint: whichever numbers the two give."""
    assert words in seen(first, saved, **known)


@pytest.mark.parametrize(
    ("first", "saved", "known"),
    [
        (None, 3000, {}),
        (3001, 3000, {}),
        (3000, 3000, {}),  # a log that begins with its last line
        (2999, 3000, {}),  # one that counts from 0
        (2991, 3, {}),  # epochs
        (2901, 2900, {}),
        (101, 100, {"began_step": 101, "last_step": 101}),  # nothing was trained in between
        (2950, 3000, {"told": False, "step_gap": 100}),  # what the log named when it was first seen
        (3000, 12_000, {"last_step": 3000}),  # steps, beside a log of epochs
        (51, 50, {"asked_for": False}),  # saved long before, where nothing can be asked for
    ],
)
def test_what_keeps_the_promise_may_be_one(first, saved, known):
    """Then a step after it is the proof."""
    assert seen(first, saved, **known) is None


def test_a_step_that_counts_something_else_is_not_waited_for():
    """A checkpoint of batch 12,000 beside a log of epochs: the log's epoch is what has to be passed."""
    witness = Witness(checkpoint=checkpoint(12_000), asked_step=3, asked_for=True, last_step=3)
    assert promised_step(witness) == 3


def moved(*, saved, trained=(1, 387), **changes):
    """Return a cluster in which a was moved with a checkpoint of that step, and has shown nothing yet."""
    cluster = Cluster(settings=SETTINGS)
    for name in "abcd":
        cluster.submit(name, **changes)
    cluster.tick()
    cluster.carry_out()
    for name in "abcd":
        cluster.report(f"default/{name}/worker/0", step=trained[0])
    cluster.die("default/b/worker/0", 0)
    cluster.die("default/d/worker/0", 0)
    cluster.sidecars_answer = False
    cluster.report(A, Category.CONVERGED, step=trained[1])
    cluster.tick()
    cluster.carry_out()
    cluster.acknowledge(A, checkpoint=checkpoint(saved))
    cluster.carry_out()
    assert cluster.state.transaction_of(A).state is TransactionState.VERIFYING
    return cluster


def test_a_job_that_began_anew_beside_a_checkpoint_of_step_0_failed():
    """It was reported as a success that had lost all 387 steps."""
    cluster = moved(saved=0)
    cluster.report(A, step=1)
    move = cluster.state.history[-1]
    assert (move.state, move.steps_lost) == (TransactionState.FAILED, 387)
    assert move.note == f"{A} is at step 1, and its checkpoint at step 0: it started from the beginning"


def test_the_next_move_of_a_job_that_began_anew_waits_for_a_person():
    """The policy does not choose it again, however long it has converged."""
    cluster = moved(saved=0)
    cluster.report(A, step=1)
    assert "it started from the beginning" in cluster.state.replicas[A].unproven
    for _ in range(5):
        cluster.now += 10_000
        cluster.report(A, Category.CONVERGED, step=400)
        assert not [each for each in cluster.tick() if type(each).__name__ == "RequestCheckpoint"]


def test_a_job_that_began_anew_and_is_over_at_once_was_not_moved_well():
    """Its end in the same breath does not hide it."""
    cluster = moved(saved=387)
    live = cluster.live[A]
    first = Observation(name="loss", value=9.0, age=0.0, step=1)
    last = Observation(name="loss", value=1.0, age=0.0, step=500)
    cluster.post(
        ev.ReportReceived(
            Report(
                schema=1,
                replica=A,
                incarnation=live.incarnation,
                session=live.session,
                sequence=live.sequence + 1,
                category=Category.PROGRESSING,
                first=first,
                last=last,
            )
        )
    )
    assert cluster.state.history[-1].state is TransactionState.FAILED


def test_a_job_whose_checkpoint_counts_epochs_is_moved_by_the_steps_of_its_log():
    """It goes on after the step at which it was asked."""
    cluster = moved(saved=3)
    cluster.report(A, step=388)
    assert cluster.state.history[-1].state is TransactionState.SUCCEEDED


def test_an_older_state_is_found_where_its_number_says_nothing():
    """The checkpoint was made since it was asked for, so it holds what the log named then."""
    cluster = moved(saved=3)
    cluster.report(A, step=200)
    assert cluster.state.history[-1].state is TransactionState.FAILED
    assert "made after step 387" in cluster.state.history[-1].note


def test_where_a_job_once_started_is_known_over_its_incarnations():
    """Also after a move the first step of the first one counts."""
    cluster = moved(saved=387)
    cluster.report(A, step=388)
    assert cluster.state.replicas[A].progress.began_step == 1


@pytest.mark.parametrize(
    ("first", "known", "foreign"),
    [
        (400, {}, True),
        (261, {}, True),
        (260, {}, False),  # a log that is rotated loses its first lines
        (61, {}, False),
        (400, {"step_gap": 100}, False),  # it may have come so far unseen
        (400, {"step_gap": None}, False),  # nobody knows how fast it is
        (400, {"last_step": 390}, False),
    ],
)
def test_steps_that_nobody_of_the_job_trained_are_no_resume(first, known, foreign):
    """Two jobs saved into one folder, and this one went on from the other's checkpoint."""
    said = seen(first, 60, **{"last_step": 60, "asked_step": 58, "step_gap": 10, **known})
    assert (said is not None) == foreign
    assert said is None or "a checkpoint that is not its own" in said
