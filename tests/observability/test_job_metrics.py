"""Series of single replicas: what they say, how many there are, and when they go."""

import pytest

from specon_manager.runtime.job_metrics import CATEGORY_NUMBERS
from specon_sidecar.classify import Category
from specon_sidecar.classify.curve import Estimate
from specon_sidecar.wire import Checkpoint
from support.decisions.observed import Observed, moved

CHECKPOINT = Checkpoint(step=100, path="/c")


@pytest.fixture
def cluster():
    return Observed()


def test_a_replica_is_told_of_by_its_category_step_loss_and_gain(cluster):
    """Each as it was last reported; what is not known is not told."""
    (a,) = cluster.run("a")
    assert cluster.of_job("loss", "a") is None
    cluster.report(a, Category.WATCHING, step=7, gain=0.25)
    cluster.tick()
    assert cluster.of_job("category", "a") == CATEGORY_NUMBERS[Category.WATCHING]
    assert cluster.of_job("step", "a") == 7
    assert cluster.of_job("loss", "a") == 1.0
    assert cluster.of_job("gain_ratio", "a") == 0.25
    assert cluster.of_job("converged_timestamp_seconds", "a") is None


def test_what_the_classifier_expects_is_told_by_the_manager(cluster):
    """Sidecars that were injected serve no metrics; what another report does not say is not told any more."""
    (a,) = cluster.run("a")
    cluster.report(a, confidence=0.75, remaining_gain=Estimate(value=0.125, uncertainty=0.1))
    cluster.tick()
    assert cluster.of_job("confidence", "a") == 0.75
    assert cluster.of_job("remaining_gain_ratio", "a") == 0.125
    cluster.report(a)
    assert cluster.of_job("confidence", "a") is None


def test_converged_since_is_a_time_that_is_gone_with_the_category(cluster):
    """On the clock of the manager, whose zero is that of Unix."""
    (a,) = cluster.run("a")
    cluster.report(a, Category.CONVERGED, category_age=40)
    since = cluster.now - 40
    cluster.tick()
    assert cluster.of_job("converged_timestamp_seconds", "a") == since
    cluster.report(a, Category.PROGRESSING)
    assert cluster.of_job("converged_timestamp_seconds", "a") is None


def test_the_age_of_a_checkpoint_begins_when_it_is_first_heard_of(cluster):
    """A report that repeats it does not make it younger, a later checkpoint does."""
    (a,) = cluster.run("a")
    cluster.report(a)
    cluster.tick(20)
    assert cluster.of_job("checkpoint_age_seconds", "a") == 20
    cluster.report(a, checkpoint=CHECKPOINT)
    cluster.tick(30)
    cluster.report(a, checkpoint=CHECKPOINT)
    assert cluster.of_job("checkpoint_age_seconds", "a") == 30
    cluster.report(a, checkpoint=Checkpoint(step=200, path="/c"))
    assert cluster.of_job("checkpoint_age_seconds", "a") == 0


def test_a_job_that_never_saves_has_no_age_of_a_checkpoint(cluster):
    """It could only grow."""
    a = cluster.submit("a", checkpointing="none")
    cluster.tick()
    cluster.carry_out()
    cluster.report(a)
    cluster.tick(20)
    assert cluster.of_job("report_age_seconds", "a") == 20
    assert cluster.of_job("checkpoint_age_seconds", "a") is None


def test_series_go_with_their_replica(cluster):
    """A job that has ended is told of no more."""
    (a,) = cluster.run("a")
    cluster.report(a)
    cluster.tick()
    assert cluster.of_job("step", "a") == 100
    cluster.die(a, 0)
    cluster.tick()
    assert cluster.of_job("step", "a") is None


def test_a_move_does_not_interrupt_series(cluster):
    """While nothing of the replica runs it has the values of before, and counts the move afterwards."""
    a = moved(cluster)
    cluster.may_carry_out = lambda action: type(action).__name__ != "StartReplica"
    cluster.carry_out()
    cluster.tick()
    assert a not in cluster.live
    assert cluster.of_job("step", "a") == 200
    assert cluster.of_job("moves", "a") == 0
    cluster.may_carry_out = lambda action: True
    cluster.carry_out()
    cluster.report(a, Category.CONVERGED, step=201)
    cluster.tick()
    assert cluster.of_job("moves", "a") == 1


def test_no_more_replicas_than_allowed_have_series():
    """The first keep theirs until they end, the others are counted, and take their place then."""
    cluster = Observed(most_replicas=2)
    a, *_ = cluster.run("a", "b", "c")
    cluster.tick()
    assert [cluster.of_job("category", job) is None for job in "abc"] == [False, False, True]
    assert cluster.value("specon_job_series_missing") == 1
    cluster.die(a, 0)
    cluster.tick()
    assert [cluster.of_job("category", job) is None for job in "abc"] == [True, False, False]
    assert cluster.value("specon_job_series_missing") == 0


def test_who_leads_no_more_tells_of_nothing(cluster):
    """Neither replicas nor nodes: the next leader does, and two would count twice."""
    (a,) = cluster.run("a")
    cluster.report(a)
    cluster.tick()
    assert cluster.value("specon_node_replicas", node="node-0", category="progressing") == 1
    cluster.metrics.forget()
    assert cluster.of_job("category", "a") is None
    assert cluster.value("specon_node_replicas", node="node-0", category="progressing") is None
    assert cluster.value("specon_replicas", category="progressing") == 0
    assert cluster.value("specon_replica_phases", phase="Running") == 0
