"""What orders do in the simulated world: starts, moves, preemptions, scalings, lost nodes, weights."""

import msgspec
import pytest

from specon_lab.engine.account import Account
from specon_lab.engine.backend import SimulatedBackend
from specon_lab.engine.run import settings_for, simulate
from specon_lab.engine.world import World
from specon_lab.workloads.workload import NodeFailure
from specon_manager.core.state import State
from specon_manager.model import events as ev
from specon_manager.model.actions import (
    Admit,
    EvictReplica,
    HoldRoom,
    Migrate,
    Preempt,
    RequestCheckpoint,
    Reweight,
    ScaleIn,
    ScaleOut,
    SetWeight,
    StartReplica,
)
from specon_manager.model.cluster import Phase
from specon_manager.model.resources import Resources
from specon_manager.model.settings import Budgets, Deadlines, Gate, Settings
from support.lab.invariants import Invariants
from support.lab.simulations import VAE, admit_all, job, nodes, scripted, sharing_job, workload

WORKER = "default/job-0/worker/0"


def ungated(given, **changes) -> Settings:
    """Return the settings that fit the workload, without a gate and cooldowns."""
    return msgspec.structs.replace(
        settings_for(given), gate=Gate(enabled=False), budgets=Budgets(cooldown=0, **changes)
    )


def at(*times):
    """Return a predicate that is true at the first Tick from each of the times on."""
    left = list(times)

    def due(now: float) -> bool:
        if not left or now < left[0]:
            return False
        left.pop(0)
        return True

    return due


def moves_at(due, target="node-1"):
    """Return a policy that starts all on node-0, and moves the first job once."""

    def propose(snapshot):
        yield from admit_all(snapshot)
        if due(snapshot.now):
            yield Migrate(replica=WORKER, target=target, purpose="test", reason="it is time")

    return propose


# -- moves ---------------------------------------------------------------------------------------


def test_specon_moves_end_to_end():
    """SpeCon's moves pass through every state, and cost a stop, a start and a restore."""
    jobs = [
        sharing_job(
            i,
            at=5.0 * i,
            seconds=60 if i % 2 else 300,
            curve=VAE,
            start_seconds=2.0,
            restore_seconds=1.0,
            save_seconds=1.0,
            stop_seconds=1.0,
        )
        for i in range(6)
    ]
    given = workload(*jobs, contention=0.1)
    invariants = Invariants()
    outcome = simulate(given, "specon", settings=ungated(given), check=invariants)
    moved = [done for done in outcome.jobs if done.moves]
    assert invariants.moves
    assert sum(done.moves for done in outcome.jobs) == len(invariants.moves)
    assert outcome.moves_failed == 0
    for done in moved:
        assert done.paused_seconds == pytest.approx(2 + 4 * done.moves)
        assert done.lost_seconds == 0
        assert done.state == "completed"


@pytest.mark.parametrize("checkpointing", ["asked", "on-termination"])
def test_move_keeps_the_work(monkeypatch, checkpointing):
    """A move costs its downtime and nothing else, whenever the trainer writes its checkpoint."""
    given = workload(
        job(
            0,
            seconds=100,
            curve=VAE,
            save_seconds=3.0,
            stop_seconds=2.0,
            restore_seconds=5.0,
            spec={"checkpointing": checkpointing},
        )
    )
    policy = scripted(monkeypatch, moves_at(at(40)))
    invariants = Invariants()
    outcome = simulate(given, policy, settings=ungated(given), check=invariants, stays=True)
    assert outcome.jobs[0].moves == 1
    assert outcome.jobs[0].ended_at == pytest.approx(107)
    assert outcome.jobs[0].paused_seconds == pytest.approx(7)
    saved = 40 if checkpointing == "on-termination" else 43
    assert [(stay.node, stay.start, stay.end) for stay in outcome.stays] == [
        ("node-0", 0, pytest.approx(saved + 2)),
        ("node-1", pytest.approx(saved + 2), pytest.approx(107)),
    ]


def test_a_move_may_take_another_time_than_other_starts(monkeypatch):
    """Where it is given it is all of the start: neither the time of a fresh one nor that of a restore."""
    times = {"start_seconds": 20.0, "restore_seconds": 5.0, "move_seconds": 3.0, "stop_seconds": 2.0}
    given = workload(job(0, seconds=100, curve=VAE, **times))
    policy = scripted(monkeypatch, moves_at(at(60)))
    outcome = simulate(given, policy, settings=ungated(given), check=Invariants())
    assert outcome.jobs[0].moves == 1
    assert outcome.jobs[0].paused_seconds == pytest.approx(20 + 2 + 3)


def test_job_that_finishes_while_it_saves_is_not_moved(monkeypatch):
    """A move of a job that ends before its checkpoint is written is rolled back."""
    given = workload(job(0, seconds=52, curve=VAE, save_seconds=10.0))
    policy = scripted(monkeypatch, moves_at(at(45)))
    outcome = simulate(given, policy, settings=ungated(given), check=Invariants())
    assert outcome.jobs[0].ended_at == 52
    assert outcome.jobs[0].moves == 0
    assert outcome.moves_failed == 1


def test_move_to_a_node_that_is_lost_meanwhile_goes_back(monkeypatch):
    """When the target is lost while the replica is on its way, it is restored on its source."""
    given = workload(
        job(0, seconds=100, curve=VAE, stop_seconds=10.0, restore_seconds=5.0),
        failures=(NodeFailure(node="node-1", at=45.0, seconds=1e4),),
    )
    policy = scripted(monkeypatch, moves_at(at(40)))
    outcome = simulate(given, policy, settings=ungated(given), check=Invariants(), stays=True)
    assert outcome.jobs[0].state == "completed"
    assert [stay.node for stay in outcome.stays] == ["node-0", "node-0"]
    assert outcome.moves_failed == 1
    assert outcome.jobs[0].lost_seconds == 0


# -- lost nodes ----------------------------------------------------------------------------------


def test_lost_node_costs_the_work_since_the_checkpoint():
    """A job on a node that is lost goes on elsewhere from its last own checkpoint."""
    given = workload(
        job(0, seconds=100, checkpoint_seconds=30.0, start_seconds=2.0),
        failures=(NodeFailure(node="node-0", at=52.0, seconds=1000.0),),
    )
    outcome = simulate(given, "round-robin", check=Invariants(), stays=True)
    done = outcome.jobs[0]
    assert done.lost_seconds == pytest.approx(20)  # trained for 50 s, saved after 30
    assert done.trained_seconds == pytest.approx(120)
    assert [stay.node for stay in outcome.stays] == ["node-0", "node-1"]


def test_job_that_never_saves_begins_anew():
    """Without checkpoints all the work is lost with the node."""
    given = workload(
        job(0, seconds=100, checkpoint_seconds=1.0, spec={"checkpointing": "none"}),
        failures=(NodeFailure(node="node-0", at=50.0, seconds=1000.0),),
    )
    outcome = simulate(given, "round-robin", check=Invariants())
    assert outcome.jobs[0].lost_seconds == 50


def test_saves_while_sharing_count_progress():
    """What is saved is progress, not time: at half speed a period saves half as much."""
    given = workload(
        sharing_job(0, seconds=100, checkpoint_seconds=20.0),
        sharing_job(1, seconds=100, checkpoint_seconds=20.0),
        on=nodes(1),
        failures=(NodeFailure(node="node-0", at=50.0, seconds=100.0),),
    )
    outcome = simulate(given, "round-robin", check=Invariants())
    assert outcome.jobs[0].lost_seconds == pytest.approx(5)  # 25 done, 20 saved after 40 s


def test_lost_too_often_a_job_fails():
    """A job that is lost more often than its owner puts up with has failed, with the reason."""
    failures = tuple(NodeFailure(node="node-0", at=100.0 * i + 50, seconds=1.0) for i in range(3))
    given = workload(job(0, seconds=1e4, spec={"restarts": 1}), on=nodes(1), failures=failures)
    outcome = simulate(given, "round-robin", check=Invariants())
    assert outcome.jobs[0].state == "failed"
    assert "node-0 is lost" in outcome.jobs[0].reason
    assert outcome.jobs[0].ended_at == 150


def test_gang_goes_on_after_one_part_was_lost(monkeypatch):
    """When the node of one worker is lost the rest waits for it, and the job goes on from its checkpoint."""

    def spread(snapshot):
        for replica in snapshot.unplaced:
            lost = not snapshot.nodes["node-1"].ready
            node = "node-0" if replica.index == 0 or lost else "node-1"
            yield Admit(replica=replica.name, node=node, reason="spread")

    policy = scripted(monkeypatch, spread)
    given = workload(
        job(0, workers=2, seconds=100, checkpoint_seconds=40.0),
        failures=(NodeFailure(node="node-1", at=50.0, seconds=1000.0),),
    )
    outcome = simulate(given, policy, check=Invariants())
    assert outcome.jobs[0].state == "completed"
    assert outcome.jobs[0].lost_seconds == pytest.approx(10)
    assert outcome.jobs[0].waited_seconds == 0


def test_failures_that_overlap_end_with_the_last():
    """A node that fails twice at the same time is back when both failures are over."""
    failures = (
        NodeFailure(node="node-0", at=0.0, seconds=100.0),
        NodeFailure(node="node-0", at=50.0, seconds=150.0),
    )
    outcome = simulate(workload(job(0), on=nodes(1), failures=failures), "round-robin")
    assert outcome.jobs[0].started_at == 200


# -- preemption and scaling ----------------------------------------------------------------------


def test_preempted_job_makes_no_progress_in_its_grace_period(monkeypatch):
    """From the signal on a preempted job holds its room without progress; the work before is kept."""
    due = at(40)

    def propose(snapshot):
        yield from admit_all(snapshot)
        if due(snapshot.now):
            yield Preempt(job="default/job-0", reason="it is time")

    policy = scripted(monkeypatch, propose)
    given = workload(job(0, seconds=100, spec={"grace_seconds": 20.0}))
    outcome = simulate(given, policy, check=Invariants(), stays=True)
    done = outcome.jobs[0]
    assert done.preemptions == 1
    assert done.paused_seconds == 20
    assert done.intervals == (20,)
    assert done.ended_at == 120
    assert [(stay.start, stay.end) for stay in outcome.stays] == [(0, 60), (60, 120)]


def test_scaling_changes_the_speed_after_a_pause(monkeypatch):
    """More or fewer workers pause the whole job, once however many change, and then set its speed."""
    out, less = at(20), at(60)

    def propose(snapshot):
        yield from admit_all(snapshot)
        spec = "default/job-0"
        if out(snapshot.now):
            names = [f"{spec}/worker/{index}" for index in (2, 3)]
            yield ScaleOut(job=spec, placement=dict.fromkeys(names, "node-1"), reason="room")
        if less(snapshot.now):
            yield ScaleIn(job=spec, replicas=tuple(f"{spec}/worker/{i}" for i in (1, 2, 3)), reason="crowd")

    policy = scripted(monkeypatch, propose)
    given = workload(
        job(
            0,
            workers=2,
            most=4,
            seconds=100,
            resize_seconds=10.0,
            scale_in_seconds=5.0,
            stop_seconds=2.0,
            spec={"min_workers": 1},
        )
    )
    outcome = simulate(
        given, policy, settings=Settings(policy="specon", tick=10.0), ticks_only=True, check=Invariants()
    )
    done = outcome.jobs[0]
    assert (done.scale_outs, done.scale_ins) == (1, 1)
    assert done.paused_seconds == 15
    # 20 s at 1, 30 s at 2, then half as fast: 20 of 100 are left.
    assert done.ended_at == pytest.approx(65 + 40)


def test_weights_divide_the_cores(monkeypatch):
    """A replica of three times the weight gets three times the share, from the order on."""

    def propose(snapshot):
        yield from admit_all(snapshot)
        replica = snapshot.replicas.get(WORKER)
        if replica is not None and replica.phase is Phase.RUNNING and replica.weight == 1.0:
            yield Reweight(replica=WORKER, weight=3.0, reason="it grows")

    policy = scripted(monkeypatch, propose)
    given = workload(sharing_job(0, seconds=75), sharing_job(1, seconds=75), on=nodes(1))
    outcome = simulate(given, policy, check=Invariants())
    assert [done.ended_at for done in outcome.jobs] == [pytest.approx(100), pytest.approx(150)]


def test_gpus_are_accounted_for_where_jobs_ask_for_them():
    """The use of a cluster is that of its GPUs when jobs ask for any."""
    given = workload(job(0, requests=Resources(cpu=1.0, gpu=2.0)), on=nodes(1, gpu=8.0))
    outcome = simulate(given, "round-robin")
    assert outcome.allocated == pytest.approx(0.25)
    assert outcome.used == pytest.approx(0.25)


# -- orders that come twice ----------------------------------------------------------------------


class Bench:
    """A backend without a manager: what it is ordered, and what it says."""

    def __init__(self, **training: object) -> None:
        given = workload(job(0, **training))
        self.told: list[ev.Event] = []
        account = Account(given, stays=False)
        self.world = World(given, State(), account, self.told.append)
        self.backend = SimulatedBackend(self.world, oracle=False, classifier=None)
        self.backend.begin()
        self.backend.submit(0, given.jobs[0], ev.JobSubmitted(given.jobs[0].spec))
        self.told.clear()

    def order(self, *actions) -> list[ev.Event]:
        """Carry the orders out, and return what is told of them until now."""
        for action in actions:
            self.backend.carry_out(action)
        while self.world.agenda.run_next():
            pass
        self.backend.pace.settle()
        told = [event for event in self.told if not isinstance(event, ev.ReportReceived)]
        self.told.clear()
        return told

    def after(self, seconds: float) -> list[ev.Event]:
        """Let time pass."""
        until = self.world.now + seconds
        told = []
        while (upcoming := self.world.agenda.upcoming) is not None and upcoming <= until:
            self.world.agenda.now = upcoming
            told += self.order()
        self.world.agenda.now = until
        return told


START = StartReplica(replica=WORKER, start=1, node="node-0", template={}, reason="test")
EVICT = EvictReplica(replica=WORKER, incarnation=f"{WORKER}.1", grace_seconds=30.0, reason="test")
STARTED = ev.ReplicaStarted(replica=WORKER, incarnation=f"{WORKER}.1", node="node-0", start=1)


def test_doubled_start_starts_once():
    """A start that is ordered twice leads to one incarnation, also while it comes up."""
    bench = Bench(start_seconds=5.0)
    assert bench.order(START, START) == []
    assert bench.after(5.0) == [STARTED]
    assert bench.order(START) == [STARTED]
    assert len(bench.world.nodes["node-0"].incarnations) == 1


def test_second_start_beside_a_live_one_is_refused():
    """Nothing is started while another incarnation of the replica lives."""
    bench = Bench()
    bench.order(START)
    other = msgspec.structs.replace(START, start=2, node="node-1")
    (refused,) = bench.order(other)
    assert isinstance(refused, ev.StartRefused)
    assert "lives" in refused.reason


def test_incarnation_is_never_started_again():
    """A late order for an incarnation that is gone is refused."""
    bench = Bench(stop_seconds=0.0)
    bench.order(START, EVICT)
    (refused,) = bench.order(START)
    assert isinstance(refused, ev.StartRefused)


def test_doubled_eviction_ends_once():
    """An eviction that is ordered twice ends the replica once, at the earlier of both times."""
    bench = Bench(start_seconds=0.0)
    bench.order(START)
    bench.after(10.0)
    assert bench.order(EVICT) == []
    sooner = msgspec.structs.replace(EVICT, grace_seconds=5.0)
    assert bench.order(sooner, EVICT) == []
    (gone,) = bench.after(100.0)
    assert isinstance(gone, ev.ReplicaGone)
    assert gone.evicted
    assert bench.world.jobs["default/job-0"].trainer.saved == 10
    (absent,) = bench.order(EVICT)
    assert isinstance(absent, ev.ReplicaGone)


def test_eviction_of_what_comes_up_ends_it_at_once():
    """What has not come up yet has nothing to save, and is gone at once."""
    bench = Bench(start_seconds=50.0)
    bench.order(START)
    (gone,) = bench.order(msgspec.structs.replace(EVICT, incarnation=None))
    assert isinstance(gone, ev.ReplicaGone)
    assert gone.incarnation == f"{WORKER}.1"
    assert bench.after(100.0) == []


def test_doubled_request_is_answered_with_one_checkpoint():
    """A request that comes twice leads to one checkpoint, and after it to the same answer."""
    bench = Bench(save_seconds=4.0)
    bench.order(START)
    bench.after(20.0)
    ask = RequestCheckpoint(
        id="move-1",
        transaction="move-1",
        replica=WORKER,
        incarnation=f"{WORKER}.1",
        deadline=1e3,
        reason="test",
    )
    (delivered,) = bench.order(ask, ask)
    assert isinstance(delivered, ev.InstructionDelivered)
    (answered,) = bench.after(4.0)
    assert isinstance(answered, ev.InstructionAcknowledged)
    checkpoint = answered.acknowledgement.checkpoint
    assert checkpoint is not None
    assert checkpoint.verified
    assert checkpoint.step == 200  # of 1000, as it was when it was asked for
    assert bench.order(ask) == [answered]


def test_room_and_weights_may_be_ordered_twice():
    """Holding room is confirmed each time, and a weight that is set already changes nothing."""
    bench = Bench()
    bench.order(START)
    hold = HoldRoom(
        transaction="move-1", replica=WORKER, node="node-1", requests=Resources(cpu=1.0), reason="test"
    )
    held = ev.RoomHeld(transaction="move-1", replica=WORKER)
    assert bench.order(hold, hold) == [held, held]
    weight = SetWeight(replica=WORKER, incarnation=f"{WORKER}.1", weight=2.0, reason="test")
    assert bench.order(weight, weight) == []
    assert bench.world.nodes["node-0"].incarnations[WORKER].weight == 2.0


def test_deadline_that_is_too_short_fails_the_job():
    """A start that always takes longer than its deadline is an ordinary crash each time, to the end."""
    given = workload(job(0, start_seconds=50.0, spec={"restarts": 2}))
    settings = Settings(policy="specon", deadlines=Deadlines(start=10.0))
    outcome = simulate(given, "round-robin", settings=settings, check=Invariants())
    assert outcome.jobs[0].state == "failed"
    assert "did not start in time" in outcome.jobs[0].reason
