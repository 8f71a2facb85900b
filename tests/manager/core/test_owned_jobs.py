"""Jobs that their owners place: what is learnt of them, and how little is ordered for them."""

import msgspec
import pytest

from specon_manager.core.migration import TRANSITIONS
from specon_manager.model import events as ev
from specon_manager.model.actions import EvictReplica, HoldRoom, ReleaseRoom, StartReplica
from specon_manager.model.cluster import JobSpec, Phase
from specon_manager.model.moves import FINAL_STATES, MoveOutcome, MoveState
from specon_manager.model.resources import Resources
from specon_sidecar.wire import Checkpoint
from support.cluster import DIGEST
from support.owners import Owners, described

A, A1 = "default/a/worker/0", "default/a/worker/1"
MOVE = "default/by-hand"
STATES = [state for state in MoveState if state not in FINAL_STATES]


def phases(cluster):
    return {name.removeprefix("default/"): str(r.phase) for name, r in cluster.state.replicas.items()}


def running(replicas=1, **changes):
    """Job `a` runs on node-0 at step 100; node-1 is empty."""
    cluster = Owners()
    cluster.observe(described("a", replicas, **changes))
    cluster.start_all("node-0")
    for name in sorted(cluster.live):
        cluster.report(name, step=100)
    cluster.orders.clear()
    return cluster


def moving(stop, **changes):
    """Bring a move of A to node-1 to this state; its orders wait."""
    cluster = running(**changes)
    cluster.sidecars_answer = False
    cluster.post(ev.MoveRequested(id=MOVE, replica=A, target="node-1", reason="maintenance"))
    cluster.orders.clear()
    checkpoint = Checkpoint(step=100, path="/c", digest=DIGEST)
    past = {
        MoveState.RESERVED: lambda: cluster.post(ev.RoomHeld(move=MOVE)),
        MoveState.CHECKPOINTING: lambda: cluster.post(
            ev.InstructionDelivered(id=MOVE, replica=A, incarnation="uid-1")
        ),
        MoveState.EVICTING: lambda: cluster.acknowledge(A, checkpoint=checkpoint),
        MoveState.RESTORING: lambda: carry_out(cluster, EvictReplica),
        MoveState.VERIFYING: lambda: carry_out(cluster, StartReplica),
    }
    for state, happens in past.items():
        if cluster.state.moves[A].state is stop:
            break
        happens()
        assert cluster.state.moves[A].state is state
    return cluster


def carry_out(cluster, kind):
    order = next(order for order in cluster.orders if isinstance(order, kind))
    cluster.carry_out_one(order)
    return order


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
        MoveState.ROLLED_BACK,
        "its job wants this replica no more",
    )
    suspended = stop in {MoveState.EVICTING, MoveState.RESTORING}
    assert [a.node for a in actions if isinstance(a, StartReplica)] == [None] * suspended
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
    cluster = moving(MoveState.CHECKPOINTING)
    cluster._end(A, None, evicted=True)
    cluster.appears(A, "node-0")
    assert last(cluster).state is MoveState.ROLLED_BACK
    assert cluster.state.replicas[A].phase is Phase.RUNNING


def test_another_incarnation_completes_the_eviction_of_a_move():
    """It is gone, and its owner was quicker than our order: the move goes on with what runs."""
    cluster = moving(MoveState.EVICTING)
    cluster._end(A, None, evicted=True)
    cluster.orders.clear()
    cluster.appears(A, "node-1")
    move = cluster.state.moves[A]
    assert (move.state, move.incarnation, move.attempt) == (MoveState.VERIFYING, "uid-2", 1)
    assert cluster.orders == []


# -- gone --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stop", STATES)
def test_a_job_that_is_gone_leaves_only_history(stop):
    """Its move ends with the reason and gives back what it held; everything else is forgotten."""
    cluster = moving(stop)
    actions = cluster.post(ev.JobGone(job="default/a", reason="deleted"))
    assert (last(cluster).state, last(cluster).note) == (
        MoveState.ROLLED_BACK,
        "its job is gone: deleted",
    )
    assert any(isinstance(action, ReleaseRoom) for action in actions)
    assert not any(isinstance(action, StartReplica | EvictReplica) for action in actions)
    assert (cluster.state.jobs, cluster.state.replicas, cluster.state.moves) == ({}, {}, {})
    assert cluster.post(ev.JobGone(job="default/a")) == []


def test_every_state_of_a_move_ends_with_its_job():
    """No state of a move outlives the job."""
    assert {TRANSITIONS[state, MoveOutcome.JOB_GONE] for state in STATES} == {MoveState.ROLLED_BACK}


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


# -- moves -------------------------------------------------------------------------------------------


def test_a_move_goes_through_hold_checkpoint_eviction_and_start():
    """The same transaction as for jobs of ours; room names the replica that it is held for."""
    cluster = running()
    actions = cluster.post(ev.MoveRequested(id=MOVE, replica=A, target="node-1"))
    assert [(a.move, a.replica, a.node) for a in actions if isinstance(a, HoldRoom)] == [(MOVE, A, "node-1")]
    cluster.carry_out()
    assert cluster.state.moves[A].state is MoveState.VERIFYING
    cluster.report(A, step=101)
    move = last(cluster)
    assert (move.state, move.policy, move.purpose, move.note) == (
        MoveState.SUCCEEDED,
        "request",
        "requested",
        "",
    )
    cluster.carry_out()
    assert cluster.room == {}


def test_a_scheduler_that_knows_better_is_believed():
    """The target becomes the node where it runs, and the note says so; the room on the other is given up."""
    cluster = Owners(nodes=3)
    cluster.observe(described("a"))
    cluster.start_all("node-0")
    cluster.report(A, step=100)
    cluster.post(ev.MoveRequested(id=MOVE, replica=A, target="node-1"))
    cluster.scheduled = "node-2"
    cluster.carry_out()
    assert cluster.state.moves[A].target == "node-2"
    assert cluster.room == {}
    cluster.report(A, step=101)
    move = last(cluster)
    assert (move.state, move.target, move.note) == (
        MoveState.SUCCEEDED,
        "node-2",
        "its scheduler put it on node-2",
    )


def test_a_scheduler_that_puts_it_back_has_not_moved_it():
    """On the source again the move is rolled back."""
    cluster = moving(MoveState.RESTORING)
    cluster.scheduled = "node-0"
    carry_out(cluster, StartReplica)
    cluster.report(A, step=101)
    assert (last(cluster).state, last(cluster).note) == (
        MoveState.ROLLED_BACK,
        "its scheduler put it on node-0",
    )


def test_a_refused_eviction_leaves_the_replica_where_it_trains():
    """Nothing was ended: the room is given back, and the replica still runs."""
    cluster = moving(MoveState.EVICTING)
    refused = ev.EvictionRefused(replica=A, incarnation="uid-1", reason="blocked by budget b")
    actions = cluster.post(refused)
    assert [type(action) for action in actions] == [ReleaseRoom]
    assert (last(cluster).state, last(cluster).note) == (MoveState.ROLLED_BACK, "blocked by budget b")
    record = cluster.state.replicas[A]
    assert (record.phase, record.node, record.incarnation) == (Phase.RUNNING, "node-0", "uid-1")
    assert cluster.post(refused) == []


@pytest.mark.parametrize("stop", [state for state in STATES if state is not MoveState.EVICTING])
def test_an_eviction_that_was_not_ordered_cannot_be_refused(stop):
    """In other states the event means nothing."""
    cluster = moving(stop)
    before = cluster.state
    incarnation = cluster.state.moves[A].incarnation
    assert cluster.post(ev.EvictionRefused(replica=A, incarnation=incarnation, reason="no")) == []
    assert cluster.state == before


def test_the_refused_eviction_of_another_incarnation_is_no_news():
    """It may come late."""
    cluster = moving(MoveState.EVICTING)
    before = cluster.state
    assert cluster.post(ev.EvictionRefused(replica=A, incarnation="uid-0", reason="no")) == []
    assert cluster.post(ev.EvictionRefused(replica="default/x/worker/0", incarnation="1", reason="")) == []
    assert cluster.state == before


def test_on_the_way_back_an_eviction_is_not_given_up():
    """It did not resume on the target: it must end before the source gets it."""
    cluster = moving(MoveState.VERIFYING)
    cluster.tick(1000.0)
    move = cluster.state.moves[A]
    assert (move.state, move.attempt) == (MoveState.EVICTING, 2)
    before = cluster.state
    assert cluster.post(ev.EvictionRefused(replica=A, incarnation=move.incarnation, reason="no")) == []
    assert cluster.state == before


def failed():
    """Neither node could restore A."""
    cluster = moving(MoveState.RESTORING)
    cluster.orders.clear()
    cluster.post(ev.StartRefused(replica=A, start=1, reason="unschedulable"))
    actions = cluster.post(ev.StartRefused(replica=A, start=2, reason="unschedulable"))
    assert last(cluster).state is MoveState.FAILED
    return cluster, actions


def test_what_no_node_restores_comes_back_wherever_there_is_room():
    """A move that failed orders the start without a node, and the start ends it."""
    cluster, actions = failed()
    (order,) = [action for action in actions if isinstance(action, StartReplica)]
    assert (order.node, order.replica, order.start) == (None, A, 3)
    assert "unschedulable" in order.reason
    cluster.orders[:] = [order]
    cluster.carry_out()
    record = cluster.state.replicas[A]
    assert (record.phase, record.node, record.deadline) == (Phase.RUNNING, "node-0", None)
    assert cluster.tick(1000.0) == []


def test_the_start_without_a_node_is_ordered_again_and_ever_later():
    """Overdue it is given again, refused after a pause, by the next manager at once."""
    cluster, _ = failed()
    waits = []
    for _ in range(8):
        deadline = cluster.state.replicas[A].deadline
        waits.append(deadline - cluster.now)
        assert cluster.tick(waits[-1] - 0.5) == []
        (again,) = cluster.tick(0.5)
        assert (again.node, again.start) == (None, 3)
    start = cluster.state.settings.deadlines.start
    assert waits == [start, *(start * 2**n for n in (1, 2, 3, 4, 4, 4, 4))]
    assert cluster.post(ev.StartRefused(replica=A, start=3, reason="no quota")) == []
    assert cluster.state.replicas[A].phase is Phase.STARTING
    (again,) = cluster.tick(cluster.state.replicas[A].deadline - cluster.now)
    assert again.node is None
    (again,) = cluster.restart_manager()
    assert (again.node, again.start) == (None, 3)


@pytest.mark.parametrize(
    ("exit_code", "phase"), [(None, Phase.AWAITED), (1, Phase.AWAITED), (0, Phase.SUCCEEDED)]
)
def test_an_owner_that_starts_it_no_more_ends_the_waiting(exit_code, phase):
    """That there is no incarnation and will be none is an answer to the start without a node."""
    cluster, _ = failed()
    cluster.orders.clear()
    cluster.post(ev.ReplicaGone(replica=A, incarnation=None, exit_code=exit_code, evicted=exit_code is None))
    assert cluster.state.replicas[A].phase is phase
    assert cluster.tick(1000.0) == []


def test_what_lives_on_after_a_failed_move_is_left_alone():
    """It showed no step on the source in time, but it is there: nothing is ordered."""
    cluster = moving(MoveState.VERIFYING)
    cluster.tick(1000.0)
    cluster.orders[:] = [order for order in cluster.orders if isinstance(order, EvictReplica)]
    cluster.carry_out()
    assert cluster.state.moves[A].attempt == 2
    actions = cluster.tick(1000.0)
    assert last(cluster).state is MoveState.FAILED
    assert not any(isinstance(action, StartReplica | EvictReplica) for action in actions)
    assert cluster.state.replicas[A].phase is Phase.RUNNING
