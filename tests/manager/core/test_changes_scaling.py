"""Scaling of jobs that the manager places: a verified checkpoint, then the change, then proof; else back."""

import pytest

from specon_manager.model import events as ev
from specon_manager.model.actions import EvictReplica, RequestCheckpoint, StartReplica, WithdrawRequest
from specon_manager.model.cluster import Phase
from specon_manager.model.resources import Resources
from specon_manager.model.transactions import Kind
from support.decisions.changed_worlds import (
    SAVED,
    W0,
    W1,
    W2,
    G,
    change_of,
    grow,
    runs,
    shrink,
    stands,
    trains_on,
)
from support.decisions.gangs import phases


def kinds(actions):
    return [(type(each).__name__, each.replica) for each in actions]


def saved(cluster):
    """Answer the request for a checkpoint; return what is ordered beside its withdrawal."""
    withdrawn, *orders = cluster.acknowledge(W0, checkpoint=SAVED)
    assert isinstance(withdrawn, WithdrawRequest)
    return orders


def lost(cluster, node):
    """Let a node take nothing any more."""
    return cluster.post(
        ev.NodeObserved(node=node, capacity=Resources(cpu=4, memory=8e9), usage=Resources(), ready=False)
    )


@pytest.mark.parametrize("resizing", ["live", "restart"])
def test_nothing_is_told_to_end_or_to_start_before_the_checkpoint_is_verified(resizing):
    """The first worker is asked; what is to go trains on, what is to come has its room."""
    with runs(resizing) as cluster:
        (asked,) = shrink(cluster, W1)
        assert isinstance(asked, RequestCheckpoint)
        assert (asked.id, asked.replica, asked.incarnation) == ("scale-in-2", W0, f"{W0}.1")
        assert asked.deadline == cluster.now + 10
        assert phases(cluster, "g")["worker1"] == "Running"
        assert cluster.state.jobs[G].trains_since is not None
    with runs(resizing) as cluster:
        (asked,) = grow(cluster, W2)
        assert phases(cluster, "g")["worker2"] == "Absent"
        assert cluster.state.snapshot(cluster.now).room("node-1").cpu == 3.0
        assert cluster.state.jobs[G].trains_since is not None


def test_a_job_shrinks_while_the_others_train_on_and_prove_it():
    """Told, gone, and a step after the last one known: then it has succeeded, and rests."""
    with runs("live") as cluster:
        shrink(cluster, W1)
        (evicted,) = saved(cluster)
        assert isinstance(evicted, EvictReplica)
        assert (evicted.replica, stands(cluster)) == (W1, ("Leaving", 1))
        cluster.carry_out()
        assert (phases(cluster, "g")["worker1"], stands(cluster)) == ("Absent", ("Verifying", 1))
        cluster.report(W0, step=100)
        assert stands(cluster) == ("Verifying", 1)
        cluster.report(W0, step=101)
        assert stands(cluster) == ("Succeeded", 1)
        assert cluster.state.jobs[G].cooldown_until == cluster.now + 30
        assert change_of(cluster).first_step_after == 101


def test_a_job_grows_and_every_worker_must_be_heard():
    """The step of the first worker alone proves nothing of the new one."""
    with runs("live") as cluster:
        grow(cluster, W2)
        started = saved(cluster)
        assert started == [
            StartReplica(
                replica=W2,
                start=1,
                node="node-1",
                template={},
                reason="scale-out-2: idle",
                gang=(W0, W1, W2),
            )
        ]
        cluster.carry_out()
        cluster.report(W0, step=150)
        cluster.report(W1, step=150)
        assert stands(cluster) == ("Verifying", 1)
        cluster.report(W2, step=None)
        assert stands(cluster) == ("Succeeded", 1)


@pytest.mark.parametrize("out", [True, False])
def test_a_job_that_cannot_be_resized_alive_ends_whole_and_starts_with_its_new_number(out):
    """All are told to end; none starts before all are gone; the proof is a step after the checkpoint."""
    with runs("restart") as cluster:
        _ = grow(cluster, W2) if out else shrink(cluster, W1)
        gone = saved(cluster)
        assert kinds(gone) == [("EvictReplica", W0), ("EvictReplica", W1)]
        cluster.die(W0, 143, evicted=True)
        assert (stands(cluster), phases(cluster, "g")["worker0"]) == (("Leaving", 1), "Pending")
        started = cluster.die(W1, 143, evicted=True)
        wanted = (W0, W1, W2) if out else (W0,)
        assert kinds(started) == [("StartReplica", name) for name in wanted]
        assert {each.gang for each in started} == {wanted}
        cluster.orders = started
        cluster.carry_out()
        assert stands(cluster) == ("Verifying", 1)
        cluster.now += 2
        trains_on(cluster, 100)
        assert stands(cluster) == ("Verifying", 1)
        trains_on(cluster, 101)
        assert stands(cluster) == ("Succeeded", 1)
        assert change_of(cluster).downtime == 3.0


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ({"done": False, "reason": "disk full"}, "no checkpoint: disk full"),
        ({"checkpoint": None}, "the sidecar named no verified checkpoint"),
    ],
)
def test_without_a_verified_checkpoint_everything_stays(answer, why):
    """Nothing was ended; the request is withdrawn, and the next change waits for twice as long each time."""
    with runs("restart") as cluster:
        grow(cluster, W2)
        (withdrawn,) = cluster.acknowledge(W0, **answer)
        assert isinstance(withdrawn, WithdrawRequest)
        assert (stands(cluster), change_of(cluster).note) == (("RolledBack", 1), why)
        assert phases(cluster, "g") == {
            "worker0": "Running",
            "worker1": "Running",
            "worker2": "Absent",
            "worker3": "Absent",
        }
        job = cluster.state.jobs[G]
        assert (job.cooldown_until, job.failures) == (cluster.now + 1, 1)
        assert grow(cluster, W2, node="node-2") != []
        cluster.acknowledge(W0, done=False)
        assert cluster.state.jobs[G].cooldown_until == cluster.now + 2


def test_a_checkpoint_that_does_not_come_is_not_waited_for():
    """At the deadline the job is left as it is."""
    with runs("live") as cluster:
        shrink(cluster, W1)
        assert cluster.tick(9.9) == []
        cluster.tick(0.1)
        assert change_of(cluster).note == "no verified checkpoint in time"
        assert phases(cluster, "g")["worker1"] == "Running"


@pytest.mark.parametrize("dying", [W0, W1])
def test_a_crash_before_the_checkpoint_is_a_crash_and_ends_the_change(dying):
    """It counts as one, though the replica was about to be told to end."""
    with runs("live") as cluster:
        shrink(cluster, W1)
        cluster.die(dying, 1)
        assert change_of(cluster).note == f"{dying} ended before its checkpoint was verified"
        replica = cluster.state.replicas[dying]
        assert (replica.phase, replica.crashes) == (Phase.PENDING, 1)


def test_a_node_that_is_lost_while_something_is_to_start_there_turns_the_change_back_at_once():
    """Not only when it is overdue: before the checkpoint nothing happened, after it the others train on."""
    with runs("live") as cluster:
        grow(cluster, W2)
        lost(cluster, "node-1")
        assert stands(cluster) == ("RolledBack", 1)
    with runs("live") as cluster:
        grow(cluster, W2)
        cluster.acknowledge(W0, checkpoint=SAVED)
        (evicted,) = lost(cluster, "node-1")
        assert (evicted.replica, evicted.incarnation, stands(cluster)) == (W2, None, ("Leaving", 2))
        cluster.post(ev.ReplicaGone(replica=W2, incarnation=None, evicted=True))
        assert stands(cluster) == ("Verifying", 2)
        trains_on(cluster)
        assert stands(cluster) == ("RolledBack", 2)
        assert "node node-1, where default/g/worker/2 is to run, is not ready" in change_of(cluster).note


@pytest.mark.parametrize("resizing", ["live", "restart"])
def test_what_does_not_start_is_turned_back_and_not_held_against_the_job(resizing):
    """The job goes on from its checkpoint with the workers that it had."""
    with runs(resizing) as cluster:
        grow(cluster, W2)
        cluster.orders += cluster.acknowledge(W0, checkpoint=SAVED)
        cluster.may_carry_out = lambda order: not (isinstance(order, StartReplica) and order.replica == W2)
        cluster.carry_out()
        start = cluster.state.replicas[W2].starts
        cluster.orders.clear()
        cluster.post(ev.StartRefused(replica=W2, start=start, reason="no such image"))
        assert stands(cluster)[1] == 2
        before = len(cluster.history)
        cluster.carry_out()
        ordered = [each for _, _, orders in cluster.history[before:] for each in orders]
        told = [(each.replica, each.gang) for each in ordered if isinstance(each, StartReplica)]
        assert told == ([(W0, (W0, W1)), (W1, (W0, W1))] if resizing == "restart" else [])
        trains_on(cluster, 300)
        assert (stands(cluster), change_of(cluster).note) == (
            ("RolledBack", 2),
            f"{W2}: put back: no such image",
        )
        assert [cluster.state.replicas[name].crashes for name in (W0, W1, W2)] == [0, 0, 0]
        assert phases(cluster, "g") == {
            "worker0": "Running",
            "worker1": "Running",
            "worker2": "Absent",
            "worker3": "Absent",
        }


def test_a_job_whose_former_place_is_taken_waits_as_a_whole():
    """The room that it had left is another's by now: it ends, and is admitted again from its checkpoint."""
    with runs("restart", workers=3) as cluster:
        shrink(cluster, W2)
        cluster.acknowledge(W0, checkpoint=SAVED)
        cluster.carry_out()
        capacity = Resources(cpu=2, memory=8e9)
        cluster.crowded.add("node-0")
        cluster.post(ev.NodeObserved(node="node-0", capacity=capacity, usage=Resources()))
        cluster.tick(20)
        assert stands(cluster) == ("Failed", 1)
        assert "its room on node-0 has been taken meanwhile" in change_of(cluster).note
        cluster.settle()
        assert set(phases(cluster, "g").values()) <= {"Pending", "Absent"}
        assert [job.name for job in cluster.state.snapshot(cluster.now).waiting] == [G]


def test_trouble_on_the_way_back_is_the_end_of_the_change():
    """It has failed: the job waits to be admitted again."""
    with runs("restart") as cluster:
        shrink(cluster, W1)
        cluster.acknowledge(W0, checkpoint=SAVED)
        cluster.carry_out()
        cluster.tick(20)
        assert stands(cluster)[1] == 2
        cluster.carry_out()
        cluster.tick(20)
        assert stands(cluster) == ("Failed", 2)
        assert change_of(cluster).kind is Kind.SCALE_IN
        cluster.settle()
        assert cluster.live == {}
        assert set(phases(cluster, "g").values()) <= {"Pending", "Absent"}


def test_a_job_that_is_complete_meanwhile_is_complete():
    """Whatever was ordered of its change, in any of its states."""
    with runs("live") as cluster:
        shrink(cluster, W1)
        cluster.die(W0, 0)
        assert change_of(cluster).note == "it ends by itself"
        cluster.die(W1, 0)
        assert cluster.state.jobs[G].ended_at == cluster.now
    with runs("restart") as cluster:
        grow(cluster, W2)
        cluster.acknowledge(W0, checkpoint=SAVED)
        cluster.die(W0, 0)
        cluster.die(W1, 0)
        assert (stands(cluster)[0], cluster.state.transactions) == ("RolledBack", {})


def test_a_manager_that_was_killed_orders_again_what_the_change_orders():
    """In each state the same order; a deadline that passed begins anew, and a checkpoint that grew old is."""
    with runs("restart") as cluster:
        cluster.orders += (asked := grow(cluster, W2))
        cluster.now += 60
        assert [each.id for each in cluster.restart_manager()] == [each.id for each in asked]
        gone = saved(cluster)
        assert cluster.restart_manager() == gone
        cluster.now += 60
        assert [each.id for each in cluster.restart_manager()] == ["scale-out-2.2"]
        assert kinds(saved(cluster)) == kinds(gone)
        cluster.carry_out()
        assert stands(cluster) == ("Verifying", 1)
        cluster.now += 60
        assert cluster.restart_manager() == []
        trains_on(cluster)
        assert stands(cluster) == ("Succeeded", 1)
