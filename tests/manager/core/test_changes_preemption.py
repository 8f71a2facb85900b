"""Preemption of jobs that are changed as wholes: a checkpoint in the grace period, or it stays."""

import msgspec
import pytest

from specon_manager.model import events as ev
from specon_manager.model.actions import Refusal, StartReplica
from specon_manager.model.cluster import Phase
from specon_sidecar.wire import Checkpoint
from support.decisions.changed_worlds import (
    SAVED,
    W0,
    W1,
    G,
    change_of,
    owned,
    preempt,
    runs,
    stands,
)
from support.decisions.cluster import DIGEST
from support.decisions.gangs import phases
from support.decisions.owners import placed


def refusal(cluster):
    """Return why the last proposal about the job was refused."""
    return cluster.state.verdicts[G].refusal


def test_a_victim_saves_ends_and_waits_at_the_head():
    """It keeps its place in the order of submission; the preemption is counted once it has come about."""
    with runs() as cluster:
        (asked,) = preempt(cluster, "default/trial")
        assert (asked.replica, asked.deadline) == (W0, cluster.now + 7)
        assert phases(cluster, "g")["worker0"] == "Running"
        assert cluster.state.jobs[G].preemptions == 0
        cluster.acknowledge(W0, checkpoint=SAVED)
        cluster.carry_out()
        assert stands(cluster) == ("Succeeded", 1)
        assert change_of(cluster).beneficiary == "default/trial"
        job = cluster.state.jobs[G]
        assert (job.order, job.preemptions, job.queued_at, job.admitted) == (0, 1, cluster.now, False)
        assert [each.name for each in cluster.state.snapshot(cluster.now).waiting] == [G]


def test_a_victim_that_saves_nothing_stays():
    """At the end of its grace period, where no verified checkpoint of it is known."""
    with runs() as cluster:
        preempt(cluster)
        assert cluster.tick(6.9) == []
        cluster.tick(0.1)
        assert (stands(cluster), change_of(cluster).note) == (
            ("RolledBack", 1),
            "no verified checkpoint in time",
        )
        assert phases(cluster, "g")["worker0"] == "Running"
        assert cluster.state.jobs[G].preemptions == 0


@pytest.mark.parametrize("answered", [False, True])
@pytest.mark.parametrize("verified", [False, True])
def test_a_victim_that_cannot_save_now_goes_on_from_what_it_saved_by_itself(verified, answered):
    """A verified checkpoint that is known will do, when its grace is over or its sidecar says no."""
    with runs() as cluster:
        own = Checkpoint(step=90, path="/c", digest=DIGEST if verified else None)
        cluster.report(W0, step=100, checkpoint=own)
        preempt(cluster)
        actions = cluster.acknowledge(W0, done=False) if answered else cluster.tick(7)
        names = [type(each).__name__ for each in actions]
        if not verified:
            assert (names, stands(cluster)) == (["WithdrawRequest"], ("RolledBack", 1))
            return
        assert names == ["WithdrawRequest", "EvictReplica", "EvictReplica"]
        assert (stands(cluster), change_of(cluster).checkpoint) == (("Leaving", 1), own)


def test_a_victim_that_ignores_its_end_is_told_again():
    """Each time after its grace period and the margin, from a new checkpoint; its room stays its own."""
    with runs() as cluster:
        preempt(cluster)
        _, *orders = cluster.acknowledge(W0, checkpoint=SAVED)
        cluster.orders.clear()
        for _ in range(4):
            assert cluster.tick(12) == orders
        assert cluster.state.snapshot(cluster.now).room("node-0").cpu == 2.0
        cluster.orders = list(orders)
        cluster.sidecars_answer = True
        cluster.carry_out()
        assert stands(cluster) == ("Succeeded", 1)


def test_a_victim_is_preempted_once_at_a_time():
    """A repeated request is told that it is under way."""
    with runs() as cluster:
        preempt(cluster)
        assert preempt(cluster) == []
        assert refusal(cluster) is Refusal.IN_FLIGHT
        assert len(cluster.state.transactions) == 1


def test_a_job_whose_first_worker_does_not_run_cannot_save():
    """It is not preempted before it has a checkpoint to resume from, nor while a part of it still starts."""
    with runs() as cluster:
        cluster.die(W0, 1)
        assert [type(each) for each in preempt(cluster)] == [StartReplica]  # of what crashed
        assert refusal(cluster) is Refusal.NOT_RUNNING


def test_a_job_with_a_move_in_flight_is_not_changed():
    """One after the other."""
    with owned(held=True, coupled=False) as cluster:
        cluster.post(ev.MoveRequested(id="default/by-hand", replica=W1, target="node-2"))
        assert cluster.state.transaction_of(W1) is not None
        assert preempt(cluster) == []
        assert refusal(cluster) is Refusal.IN_FLIGHT


def test_what_its_owner_places_is_suspended_and_held():
    """One order that names no replica; it is admitted no more, and waits."""
    with owned(held=True) as cluster:
        preempt(cluster)
        assert placed(cluster.acknowledge(W0, checkpoint=SAVED)) == [("preempt-2", {})]
        cluster.carry_out()
        assert stands(cluster) == ("Succeeded", 1)
        assert (cluster.state.jobs[G].admitted, G in cluster.idle) == (False, True)
        assert {r.phase for r in cluster.state.replicas.values()} == {Phase.PENDING, Phase.ABSENT}


def test_a_job_that_names_no_queue_any_more_is_let_go():
    """Nobody would admit it again: its owner runs it."""
    with owned(held=True) as cluster:
        preempt(cluster)
        cluster.acknowledge(W0, checkpoint=SAVED)
        cluster.observe(msgspec.structs.replace(cluster.specs[G], held=False))
        cluster.carry_out()
        assert (change_of(cluster).state, G in cluster.idle) == ("RolledBack", False)
        assert phases(cluster, "g")["worker0"] == "Running"


def test_it_is_let_go_though_the_first_order_is_lost():
    """Its owner is told again until all of it runs: nobody else would ever resume it."""
    with owned(held=True) as cluster:
        preempt(cluster)
        cluster.acknowledge(W0, checkpoint=SAVED)
        cluster.carry_out()
        cluster.observe(msgspec.structs.replace(cluster.specs[G], held=False))
        cluster.orders.clear()
        cluster.tick(cluster.state.settings.deadlines.start)
        cluster.carry_out()
        assert G not in cluster.idle
        assert phases(cluster, "g")["worker0"] == "Running"
        assert cluster.state.jobs[G].release_due is None


def test_it_is_held_again_as_soon_as_it_names_a_queue():
    """Then it waits to be admitted, whatever its owner was to be told before."""
    with owned(held=True) as cluster:
        preempt(cluster)
        cluster.acknowledge(W0, checkpoint=SAVED)
        cluster.carry_out()
        held = cluster.specs[G]
        cluster.observe(msgspec.structs.replace(held, held=False))
        cluster.orders.clear()
        cluster.observe(held)
        assert placed(cluster.tick(1000.0)) == []
        assert (cluster.state.jobs[G].admitted, G in cluster.idle) == (False, True)


def test_a_job_that_forbids_it_is_left_alone():
    """Its owner's word is the reason."""
    with owned(held=True, unpreemptible="its PodDisruptionBudget forbids it") as cluster:
        assert preempt(cluster) == []
        assert refusal(cluster) is Refusal.FORBIDDEN


def test_one_that_saves_when_it_is_told_to_end_is_told_at_once():
    """As soon as its sidecar says that there is no checkpoint to be had before."""
    with runs(checkpointing="on-termination") as cluster:
        preempt(cluster)
        _, *orders = cluster.acknowledge(W0, done=True)
        assert [type(each).__name__ for each in orders] == ["EvictReplica", "EvictReplica"]


def test_the_work_until_the_end_is_counted():
    """While it saves it still trains; what waits does not."""
    with runs() as cluster:
        began = cluster.state.jobs[G].trains_since
        preempt(cluster)
        cluster.now += 3
        cluster.acknowledge(W0, checkpoint=SAVED)
        job = cluster.state.jobs[G]
        assert (job.trains_since, job.attained(cluster.now)) == (None, cluster.now - began)
