"""Changes of jobs that their owners place: one order says what is to run, and what runs says what came."""

import msgspec
import pytest

from specon_manager.model import events as ev
from specon_manager.model.actions import AdmitGang, Claim, PlaceJob, RequestCheckpoint
from specon_manager.model.cluster import Phase
from support.decisions.changed_worlds import (
    SAVED,
    W0,
    W1,
    W2,
    G,
    change_of,
    grow,
    owned,
    preempt,
    shrink,
    stands,
    trains_on,
)
from support.decisions.gangs import phases
from support.decisions.owned_moves import carry_out_placement
from support.decisions.owners import placed

HERE = {W0: "node-0", W1: "node-0"}


def test_a_job_that_is_held_is_placed_as_a_whole_when_it_is_admitted():
    """One order names every replica and its node; it is admitted once all of it runs."""
    with owned(held=True) as cluster:
        first = next(each for _, _, actions in cluster.history for each in actions)
        assert first == PlaceJob(
            job=G,
            transaction="admit-1",
            placement=HERE,
            grace_seconds=7,
            reason="admit-1: room",
        )
        assert stands(cluster) == ("Succeeded", 1)
        assert cluster.state.jobs[G].admitted
        assert phases(cluster, "g")["worker2"] == "Absent"


def test_a_gang_that_is_not_ready_in_time_is_put_back_as_a_whole():
    """Its owner is told that none is to run; it waits, and no policy sees it until its pause is over."""
    with owned(held=True) as cluster:
        preempt(cluster)
        cluster.acknowledge(W0, checkpoint=SAVED)
        cluster.carry_out()
        assert stands(cluster) == ("Succeeded", 1)
        cluster.prompt = False
        cluster.propose(AdmitGang(job=G, placement=HERE, reason="again"))
        cluster.orders.clear()
        cluster.idle.discard(G)
        cluster.appears(W0, "node-0")
        actions = cluster.tick(15)
        assert placed(actions) == [("admit-3", {})]
        assert stands(cluster) == ("Leaving", 2)
        cluster.carry_out()
        cluster.tick(12)
        assert (stands(cluster), change_of(cluster).note) == (
            ("RolledBack", 2),
            f"{W1} did not start in time",
        )
        job = cluster.state.jobs[G]
        assert (job.admitted, job.queued_at, job.cooldown_until) == (False, cluster.now, cluster.now + 1)
        assert (phases(cluster, "g")["worker0"], G in cluster.idle) == ("Pending", True)


@pytest.mark.parametrize("resizing", ["live", "restart"])
def test_growth_is_one_order_after_the_checkpoint_or_two_where_all_of_it_ends_first(resizing):
    """Then it must train with all of them."""
    with owned(resizing) as cluster:
        (asked,) = grow(cluster, W2)
        assert isinstance(asked, RequestCheckpoint)
        cluster.prompt = False
        cluster.orders[:] = cluster.acknowledge(W0, checkpoint=SAVED)
        after = {**HERE, W2: "node-1"}
        if resizing == "restart":
            assert placed(cluster.orders) == [("scale-out-1", {})]
            carry_out_placement(cluster)
        assert placed(cluster.orders) == [("scale-out-1", after)]
        assert stands(cluster) == ("Coming", 1)
        cluster.carry_out()
        assert cluster.wanted(G) == after
        assert stands(cluster) == ("Verifying", 1)
        trains_on(cluster, 300)
        assert stands(cluster) == ("Succeeded", 1)


def test_shrinking_is_one_order_that_names_who_stays():
    """What is not named is gone when its owner has made it go."""
    with owned() as cluster:
        shrink(cluster, W1)
        assert placed(cluster.acknowledge(W0, checkpoint=SAVED)) == [("scale-in-1", {W0: "node-0"})]
        cluster.carry_out()
        trains_on(cluster, 300)
        assert (stands(cluster), phases(cluster, "g")["worker1"]) == (("Succeeded", 1), "Absent")


def test_what_cannot_be_done_changes_nothing():
    """Refused before anything came of it: all trains on, and its owner is told so."""
    with owned() as cluster:
        shrink(cluster, W1)
        cluster.acknowledge(W0, checkpoint=SAVED)
        cluster.orders.clear()
        actions = cluster.post(ev.JobRefused(job=G, transaction="scale-in-1", reason="denied by a webhook"))
        assert placed(actions) == [("", {W0: None, W1: None})]
        assert (stands(cluster), change_of(cluster).note) == (("RolledBack", 1), "denied by a webhook")
        assert phases(cluster, "g")["worker1"] == "Running"


def test_a_refusal_of_another_change_is_not_heard():
    """It speaks of what is over."""
    with owned() as cluster:
        shrink(cluster, W1)
        cluster.acknowledge(W0, checkpoint=SAVED)
        before = cluster.state
        assert cluster.post(ev.JobRefused(job=G, transaction="scale-in-0", reason="late")) == []
        assert cluster.state == before


def test_an_owner_that_ignores_the_order_is_told_three_times():
    """Then the job is left as it is."""
    with owned() as cluster:
        shrink(cluster, W1)
        _, order = cluster.acknowledge(W0, checkpoint=SAVED)
        cluster.orders.clear()
        assert cluster.tick(12) == [order]
        assert cluster.tick(12) == [order]
        assert placed(cluster.tick(12)) == [("", {W0: None, W1: None})]
        assert stands(cluster) == ("RolledBack", 1)
        assert "however often" in change_of(cluster).note


@pytest.mark.parametrize("saved", [False, True])
def test_the_number_that_its_user_writes_meanwhile_wins(saved):
    """The change ends and asks nothing more of the owner."""
    with owned(workers=2) as cluster:
        grow(cluster, W2)
        if saved:
            cluster.prompt = False
            cluster.acknowledge(W0, checkpoint=SAVED)
            cluster.carry_out()
        actions = cluster.edit(G, 4)
        assert stands(cluster) == ("RolledBack", 1)
        assert change_of(cluster).note == "its owner changed the number of its workers to 4 meanwhile"
        assert bool(placed(actions)) == saved
        assert phases(cluster, "g")["worker3"] == ("Awaited" if saved else "Running")


def test_a_node_that_is_lost_during_growth_turns_it_back_at_once():
    """The owner is told the former placement; the job trains on and proves it."""
    with owned() as cluster:
        grow(cluster, W2)
        cluster.prompt = False
        cluster.acknowledge(W0, checkpoint=SAVED)
        cluster.orders.clear()
        actions = cluster.post(ev.NodeGone(node="node-1"))
        assert placed(actions) == [("scale-out-1", HERE)]
        cluster.carry_out()
        cluster.tick(12)
        trains_on(cluster, 300)
        assert stands(cluster) == ("RolledBack", 2)
        assert phases(cluster, "g")["worker2"] == "Absent"


def test_a_job_that_is_deleted_while_it_is_changed_leaves_nothing():
    """In any state; its change is remembered as rolled back."""
    for saved in (False, True):
        with owned("restart") as cluster:
            grow(cluster, W2)
            if saved:
                cluster.prompt = False
                cluster.acknowledge(W0, checkpoint=SAVED)
                cluster.carry_out()
            cluster.remove(G)
            assert (cluster.state.transactions, change_of(cluster).note) == ({}, "its job is gone: deleted")


def test_a_change_whose_replicas_are_named_no_more_ends():
    """Its user lowered the most workers that it may have."""
    with owned() as cluster:
        grow(cluster, W2)
        cluster.observe(msgspec.structs.replace(cluster.specs[G], replicas=(W0, W1)))
        assert (stands(cluster), cluster.state.transactions) == (("RolledBack", 1), {})
        assert W2 not in cluster.state.replicas


def test_a_pod_that_its_owner_replaces_while_it_is_proven_keeps_its_room_and_is_waited_for():
    """The proof begins anew once it runs again, and its deadline does not."""
    with owned() as cluster:
        grow(cluster, W2)
        cluster.acknowledge(W0, checkpoint=SAVED)
        cluster.carry_out()
        deadline = change_of(cluster).deadline
        cluster.report(W0, step=300)
        cluster.prompt = False
        cluster.die(W2, 1)
        awaited = cluster.state.replicas[W2]
        assert (awaited.phase, awaited.holds, awaited.node) == (Phase.AWAITED, True, "node-1")
        cluster.now += 5
        cluster.appears(W2, "node-1")
        assert change_of(cluster).deadline == deadline
        assert not change_of(cluster).witnesses[W0].proven
        trains_on(cluster, 301)
        assert stands(cluster) == ("Succeeded", 1)


def test_a_worker_that_its_user_lets_go_is_absent_once_it_is_gone():
    """Seen after the number, as it is on a cluster: the job trains with those that are left."""
    with owned(top_down=True) as cluster:
        cluster.edit(G, 1)
        assert phases(cluster, "g")["worker1"] == "Absent"
        assert cluster.state.jobs[G].trains_since is not None


def test_room_that_was_claimed_for_a_job_is_given_up_when_somebody_lets_it_run():
    """And all of it is admitted: what does not run yet is awaited."""
    with owned(held=True) as cluster:
        preempt(cluster)
        cluster.acknowledge(W0, checkpoint=SAVED)
        cluster.carry_out()
        cluster.propose(Claim(job=G, placement=HERE, reason="room is about to be free"))
        assert list(cluster.state.claims) == [G]
        cluster.prompt = False
        cluster.idle.clear()
        cluster.appears(W0, "node-0")
        assert not cluster.state.claims
        assert cluster.state.jobs[G].admitted
        assert phases(cluster, "g")["worker1"] == "Awaited"


def test_a_manager_that_was_killed_as_a_change_ended_says_again_that_the_job_may_run():
    """Its owner may have suspended it for the change; told twice, it does nothing."""
    with owned("restart", held=True) as cluster:
        grow(cluster, W2)
        cluster.acknowledge(W0, checkpoint=SAVED)
        cluster.carry_out()
        cluster.prompt = False
        cluster.edit(G, 4)
        cluster.idle.add(G)
        cluster.reconcile(G)
        cluster.orders.clear()
        actions = cluster.restart_manager()
        assert placed(actions) == [("", dict.fromkeys((W0, W1, W2, f"{G}/worker/3")))]
        cluster.carry_out()
        cluster.prompt = True
        cluster.reconcile(G)
        assert set(phases(cluster, "g").values()) == {"Running"}


def test_the_owner_of_a_job_that_is_over_is_told_once():
    """No replica of it will ever run again, however many requests come."""
    with owned("none", workers=1, most=1) as cluster:
        cluster.post(ev.MoveRequested(id="mine", job=G, targets=("node-1",)))
        cluster.carry_out()
        cluster.acknowledge(W0, checkpoint=SAVED)
        cluster.settle(1)
        assert stands(cluster) == ("Verifying", 1)
        cluster.die(W0, 0)
        assert stands(cluster) == ("Succeeded", 1)
        cluster.orders.clear()
        assert placed(cluster.tick(1000.0)) == []


def test_a_job_that_names_a_queue_while_it_is_changed_is_its_owners_again_afterwards():
    """What runs of it was let go already: it does not keep to what a change ordered that is over."""
    with owned("live", most=3) as cluster:
        grow(cluster, W2)
        cluster.carry_out()
        cluster.acknowledge(W0, checkpoint=SAVED)
        cluster.orders.clear()
        ordered = cluster.observe(msgspec.structs.replace(cluster.specs[G], present=1, held=True))
        assert stands(cluster) == ("RolledBack", 1)
        assert cluster.state.jobs[G].admitted
        assert [transaction for transaction, _ in placed(ordered)] == [""]
