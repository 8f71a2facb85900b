"""The life of jobs and replicas: submitted, started, gone, started again, given up."""

import pytest

from specon_manager.model import events as ev
from specon_manager.model.actions import EvictReplica, StartReplica
from specon_manager.model.cluster import JobSpec, Phase
from support.decisions.cluster import Cluster, replica_of

A = replica_of("a")


@pytest.fixture
def cluster():
    return Cluster()


def crash_through(cluster, times):
    """Crash that often, and wait out each pause."""
    for _ in range(times):
        cluster.die(A, 1)
        cluster.tick(600)
        cluster.carry_out()


def test_a_submitted_job_is_started(cluster):
    """Pending, ordered with the next Tick, running when its backend says so."""
    cluster.submit("a", template={"command": "train"})
    assert cluster.state.replicas[A].phase is Phase.PENDING
    (order,) = cluster.tick()
    assert isinstance(order, StartReplica)
    assert (order.start, order.node, order.template) == (1, "node-0", {"command": "train"})
    assert cluster.state.replicas[A].phase is Phase.STARTING
    cluster.carry_out()
    replica = cluster.state.replicas[A]
    assert (replica.phase, replica.node, replica.incarnation) == (Phase.RUNNING, "node-0", f"{A}.1")
    assert replica.deadline is None


def test_a_job_that_is_submitted_twice_is_one_job(cluster):
    """The name decides; a second submission changes nothing, not even what it asks for."""
    cluster.run("a")
    before = cluster.state
    cluster.submit("a", restarts=99)
    assert cluster.state == before


def test_jobs_are_numbered_in_the_order_of_their_submission(cluster):
    """The round robin counts from 0."""
    cluster.run("a", "b", "c")
    assert [job.order for job in cluster.state.jobs.values()] == [0, 1, 2]


def test_a_trainer_that_ends_well_has_succeeded(cluster):
    """Exit code 0, told by nobody to end: the replica is complete, and its job with it."""
    cluster.run("a")
    cluster.die(A, 0)
    assert cluster.state.replicas[A].phase is Phase.SUCCEEDED
    assert cluster.state.jobs["default/a"].ended_at == cluster.now
    assert cluster.tick(1000) == []


def test_a_job_ends_with_its_last_replica(cluster):
    """One replica may fail and the other succeed: only then nothing more comes of the job."""
    names = tuple(f"default/j/worker/{index}" for index in range(2))
    cluster.post(ev.JobSubmitted(JobSpec(name="default/j", replicas=names, restarts=0)))
    cluster.tick()
    cluster.carry_out()
    cluster.die(names[0], 1)
    assert cluster.state.replicas[names[0]].phase is Phase.FAILED
    assert cluster.state.jobs["default/j"].ended_at is None
    cluster.now += 5
    cluster.die(names[1], 0)
    assert cluster.state.jobs["default/j"].ended_at == cluster.now


@pytest.mark.parametrize("exit_code", [1, 137, None])
def test_a_crash_is_followed_by_a_start_after_a_pause(cluster, exit_code):
    """Same node, next ordinal, one crash on the account; kill -9 is a crash as well."""
    cluster.run("a")
    cluster.die(A, exit_code)
    replica = cluster.state.replicas[A]
    assert (replica.phase, replica.crashes, replica.incarnation) == (Phase.PENDING, 1, None)
    assert replica.former == f"{A}.1"
    assert cluster.tick(0.5) == []
    (order,) = cluster.tick(0.5)
    assert isinstance(order, StartReplica)
    assert (order.start, order.node) == (2, "node-0")


def test_each_pause_is_twice_the_one_before_and_bounded(cluster):
    """1, 2, 4 seconds ... but never more than 256 times the first."""
    cluster.submit("a", restarts=1000)
    cluster.tick()
    cluster.carry_out()
    pauses = []
    for _ in range(12):
        cluster.die(A, 1)
        pauses.append(cluster.state.replicas[A].not_before - cluster.now)
        cluster.tick(600)
        cluster.carry_out()
    assert pauses == [1, 2, 4, 8, 16, 32, 64, 128, 256, 256, 256, 256]


@pytest.mark.parametrize("restarts", [0, 1, 3])
def test_an_owner_puts_up_with_so_many_crashes(cluster, restarts):
    """The next one is the end, and its reason is kept."""
    cluster.submit("a", restarts=restarts)
    cluster.tick()
    cluster.carry_out()
    crash_through(cluster, restarts)
    assert cluster.state.replicas[A].phase is Phase.RUNNING
    cluster.die(A, 3)
    replica = cluster.state.replicas[A]
    assert (replica.phase, replica.note) == (Phase.FAILED, f"crash {restarts + 1}: exit code 3")
    assert cluster.state.jobs["default/a"].ended_at == cluster.now
    assert cluster.tick(1000) == []


def test_an_eviction_that_no_move_asked_for_is_no_crash(cluster):
    """Somebody else ended it: it starts again at once, and the owner's patience is not touched."""
    cluster.run("a")
    cluster.die(A, 143, evicted=True)
    replica = cluster.state.replicas[A]
    assert (replica.phase, replica.crashes, replica.deadline) == (Phase.PENDING, 0, None)
    (order,) = cluster.tick(0)
    assert isinstance(order, StartReplica)


@pytest.mark.parametrize(
    ("step", "total", "phase"),
    [(100, 100, Phase.SUCCEEDED), (99, 100, Phase.PENDING), (100, None, Phase.PENDING)],
)
def test_an_evicted_trainer_that_answers_0_has_finished_only_at_its_last_step(cluster, step, total, phase):
    """Many trainers answer SIGTERM with exit code 0."""
    cluster.run("a")
    cluster.report(A, step=step, total_steps=total)
    cluster.die(A, 0, evicted=True)
    assert cluster.state.replicas[A].phase is phase


def test_a_refused_start_is_a_crash_with_its_reason(cluster):
    """No such image, no such command: it is tried again as often as a crash is."""
    cluster.submit("a")
    cluster.tick()
    cluster.post(ev.StartRefused(replica=A, start=1, reason="no such image"))
    replica = cluster.state.replicas[A]
    assert (replica.phase, replica.note) == (Phase.PENDING, "crash 1: no such image")


@pytest.mark.parametrize("start", [0, 2, 99])
def test_the_refusal_of_another_start_is_no_news(cluster, start):
    """Late or of the wrong number."""
    cluster.submit("a")
    cluster.tick()
    before = cluster.state
    cluster.post(ev.StartRefused(replica=A, start=start, reason="late"))
    assert cluster.state == before


def test_a_start_that_nobody_confirms_is_ended_before_the_next(cluster):
    """It may live though nobody said so: whatever there is of it is evicted, then it is started anew."""
    cluster.submit("a")
    (order,) = cluster.tick()
    cluster.orders.clear()
    cluster.start(order)
    cluster.tick(9.9)
    assert cluster.state.replicas[A].phase is Phase.STARTING
    (eviction,) = cluster.tick(0.1)
    assert (eviction.replica, eviction.incarnation) == (A, None)
    assert cluster.state.replicas[A].crashes == 0
    cluster.carry_out()
    assert cluster.state.replicas[A].note == "crash 1: it did not start in time"
    cluster.settle()
    assert cluster.live[A].incarnation == cluster.state.replicas[A].incarnation == f"{A}.2"


def test_a_start_that_is_confirmed_late_is_not_wanted_any_more(cluster):
    """The word of a start that was given up comes: that incarnation is evicted, by its name."""
    cluster.submit("a")
    cluster.tick()
    cluster.tick(10)
    actions = cluster.post(ev.ReplicaStarted(replica=A, incarnation=f"{A}.1", node="node-0"))
    (eviction,) = actions
    assert isinstance(eviction, EvictReplica)
    assert eviction.incarnation == f"{A}.1"
    cluster.post(ev.ReplicaGone(replica=A, incarnation=f"{A}.1", evicted=True))
    assert cluster.state.replicas[A].phase is Phase.PENDING


@pytest.mark.parametrize("exit_code", [0, 1])
def test_nothing_of_an_ended_replica_is_kept_running(cluster, exit_code):
    """An incarnation that appears after the end is evicted, and the replica stays ended."""
    cluster.submit("a", restarts=0)
    cluster.tick()
    cluster.carry_out()
    cluster.die(A, exit_code)
    phase = cluster.state.replicas[A].phase
    (eviction,) = cluster.post(ev.ReplicaStarted(replica=A, incarnation="stray", node="node-1"))
    assert isinstance(eviction, EvictReplica)
    assert eviction.incarnation == "stray"
    assert cluster.state.replicas[A].phase is phase


@pytest.mark.parametrize("incarnation", ["another", None])
def test_the_end_of_another_incarnation_is_no_news(cluster, incarnation):
    """Only the incarnation that runs can end; "there is none" answers an eviction and nothing else."""
    cluster.run("a")
    before = cluster.state
    cluster.post(ev.ReplicaGone(replica=A, incarnation=incarnation, exit_code=1))
    assert cluster.state == before


def test_what_was_ordered_and_not_seen_yet_cannot_be_gone(cluster):
    """An end that comes before its start is not believed; the start's deadline takes care of it."""
    cluster.submit("a")
    cluster.tick()
    before = cluster.state
    cluster.post(ev.ReplicaGone(replica=A, incarnation=f"{A}.1", exit_code=1))
    assert cluster.state == before


def test_news_of_replicas_that_nobody_knows_is_passed_over(cluster):
    """Another manager's pods, or a namesake from long ago."""
    before = cluster.state
    for event in (
        ev.ReplicaStarted(replica=A, incarnation="x", node="node-0"),
        ev.StartRefused(replica=A, start=1, reason="no"),
        ev.ReplicaGone(replica=A, incarnation="x"),
        ev.InstructionDelivered(id="move-1", replica=A, incarnation="x"),
        ev.RoomHeld(transaction="move-1", replica=A),
        ev.RoomRefused(transaction="move-1", replica=A, reason="full"),
        ev.OrderExpired(transaction="move-1"),
        ev.SidecarMissing(transaction="move-1", replica=A, count=1),
        ev.RequestWithdrawn(id="move-1"),
        ev.JobRefused(job="default/a", transaction="move-1", reason="no"),
    ):
        assert cluster.post(event) == []
        assert cluster.state == before


def test_a_replica_runs_where_it_was_started_and_not_where_it_was_ordered(cluster):
    """The backend knows better."""
    cluster.submit("a")
    cluster.tick()
    cluster.post(ev.ReplicaStarted(replica=A, incarnation=f"{A}.1", node="node-1"))
    assert cluster.state.replicas[A].node == "node-1"


def test_a_restarted_manager_orders_again_what_was_not_seen_to_start(cluster):
    """The same ordinal, so that a backend that did start it says so; the deadline is counted anew."""
    cluster.submit("a")
    (first,) = cluster.tick()
    cluster.now += 3600
    (again,) = cluster.restart_manager()
    assert isinstance(first, StartReplica)
    assert isinstance(again, StartReplica)
    assert (again.replica, again.start, again.node) == (first.replica, first.start, first.node)
    cluster.carry_out()
    assert cluster.state.replicas[A].phase is Phase.RUNNING
    assert cluster.state.replicas[A].crashes == 0
