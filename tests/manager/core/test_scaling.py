"""Elastic jobs: workers that are added and ended while the job runs, and weights in place."""

import msgspec
import pytest

from specon_manager.model import events as ev
from specon_manager.model.actions import (
    AdmitGang,
    EvictReplica,
    Migrate,
    Preempt,
    Refusal,
    Reweight,
    ScaleIn,
    ScaleOut,
    SetWeight,
    StartReplica,
)
from specon_manager.model.cluster import Leaving, Phase
from support.decisions.gangs import gang, on, phases, server, worker

G = "default/g"
PS, W0, W1, W2 = server("g"), *(worker("g", index) for index in range(3))
ELASTIC = gang("g", 2, most=3, fewest=1, grace_seconds=7)


@pytest.fixture
def elastic(told):
    """Run a job with a parameter server and two of one to three workers on node-0."""
    told.admit(ELASTIC, on("node-0", PS, W0, W1))
    return told


def grow(cluster, *replicas, node="node-0"):
    return cluster.propose(ScaleOut(job=G, placement=on(node, *replicas), reason="idle"))


def shrink(cluster, *replicas):
    return cluster.propose(ScaleIn(job=G, replicas=replicas, reason="another waits"))


def job(cluster):
    return cluster.state.jobs[G]


def workers(cluster):
    return [replica.name for replica in cluster.state.snapshot(cluster.now).workers(G)]


# -- more workers --------------------------------------------------------------------------------


def test_a_job_grows_by_what_is_absent(elastic):
    """It does not train until the new worker runs; then it trains with all of them."""
    elastic.now += 9
    actions = grow(elastic, W2, node="node-1")
    assert actions == [StartReplica(replica=W2, start=1, node="node-1", template={}, reason="idle")]
    assert (job(elastic).trains_since, job(elastic).attained_seconds) == (None, 10.0)
    assert elastic.state.changed_at == elastic.now
    elastic.now += 2
    elastic.carry_out()
    assert set(phases(elastic, "g").values()) == {"Running"}
    assert job(elastic).trains_since == elastic.now
    assert workers(elastic) == [W0, W1, W2]


def test_a_worker_that_never_came_is_a_crash_of_that_worker(elastic):
    """The job waits for it: it was ordered, and is started again beside the others."""
    grow(elastic, W2)
    elastic.post(ev.StartRefused(replica=W2, start=1, reason="no such image"))
    assert phases(elastic, "g")["worker2"] == "Pending"
    assert elastic.state.replicas[W2].note == "crash 1: no such image"
    why = "start again on node-0 beside the others of its job, after crash 1"
    again = StartReplica(replica=W2, start=2, node="node-0", template={}, reason=why)
    assert elastic.tick(1) == [again]


def test_a_job_does_not_grow_beyond_what_others_let_it_who_keep_quotas(told):
    """The plan refuses it, whatever a policy proposes, in their words."""
    bounded = msgspec.structs.replace(ELASTIC, headroom=0, no_headroom="ClusterQueue team is stopped")
    told.admit(bounded, on("node-0", PS, W0, W1))
    assert grow(told, W2) == []
    verdict = told.state.verdicts[G]
    assert (verdict.refusal, verdict.reason) == (Refusal.NO_ROOM, "ClusterQueue team is stopped")
    assert shrink(told, W1)


# -- fewer workers -------------------------------------------------------------------------------


def test_a_job_shrinks_by_what_is_told_to_end(elastic):
    """The worker holds its room until it is gone; then it is absent, and the others train on."""
    actions = shrink(elastic, W1)
    order = EvictReplica(replica=W1, incarnation=f"{W1}.1", grace_seconds=7.0, reason="another waits")
    assert actions == [order]
    assert elastic.state.replicas[W1].leaving == Leaving(
        purpose="scale-in", since=elastic.now, deadline=elastic.now + 12, reason="another waits"
    )
    assert elastic.state.changed_at == elastic.now
    snapshot = elastic.state.snapshot(elastic.now)
    assert [running.name for running in snapshot.running] == [G]
    assert (workers(elastic), snapshot.room("node-0").cpu) == ([W0], 1.0)
    elastic.now += 2
    elastic.carry_out()
    gone = elastic.state.replicas[W1]
    assert (gone.phase, gone.incarnation, gone.leaving) == (Phase.ABSENT, None, None)
    assert gone.note == "scale-in: another waits"
    assert job(elastic).trains_since == elastic.now
    assert elastic.state.snapshot(elastic.now).room("node-0").cpu == 2.0
    assert job(elastic).preemptions == 0


def test_an_order_to_end_is_given_again_until_it_is_obeyed(elastic):
    """After the grace period and the margin; a manager that was away gives it at once."""
    (order,) = shrink(elastic, W1)
    elastic.orders.clear()
    assert elastic.tick(11.9) == []
    assert elastic.tick(0.1) == [order]
    elastic.now += 3600
    assert elastic.restart_manager() == [order]
    assert elastic.tick(11.9) == []
    assert elastic.tick(0.1) == [order]


def test_several_workers_end_together(told):
    """One proposal, one order for each."""
    told.admit(gang("g", 3, ps=0, fewest=1), on("node-0", W0, W1, W2))
    assert [action.replica for action in shrink(told, W2, W1)] == [W2, W1]
    told.carry_out()
    assert phases(told, "g") == {"worker0": "Running", "worker1": "Absent", "worker2": "Absent"}


def test_what_shrank_may_grow_again(elastic):
    """The same worker is a new incarnation, with the next ordinal."""
    shrink(elastic, W1)
    elastic.carry_out()
    (order,) = grow(elastic, W1, node="node-1")
    assert (order.start, order.node) == (2, "node-1")
    elastic.carry_out()
    assert workers(elastic) == [W0, W1]


def test_a_worker_that_finishes_while_it_is_told_to_end_has_finished(elastic):
    """Its exit code says so, and nobody had ended it yet."""
    shrink(elastic, W1)
    elastic.die(W1, 0)
    assert phases(elastic, "g") == {
        "ps0": "Running",
        "worker0": "Running",
        "worker1": "Succeeded",
        "worker2": "Absent",
    }


def test_a_job_that_fails_while_it_shrinks_ends_whole(told):
    """The worker that was told already is not told twice; absent workers are no hindrance."""
    told.admit(gang("g", 3, fewest=1, restarts=0), on("node-0", PS, W0, W1, W2))
    shrink(told, W2)
    told.die(W0, 1)
    orders = told.tick()
    assert [(order.replica, order.reason) for order in orders] == [
        (PS, "another replica of its job failed for good"),
        (W1, "another replica of its job failed for good"),
    ]
    told.carry_out()
    assert phases(told, "g") == {
        "ps0": "Failed",
        "worker0": "Failed",
        "worker1": "Failed",
        "worker2": "Absent",
    }
    assert job(told).ended_at == told.now


def test_a_job_whose_own_workers_are_done_does_not_wait_for_what_it_grew_by(elastic):
    """The rest crashed: what waits again is what was asked for, and that is done."""
    grow(elastic, W2)
    elastic.carry_out()
    for name in (W0, W1):
        elastic.die(name, 0)
    for name in (W2, PS):
        elastic.die(name, 1)
    assert phases(elastic, "g") == {
        "ps0": "Succeeded",
        "worker0": "Succeeded",
        "worker1": "Succeeded",
        "worker2": "Absent",
    }
    assert job(elastic).ended_at == elastic.now


def test_a_job_that_shrinks_is_preempted_only_once_it_has(elastic):
    """What is told to end is told one thing."""
    shrink(elastic, W1)
    assert elastic.propose(Preempt(job=G, reason="others first")) == []
    assert elastic.state.verdicts[G].refusal is Refusal.IN_FLIGHT
    elastic.carry_out()
    assert len(elastic.propose(Preempt(job=G, reason="others first"))) == 2


def test_late_and_doubled_news_changes_nothing(elastic):
    """What was said of a worker that is absent now."""
    shrink(elastic, W1)
    elastic.carry_out()
    before = elastic.state
    for _, event, _ in list(elastic.history):
        if isinstance(event, ev.ReplicaGone | ev.ReplicaStarted):
            assert elastic.post(event) == []
            assert elastic.state == before


# -- weights -------------------------------------------------------------------------------------


def weigh(cluster, replica, weight):
    return cluster.propose(Reweight(replica=replica, weight=weight, reason="behind the others"))


def test_a_weight_is_set_in_place(elastic):
    """One order, and the record says what the processors do."""
    assert weigh(elastic, W0, 2.5) == [
        SetWeight(replica=W0, incarnation=f"{W0}.1", weight=2.5, reason="behind the others")
    ]
    elastic.carry_out()
    assert (elastic.state.replicas[W0].weight, elastic.live[W0].weight) == (2.5, 2.5)
    assert job(elastic).trains_since is not None


def test_a_manager_that_was_away_sets_the_weights_again(elastic):
    """The order may be lost with it; a weight of one is what every incarnation begins with."""
    weigh(elastic, W0, 2.5)
    elastic.orders.clear()
    why = "set before the manager was started again"
    assert elastic.restart_manager() == [SetWeight(replica=W0, incarnation=f"{W0}.1", weight=2.5, reason=why)]
    elastic.carry_out()
    assert elastic.live[W0].weight == 2.5


def test_a_replica_that_crashed_begins_with_the_weight_of_any_other(elastic):
    """The record is of the new incarnation: it says what the processors do."""
    weigh(elastic, W0, 2.5)
    elastic.carry_out()
    elastic.die(W0, 1)
    elastic.tick(1)
    elastic.carry_out()
    assert elastic.live[W0].incarnation == f"{W0}.2"
    assert (elastic.state.replicas[W0].weight, elastic.live[W0].weight) == (1.0, 1.0)


def test_a_replica_that_moved_begins_with_the_weight_of_any_other(told):
    """On its target, which has other neighbours."""
    told.admit(msgspec.structs.replace(ELASTIC, coupled=False), on("node-0", PS, W0, W1))
    weigh(told, W0, 2.5)
    told.report(W0, step=10)
    told.propose(Migrate(replica=W0, target="node-1", purpose="migrate", reason="why"))
    told.carry_out()
    assert (told.live[W0].node, told.live[W0].weight) == ("node-1", 1.0)
    assert told.state.replicas[W0].weight == 1.0


def test_an_incarnation_that_nobody_ordered_is_given_no_weight(elastic):
    """It is told to end, by its name; what runs keeps its own."""
    weigh(elastic, W0, 2.5)
    elastic.carry_out()
    (order,) = elastic.post(ev.ReplicaStarted(replica=W0, incarnation="other", node="node-0"))
    assert isinstance(order, EvictReplica)
    assert (order.replica, order.incarnation) == (W0, "other")
    record = elastic.state.replicas[W0]
    assert (record.incarnation, record.weight, record.weighed) == (f"{W0}.1", 2.5, True)


def test_a_replica_that_its_owner_revives_is_given_the_weight_of_the_record(told):
    """The new incarnation began with one."""
    spec = gang("g", 1, ps=0, cpu=2.0, placed_by="owner", lowest_cpu=0.5)
    told.post(ev.JobObserved(spec))
    told.post(ev.ReplicaStarted(replica=W0, incarnation="first", node="node-0"))
    weigh(told, W0, 0.5)
    told.orders.clear()
    told.post(ev.ReplicaGone(replica=W0, incarnation="first", exit_code=0))
    assert told.state.replicas[W0].phase is Phase.SUCCEEDED
    assert told.post(ev.ReplicaStarted(replica=W0, incarnation="other", node="node-0")) == [
        SetWeight(replica=W0, incarnation="other", weight=0.5, reason="as its former incarnation had it")
    ]


@pytest.mark.parametrize("again", [True, False])
def test_what_waits_or_is_absent_has_no_weight(elastic, again):
    """The next time that it is admitted it begins as any other."""
    weigh(elastic, W1, 2.5)
    elastic.carry_out()
    if again:
        elastic.propose(Preempt(job=G, reason="others first"))
    else:
        shrink(elastic, W1)
    elastic.carry_out()
    assert elastic.state.replicas[W1].weight == 1.0
    if again:
        elastic.propose(AdmitGang(job=G, placement=on("node-0", PS, W0, W1), reason="room"))
    else:
        grow(elastic, W1)
    elastic.carry_out()
    assert elastic.live[W1].weight == 1.0


def test_weights_are_refused_where_nobody_can_set_them(elastic):
    """A backend without shares of processors never gets the order."""
    settings = msgspec.structs.replace(elastic.state.settings, reweight=False)
    elastic.post(ev.ManagerStarted("next", settings))
    assert weigh(elastic, W0, 2.5) == []
    assert elastic.state.verdicts[W0].refusal is Refusal.NOT_REWEIGHTABLE
