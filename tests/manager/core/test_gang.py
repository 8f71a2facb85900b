"""The life of a job of several replicas: admitted, crashed, preempted, complete, failed."""

from specon_manager.model import events as ev
from specon_manager.model.actions import (
    Admit,
    AdmitGang,
    Claim,
    EvictReplica,
    Migrate,
    Preempt,
    Refusal,
    StartReplica,
)
from specon_manager.model.cluster import Leaving, Phase, Served
from specon_manager.model.transactions import TransactionState
from specon_manager.policies.placement import readmissions
from support.decisions.gangs import gang, on, phases, server, worker

G = "default/g"
PS, W0, W1, W2 = server("g"), *(worker("g", index) for index in range(3))
WHOLE = on("node-0", PS, W0, W1)


def start(replica, number=1, node="node-0", reason="room"):
    return StartReplica(replica=replica, start=number, node=node, template={}, reason=reason)


def evict(replica, incarnation, reason, grace=30.0):
    return EvictReplica(replica=replica, incarnation=incarnation, grace_seconds=grace, reason=reason)


def job(cluster):
    return cluster.state.jobs[G]


def trained(cluster):
    return job(cluster).attained(cluster.now)


def preempt(cluster):
    return cluster.propose(Preempt(job=G, reason="others first"))


def refusal(cluster, name=G):
    return cluster.state.verdicts[name].refusal


# -- admission -----------------------------------------------------------------------------------


def test_a_gang_is_started_as_a_whole(told):
    """Every replica gets its order, in the order of the placement; it trains once the last one runs."""
    told.post(ev.JobSubmitted(gang("g")))
    assert phases(told, "g") == {"ps0": "Pending", "worker0": "Pending", "worker1": "Pending"}
    actions = told.propose(AdmitGang(job=G, placement=WHOLE, reason="room"))
    assert actions == [start(PS), start(W0), start(W1)]
    assert (job(told).admitted_at, told.state.changed_at) == (told.now, told.now)
    first, second, last = told.orders[:]
    for action in (first, second):
        told.carry_out_one(action)
    assert job(told).trains_since is None
    told.now += 5
    told.carry_out_one(last)
    assert job(told).trains_since == told.now
    assert phases(told, "g") == {"ps0": "Running", "worker0": "Running", "worker1": "Running"}


def test_workers_without_a_place_are_absent(told):
    """An elastic job starts with fewer than were asked for, or with more."""
    told.admit(gang("g", 3, fewest=1), on("node-0", PS, W0))
    assert phases(told, "g") == {
        "ps0": "Running",
        "worker0": "Running",
        "worker1": "Absent",
        "worker2": "Absent",
    }
    assert job(told).trains_since == told.now
    told.admit(gang("h", 1, ps=0, most=2), on("node-1", worker("h", 0), worker("h", 1)))
    assert phases(told, "h") == {"worker0": "Running", "worker1": "Running"}


def test_a_gang_that_is_refused_leaves_no_trace_but_the_decision(told):
    """Not one of its replicas is started."""
    told.post(ev.JobSubmitted(gang("g", 4, cpu=1.0)))
    before = told.state
    placement = on("node-0", PS, *(worker("g", index) for index in range(4)))
    assert told.propose(AdmitGang(job=G, placement=placement, reason="room")) == []
    assert refusal(told) is Refusal.NO_ROOM
    assert (told.state.jobs, told.state.replicas) == (before.jobs, before.replicas)


def test_admission_spends_the_claim(told):
    """What was kept for the job is what it got."""
    told.post(ev.JobSubmitted(gang("g")))
    told.propose(Claim(job=G, placement=WHOLE, reason="soon"))
    assert list(told.state.claims) == [G]
    told.again(G, WHOLE)
    assert dict(told.state.claims) == {}


def test_one_replica_alone_can_be_started(told):
    """The default scheduler does not know gangs: the rest waits on, and the job does not train."""
    told.post(ev.JobSubmitted(gang("g")))
    assert told.propose(Admit(replica=W0, node="node-1", reason="alone")) == [
        start(W0, node="node-1", reason="alone")
    ]
    told.carry_out()
    assert phases(told, "g") == {"ps0": "Pending", "worker0": "Running", "worker1": "Pending"}
    assert job(told).trains_since is None
    assert told.propose(AdmitGang(job=G, placement=WHOLE, reason="room")) == []
    assert refusal(told) is Refusal.NOT_WAITING


# -- crashes -------------------------------------------------------------------------------------


def test_a_crash_of_one_stops_the_training_and_is_mended(told):
    """The others keep their places, and it keeps its own: there it is started after its pause."""
    told.admit(gang("g"), WHOLE)
    told.now += 10
    told.die(W1, 1)
    assert phases(told, "g") == {"ps0": "Running", "worker0": "Running", "worker1": "Pending"}
    assert (job(told).trains_since, trained(told)) == (None, 10.0)
    assert told.state.snapshot(told.now).room("node-0").cpu == 1
    assert told.tick(0.9) == []
    assert list(readmissions(told.state.snapshot(told.now + 0.1))) == []
    why = "start again on node-0 beside the others of its job, after crash 1"
    assert told.tick(0.1) == [start(W1, 2, reason=why)]
    told.carry_out()
    assert (job(told).trains_since, trained(told)) == (told.now, 10.0)


def test_a_crashed_replica_whose_node_is_lost_is_started_on_another(told):
    """The node with most room beside it, by a policy; the rest of the gang stays where it is."""
    told.admit(gang("g"), {PS: "node-0", W0: "node-0", W1: "node-1"})
    lost = told.state.nodes["node-1"]
    told.post(ev.NodeObserved(node="node-1", capacity=lost.capacity, usage=lost.usage, ready=False))
    told.die(W1, None)
    assert told.tick(1.0) == []
    (admit,) = readmissions(told.state.snapshot(told.now))
    assert (admit.replica, admit.node) == (W1, "node-0")


def test_a_node_is_lost_with_all_of_a_gang(told):
    """It waits again as a whole, until the last pause is over, and is started elsewhere."""
    told.admit(gang("g", fewest=1), WHOLE)
    told.now += 7
    for name in WHOLE:
        told.die(name, None)
    assert phases(told, "g") == {"ps0": "Pending", "worker0": "Pending", "worker1": "Pending"}
    record = job(told)
    assert (record.queued_at, record.trains_since, record.attained_seconds) == (told.now, None, 7.0)
    assert told.state.snapshot(told.now).waiting == ()
    assert [waiting.name for waiting in told.state.snapshot(told.now + 1).waiting] == [G]
    told.again(G, on("node-1", PS, W0, W1))
    assert {told.live[name].node for name in WHOLE} == {"node-1"}
    assert job(told).admitted_at == told.state.jobs[G].submitted_at + 1  # when it was first admitted


def test_a_job_with_one_worker_too_many_waits_with_what_was_asked_for(told):
    """All of it crashed: what it had grown by, or shrunk by, is forgotten."""
    told.admit(gang("g", 2, most=3, fewest=1), on("node-0", PS, W0, W1, W2))
    for name in (PS, W0, W1, W2):
        told.die(name, 1)
    assert phases(told, "g") == {
        "ps0": "Pending",
        "worker0": "Pending",
        "worker1": "Pending",
        "worker2": "Absent",
    }


def test_a_replica_that_failed_for_good_ends_its_job(told):
    """The others are told to end with the next Tick, and have failed as well."""
    told.admit(gang("g", restarts=0), WHOLE)
    told.now += 3
    assert told.die(W0, 9) == []
    assert phases(told, "g") == {"ps0": "Running-", "worker0": "Failed", "worker1": "Running-"}
    assert job(told).trains_since is None
    why = "another replica of its job failed for good"
    assert told.tick() == [evict(PS, f"{PS}.1", why), evict(W1, f"{W1}.1", why)]
    told.carry_out()
    assert phases(told, "g") == {"ps0": "Failed", "worker0": "Failed", "worker1": "Failed"}
    assert (job(told).ended_at, trained(told)) == (told.now, 3.0)
    assert told.state.replicas[W1].note == why
    assert dict(told.state.served) == {}
    assert told.tick(1000) == []


def test_what_waits_of_a_failed_job_fails_at_once(told):
    """There is nothing to tell it."""
    told.admit(gang("g", restarts=1), WHOLE)
    told.die(W1, 1)
    told.die(W0, 1)
    told.propose(*readmissions(told.state.snapshot(told.now + 1)))
    told.carry_out()
    told.die(W1, 1)
    assert phases(told, "g") == {"ps0": "Running-", "worker0": "Running-", "worker1": "Failed"}
    told.die(PS, 1)  # by itself, before it is told
    told.settle()
    assert set(phases(told, "g").values()) == {"Failed"}
    assert told.live == {}


def test_a_gang_whose_starts_are_all_overdue_waits_again(told):
    """Whatever there is of each is ended; one crash on the account of each."""
    told.post(ev.JobSubmitted(gang("g")))
    told.propose(AdmitGang(job=G, placement=WHOLE, reason="room"))
    why = "it did not start in time"
    assert told.tick(10) == [evict(PS, None, why), evict(W0, None, why), evict(W1, None, why)]
    assert phases(told, "g") == {"ps0": "Starting-", "worker0": "Starting-", "worker1": "Starting-"}
    told.orders = [each for each in told.orders if isinstance(each, EvictReplica)]
    told.carry_out()
    assert {told.state.replicas[name].crashes for name in WHOLE} == {1}
    assert (phases(told, "g")["ps0"], job(told).queued_at) == ("Pending", told.now)


# -- the end -------------------------------------------------------------------------------------


def test_a_job_is_complete_with_its_last_worker(told):
    """Parameter servers never end by themselves: they are told to, with the next Tick."""
    told.admit(gang("g"), WHOLE)
    told.now += 4
    told.die(W0, 0)
    assert job(told).trains_since is not None
    told.now += 4
    told.die(W1, 0)
    assert phases(told, "g") == {"ps0": "Running-", "worker0": "Succeeded", "worker1": "Succeeded"}
    assert (job(told).ended_at, job(told).trains_since) == (None, None)
    assert told.tick() == [evict(PS, f"{PS}.1", "its job is complete")]
    told.carry_out()
    assert set(phases(told, "g").values()) == {"Succeeded"}
    assert (job(told).ended_at, job(told).attained_seconds) == (told.now, 8.0)
    assert told.state.ended_jobs == (G,)


def test_how_long_jobs_of_a_kind_train_is_learnt(told):
    """The mean over those that were complete, by kind, or by class where no kind is named."""
    for index, (kind, seconds) in enumerate([("cnn", 10.0), ("cnn", 30.0), ("", 5.0)]):
        name = f"j{index}"
        told.admit(gang(name, 1, ps=0, kind=kind), on("node-0", worker(name)))
        told.now += seconds
        told.die(worker(name), 0)
    told.admit(gang("lost", 1, ps=0, kind="cnn", restarts=0), on("node-0", worker("lost")))
    told.die(worker("lost"), 1)
    assert told.state.served == {
        "cnn": Served(jobs=2, mean_seconds=20.0, latest=(10.0, 30.0)),
        "best-effort": Served(jobs=1, mean_seconds=5.0, latest=(5.0,)),
    }
    assert told.state.snapshot(told.now).served == told.state.served


def test_a_claim_ends_with_its_job(told):
    """The claim is spent when the job is admitted, so none is left when the job ends."""
    told.admit(gang("g", 1, ps=0, restarts=0), on("node-0", W0))
    preempt(told)
    told.carry_out()
    told.propose(Claim(job=G, placement={W0: "node-1"}, reason="soon"))
    told.again(G, {W0: "node-0"})
    told.die(W0, 1)
    assert (job(told).ended_at, dict(told.state.claims)) == (told.now, {})


# -- preemption ----------------------------------------------------------------------------------


def test_a_preempted_job_ends_and_waits_again(told):
    """Its room is its own until the last of it is gone; then it waits with the workers it asked for."""
    told.admit(gang("g", 2, most=3, fewest=1, grace_seconds=7), on("node-0", PS, W0, W1, W2))
    told.now += 20
    actions = preempt(told)
    why = "others first"
    assert actions == [evict(name, f"{name}.1", why, 7.0) for name in (PS, W0, W1, W2)]
    assert told.state.replicas[W0].leaving == Leaving(
        purpose="preempt", since=told.now, deadline=told.now + 7 + 5, reason=why
    )
    assert (job(told).preemptions, job(told).trains_since, trained(told)) == (1, None, 21.0)
    assert told.state.snapshot(told.now).room("node-0").cpu == 0
    told.now += 2
    for action in list(told.orders)[:3]:
        told.carry_out_one(action)
    assert phases(told, "g") == {
        "ps0": "Pending",
        "worker0": "Pending",
        "worker1": "Pending",
        "worker2": "Running-",
    }
    snapshot = told.state.snapshot(told.now)
    assert (snapshot.waiting, snapshot.running, snapshot.unplaced) == ((), (), ())
    told.now += 2
    told.carry_out()
    assert phases(told, "g") == {
        "ps0": "Pending",
        "worker0": "Pending",
        "worker1": "Pending",
        "worker2": "Absent",
    }
    assert (job(told).queued_at, job(told).preemptions, trained(told)) == (told.now, 1, 21.0)
    assert [waiting.name for waiting in told.state.snapshot(told.now).waiting] == [G]
    assert {replica.crashes for replica in told.state.replicas.values()} == {0}


def test_nothing_of_a_preempted_job_is_started_while_the_rest_ends(told):
    """Half a gang would hold its room, and never be whole."""
    told.admit(gang("g"), WHOLE)
    preempt(told)
    told.carry_out_one(told.orders[0])
    assert list(readmissions(told.state.snapshot(told.now))) == []
    assert told.propose(Admit(replica=PS, node="node-0", reason="again")) == []
    assert refusal(told, PS) is Refusal.IN_FLIGHT


def test_a_job_is_preempted_no_more_often_than_the_budget_says(told):
    """Twice here; the third proposal is refused, and the job trains on."""
    told.admit(gang("g"), WHOLE)
    for _ in range(2):
        assert preempt(told)
        told.carry_out()
        told.again(G, WHOLE)
    assert preempt(told) == []
    assert (refusal(told), job(told).preemptions) == (Refusal.PREEMPTION_BUDGET, 2)
    assert set(phases(told, "g").values()) == {"Running"}


def test_an_order_to_end_is_given_again_until_it_is_obeyed(told):
    """After the grace period and the margin, and as long again."""
    told.admit(gang("g", 1, ps=0, grace_seconds=3), on("node-0", W0))
    (order,) = preempt(told)
    told.orders.clear()
    assert told.tick(7.9) == []
    assert told.tick(0.1) == [order]
    told.orders.clear()
    assert told.tick(7.9) == []
    assert told.tick(0.1) == [order]
    told.carry_out()
    assert phases(told, "g") == {"worker0": "Pending"}


def test_a_manager_that_was_away_tells_again_what_was_told(told):
    """With the deadline set anew, and nothing is started that was told to end."""
    told.post(ev.JobSubmitted(gang("g", 2, ps=0)))
    told.propose(AdmitGang(job=G, placement=on("node-0", W0, W1), reason="room"))
    told.carry_out_one(told.orders[0])
    preempt(told)
    assert phases(told, "g") == {"worker0": "Running-", "worker1": "Starting-"}
    told.now += 3600
    assert told.restart_manager() == [evict(W0, f"{W0}.1", "others first"), evict(W1, None, "others first")]
    assert told.tick(34.9) == []
    told.carry_out()
    assert phases(told, "g") == {"worker0": "Pending", "worker1": "Pending"}
    assert told.live == {}


def test_a_replica_that_is_seen_after_it_was_told_to_end_is_told_by_its_name(told):
    """There was no incarnation to name before."""
    told.post(ev.JobSubmitted(gang("g", 1, ps=0)))
    (begin,) = told.propose(AdmitGang(job=G, placement=on("node-0", W0), reason="room"))
    told.orders.clear()
    assert preempt(told) == [evict(W0, None, "others first")]
    told.orders.clear()
    (seen,) = told.start(begin)
    (eviction,) = told.post(seen)
    assert (eviction.replica, eviction.incarnation) == (W0, f"{W0}.1")
    assert phases(told, "g") == {"worker0": "Running-"}
    assert job(told).trains_since is None
    told.carry_out()
    assert phases(told, "g") == {"worker0": "Pending"}


def test_a_start_that_is_refused_after_it_was_told_to_end_is_no_crash(told):
    """It is gone, which is what was wanted."""
    told.post(ev.JobSubmitted(gang("g", 1, ps=0)))
    told.propose(AdmitGang(job=G, placement=on("node-0", W0), reason="room"))
    preempt(told)
    told.post(ev.StartRefused(replica=W0, start=1, reason="no such image"))
    assert (phases(told, "g"), told.state.replicas[W0].crashes) == ({"worker0": "Pending"}, 0)


def test_a_crash_while_it_is_preempted_is_no_crash(told):
    """It was told to end, and did not do it well."""
    told.admit(gang("g", 1, ps=0, restarts=0), on("node-0", W0))
    preempt(told)
    told.die(W0, 1)
    assert (phases(told, "g"), told.state.replicas[W0].crashes) == ({"worker0": "Pending"}, 0)


def test_a_job_that_is_done_while_it_is_preempted_is_done(told):
    """Its workers have succeeded; its parameter server goes as it was told to, and is closed with them."""
    told.admit(gang("g"), WHOLE)
    preempt(told)
    for name in (W0, W1):
        told.die(name, 0)
    assert phases(told, "g") == {"ps0": "Running-", "worker0": "Succeeded", "worker1": "Succeeded"}
    told.carry_out()
    assert set(phases(told, "g").values()) == {"Succeeded"}
    assert job(told).ended_at == told.now


def test_a_worker_that_is_done_is_not_started_again(told):
    """The rest of the gang was preempted: it waits without the worker that has succeeded."""
    told.admit(gang("g"), WHOLE)
    told.die(W1, 0)
    preempt(told)
    told.carry_out()
    assert phases(told, "g") == {"ps0": "Pending", "worker0": "Pending", "worker1": "Succeeded"}
    assert told.again(G, WHOLE) == []
    assert refusal(told) is Refusal.NOT_PENDING
    assert told.again(G, on("node-0", PS, W0)) == [start(PS, 2, reason="again"), start(W0, 2, reason="again")]
    assert job(told).trains_since == told.now


def test_a_move_within_a_failed_job_ends_with_it_and_leaves_nothing_waiting(told):
    """Its replica is told to end with the job: what was to start elsewhere does not start again anywhere."""
    told.admit(gang("g", restarts=0, coupled=False), WHOLE)
    told.report(W1, step=10)
    told.may_carry_out = lambda action: not isinstance(action, StartReplica)
    told.propose(Migrate(replica=W1, target="node-1", purpose="migrate", reason="why"))
    told.carry_out()
    assert told.state.transaction_of(W1).state is TransactionState.COMING
    told.die(W0, 1)
    assert phases(told, "g") == {"ps0": "Running-", "worker0": "Failed", "worker1": "Starting-"}
    (move,) = told.state.history
    assert (move.state, move.note) == (TransactionState.ROLLED_BACK, "it ends by itself")
    told.post(ev.StartRefused(replica=W1, start=2, reason="full"))
    assert phases(told, "g") == {"ps0": "Running-", "worker0": "Failed", "worker1": "Failed"}
    told.orders.clear()
    told.settle()
    assert job(told).ended_at is not None


def test_a_move_within_a_complete_job_ends_with_it(told):
    """There is nothing left to be proven: a parameter server that moves is told to end like any other."""
    told.admit(gang("g", coupled=False), WHOLE)
    told.report(PS, step=10)
    told.propose(Migrate(replica=PS, target="node-1", purpose="migrate", reason="why"))
    told.carry_out()
    assert told.state.transaction_of(PS).state is TransactionState.VERIFYING
    for name in (W0, W1):
        told.die(name, 0)
    assert phases(told, "g") == {"ps0": "Running-", "worker0": "Succeeded", "worker1": "Succeeded"}
    assert told.state.history[-1].state is TransactionState.SUCCEEDED
    assert told.tick() == [evict(PS, f"{PS}.2", "its job is complete")]
    told.carry_out()
    assert (job(told).ended_at, told.state.replicas[PS].phase) == (told.now, Phase.SUCCEEDED)


# -- news that comes late, twice, or out of order ------------------------------------------------


def test_late_and_doubled_news_changes_nothing(told):
    """Anything said of former incarnations, said again at any later time."""
    told.admit(gang("g"), WHOLE)
    preempt(told)
    told.carry_out()
    told.again(G, WHOLE)
    said = [event for _, event, _ in told.history if isinstance(event, ev.ReplicaGone | ev.ReplicaStarted)]
    before = told.state
    for event in said:
        assert told.post(event) == []
        assert told.state == before


def test_a_stray_of_a_waiting_job_is_ended(told):
    """Nobody ordered it; the job waits on, since when it did before."""
    told.admit(gang("g"), WHOLE)
    preempt(told)
    told.carry_out()
    before = told.state
    told.now += 5
    (eviction,) = told.post(ev.ReplicaStarted(replica=W0, incarnation="stray", node="node-0"))
    assert (eviction.replica, eviction.incarnation) == (W0, "stray")
    told.post(ev.ReplicaGone(replica=W0, incarnation="stray", evicted=True))
    assert told.state == before
