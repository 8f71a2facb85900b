"""Jobs that their owners place: what is learnt of them, and how little is ordered for them."""

import msgspec
import pytest

from specon_manager.model import events as ev
from specon_manager.model.actions import ReleaseRoom
from specon_manager.model.cluster import JobSpec, Phase
from specon_manager.model.resources import Resources
from specon_manager.model.transactions import UNTOUCHED_STATES, TransactionState
from support.decisions.owned_moves import A1, MOVE, STATES, A, move_of, moving, running
from support.decisions.owners import Owners, described, placed


def phases(cluster):
    return {name.removeprefix("default/"): str(r.phase) for name, r in cluster.state.replicas.items()}


def last(cluster):
    return cluster.state.history[-1]


# -- described ---------------------------------------------------------------------------------------


def test_a_job_is_awaited_until_its_owner_starts_it():
    """Its replicas are no queue of ours: nothing pends, nothing is ordered."""
    cluster = Owners()
    assert cluster.observe(described("a", 2)) == []
    assert phases(cluster) == {"a/worker/0": "Awaited", "a/worker/1": "Awaited"}
    snapshot = cluster.state.snapshot(cluster.now)
    assert (snapshot.pending, snapshot.waiting, snapshot.unplaced) == ((), (), ())
    assert cluster.tick(1000.0) == []
    cluster.appears(A, "node-1")
    record = cluster.state.replicas[A]
    assert (record.phase, record.node, record.incarnation) == (Phase.RUNNING, "node-1", "uid-1")
    assert cluster.state.jobs["default/a"].trains_since is None
    cluster.appears(A1, "node-1")
    assert cluster.state.jobs["default/a"].trains_since == cluster.now


def test_whoever_observes_a_job_says_that_its_owner_places_it():
    """The event alone decides it, whatever the description says."""
    cluster = Owners()
    cluster.post(ev.JobObserved(JobSpec(name="default/a", replicas=(A,))))
    assert cluster.state.jobs["default/a"].owned
    assert cluster.state.replicas[A].phase is Phase.AWAITED


def test_a_job_of_ours_keeps_its_name():
    """A name that was submitted to us is not taken over by what is observed, nor forgotten for it."""
    cluster = Owners()
    cluster.submit("a")
    before = cluster.state
    cluster.observe(described("a", 2))
    cluster.post(ev.JobGone(job="default/a"))
    assert cluster.state == before


def test_the_same_description_again_changes_nothing():
    """A reflector says everything again now and then."""
    cluster = running(2)
    before = cluster.state
    cluster.observe(described("a", 2))
    assert cluster.state == before


def test_a_new_description_keeps_what_is_known():
    """New names are awaited, requests follow, progress and phases stay."""
    cluster = running()
    cluster.observe(described("a", 2, requests=Resources(cpu=2), immovable="no"))
    assert phases(cluster) == {"a/worker/0": "Running", "a/worker/1": "Awaited"}
    assert cluster.state.replicas[A].progress.step == 100
    assert cluster.state.replicas[A].requests == Resources(cpu=2)
    assert cluster.state.jobs["default/a"].spec.immovable == "no"


def test_a_name_that_is_dropped_is_forgotten_when_it_has_left():
    """What is not there is forgotten at once; what runs, when its end is seen; named again, it stays."""
    cluster = running(2)
    cluster.observe(described("a", 3))
    cluster.observe(described("a", 1))
    assert phases(cluster) == {"a/worker/0": "Running", "a/worker/1": "Running"}
    assert cluster.state.jobs["default/a"].dropped == (A1,)
    cluster.observe(described("a", 2))
    assert cluster.state.jobs["default/a"].dropped == ()
    cluster.observe(described("a", 1))
    cluster.die(A1, 143, evicted=True)
    assert phases(cluster) == {"a/worker/0": "Running"}
    assert cluster.state.jobs["default/a"].dropped == ()


def test_a_dropped_replica_is_not_moved():
    """Nobody would start it again."""
    cluster = running(2)
    cluster.observe(described("a", 1))
    cluster.post(ev.MoveRequested(id=MOVE, replica=A1))
    assert last(cluster).note == "its job wants this replica no more"


@pytest.mark.parametrize("stop", STATES)
def test_a_job_that_shrinks_below_a_moving_replica_ends_the_move(stop):
    """What was suspended for it is let go, so that its owner's next wish comes true."""
    cluster = moving(stop)
    actions = cluster.observe(described("a", 0))
    assert (last(cluster).state, last(cluster).note) == (
        TransactionState.ROLLED_BACK,
        "its description names other replicas by now",
    )
    assert placed(actions) == ([] if stop in UNTOUCHED_STATES else [("", {})])
    assert any(isinstance(action, ReleaseRoom) for action in actions)


# -- the life of replicas ----------------------------------------------------------------------------


def test_a_crash_is_counted_and_nothing_is_ordered():
    """Its owner restarts it or gives it up, however often it crashes."""
    cluster = running(restarts=0)
    for crash in range(1, 6):
        assert cluster.die(A, 1) == []
        record = cluster.state.replicas[A]
        assert (record.phase, record.crashes) == (Phase.AWAITED, crash)
        assert cluster.tick(1000.0) == []
        cluster.appears(A, "node-0")


def test_an_eviction_by_somebody_else_is_no_crash():
    """A node is drained: the replica is awaited again."""
    cluster = running()
    cluster.die(A, 143, evicted=True)
    assert (cluster.state.replicas[A].phase, cluster.state.replicas[A].crashes) == (Phase.AWAITED, 0)


def test_a_job_is_over_when_all_succeeded_and_may_begin_again():
    """Exit code 0 is success; peers are not told to end; an owner may run what was over once more."""
    cluster = running(2)
    assert cluster.die(A, 0) == []
    assert cluster.state.replicas[A].phase is Phase.SUCCEEDED
    assert cluster.state.jobs["default/a"].ended_at is None
    assert cluster.die(A1, 0) == []
    assert cluster.state.jobs["default/a"].ended_at == cluster.now
    assert cluster.state.ended_jobs == ()
    cluster.appears(A, "node-1")
    assert cluster.state.jobs["default/a"].ended_at is None
    assert cluster.state.replicas[A].ended_at is None


def test_parameter_servers_are_left_to_their_owner():
    """When the workers have succeeded nothing is ordered."""
    names = ("default/a/ps/0", A)
    cluster = Owners()
    cluster.observe(JobSpec(name="default/a", replicas=names, placed_by="owner"))
    cluster.start_all()
    assert cluster.die(A, 0) == []
    assert cluster.tick(1000.0) == []
    assert cluster.state.replicas["default/a/ps/0"].phase is Phase.RUNNING


def test_another_incarnation_says_that_the_former_one_is_gone():
    """Owners start one after the other; the word of the end may be lost."""
    cluster = running()
    cluster._end(A, None, evicted=True)
    assert cluster.appears(A, "node-1") == "uid-2"
    record = cluster.state.replicas[A]
    assert (record.node, record.incarnation, record.former) == ("node-1", "uid-2", "uid-1")
    assert cluster.orders == []


def test_another_incarnation_ends_a_move_that_had_not_evicted():
    """What was to be moved is not there any more."""
    cluster = moving(TransactionState.CHECKPOINTING)
    cluster._end(A, None, evicted=True)
    cluster.appears(A, "node-0")
    assert last(cluster).state is TransactionState.ROLLED_BACK
    assert cluster.state.replicas[A].phase is Phase.RUNNING


def test_another_incarnation_completes_the_eviction_of_a_move():
    """It is gone, and its owner was quicker than our order: the move goes on with what runs."""
    cluster = moving(TransactionState.LEAVING)
    cluster._end(A, None, evicted=True)
    cluster.orders.clear()
    cluster.appears(A, "node-1")
    move = move_of(cluster)
    assert (move.state, move.attempt) == (TransactionState.VERIFYING, 1)
    assert cluster.state.replicas[A].incarnation == "uid-2"
    assert placed(cluster.orders) == [(MOVE, {A: "node-1"})]


def test_what_is_lost_before_it_has_shown_that_it_trains_is_ordered_again_once():
    """An owner starts it again by itself; a bare pod has nobody else and would be away until the deadline."""
    cluster = moving(TransactionState.VERIFYING)
    cluster.orders.clear()
    cluster._end(A, None, evicted=True)
    cluster.post(ev.ReplicaGone(replica=A, incarnation=cluster.state.replicas[A].incarnation, evicted=True))
    assert placed(cluster.orders) == [(MOVE, {A: "node-1"})]
    assert cluster.tick() == []
    assert move_of(cluster).state is TransactionState.VERIFYING
    cluster.appears(A, "node-1")
    assert move_of(cluster).running_at == cluster.now


# -- gone --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stop", STATES)
def test_a_job_that_is_gone_leaves_only_history(stop):
    """Its move ends with the reason and gives back what it held; everything else is forgotten."""
    cluster = moving(stop)
    actions = cluster.post(ev.JobGone(job="default/a", reason="deleted"))
    assert (last(cluster).state, last(cluster).note) == (
        TransactionState.ROLLED_BACK,
        "its job is gone: deleted",
    )
    assert any(isinstance(action, ReleaseRoom) for action in actions)
    assert not placed(actions)
    assert (cluster.state.jobs, cluster.state.replicas, cluster.state.transactions) == ({}, {}, {})
    assert cluster.post(ev.JobGone(job="default/a")) == []


def test_many_jobs_that_ended_are_remembered_while_they_are_there():
    """Retention is for what was submitted to us; what is observed is forgotten when it is gone."""
    cluster = Owners()
    settings = msgspec.structs.replace(cluster.state.settings, retention=0)
    cluster.post(ev.ManagerStarted("next", settings))
    for number in range(70):
        cluster.observe(described(f"j{number}"))
    cluster.start_all()
    for name in sorted(cluster.live):
        cluster.die(name, 0)
    cluster.tick()
    assert len(cluster.state.jobs) == 70
