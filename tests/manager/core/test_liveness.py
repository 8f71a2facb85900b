"""Nothing waits for ever for what will not come, and no choice is made for ever that is always refused."""

import msgspec
import pytest

from specon_manager.backends.base import is_stale
from specon_manager.model import events as ev
from specon_manager.model.actions import (
    AdmitGang,
    Claim,
    EvictReplica,
    Migrate,
    Preempt,
    Refusal,
    ScaleIn,
    StartReplica,
)
from specon_manager.model.cluster import Phase
from specon_manager.model.resources import Resources
from specon_manager.model.settings import Budgets, Deadlines, Gate, Settings
from specon_manager.model.standing import move_objection, preemption_objection, resizing_objection
from specon_manager.model.transactions import Kind, TransactionState
from specon_sidecar.classify import Category
from specon_sidecar.classify.curve import Estimate
from specon_sidecar.wire import Checkpoint
from support.decisions import told
from support.decisions.changed_worlds import OwnedTold
from support.decisions.cluster import DIGEST, Cluster
from support.decisions.gangs import gang, on, phases, worker
from support.decisions.told import Told, registered

DEADLINES = told.SETTINGS.deadlines
LONG = Estimate(value=9e5, uncertainty=1.0)


def settings(policy: str, **changes: object) -> Settings:
    return Settings(
        policy=policy,
        tick=1.0,
        budgets=Budgets(cooldown=0, retry_cooldown=1, change_cooldown=1),
        gate=Gate(enabled=False),
        deadlines=Deadlines(start=10, hold=5, checkpoint=10, eviction_margin=5, verify=20, crash_backoff=1),
        **changes,
    )


# -- an owner edits its job while it is put back ----------------------------------------------------


def test_an_edit_during_the_way_back_of_an_admission_leaves_nothing_starting():
    """Replicas without a transaction or a deadline would hold room for ever."""
    cluster = OwnedTold(nodes=2, cpus=4.0, settings=told.SETTINGS)
    with registered(cluster.proposed):
        cluster.prompt = False
        cluster.create(gang("g", 3, ps=0, most=4, fewest=1, held=True, present=3, resizing="live"))
        names = [worker("g", n) for n in range(3)]
        cluster.propose(AdmitGang(job="default/g", placement=on("node-0", *names), reason="room"))
        cluster.orders.clear()  # its owner starts nothing
        cluster.tick(DEADLINES.ready)
        assert cluster.state.transactions_of("default/g")[0].attempt == 2
        cluster.edit("default/g", 2)
        cluster.settle(40)
        assert not cluster.state.transactions
        assert "Starting" not in phases(cluster, "g").values()
        cluster.prompt = True
        cluster.tick(100)
        cluster.again("default/g", on("node-0", *names[:2]))
        assert cluster.state.jobs["default/g"].trains_since is not None


# -- claims -----------------------------------------------------------------------------------------


def test_a_claim_whose_time_is_over_is_forgotten():
    """It keeps no room, and nobody waits behind it."""
    cluster = Told(nodes=1, cpus=1.0, settings=told.SETTINGS)
    with registered(cluster.proposed):
        cluster.admit(gang("a", 1, ps=0), on("node-0", worker("a")))
        cluster.post(ev.JobSubmitted(gang("b", 1, ps=0)))
        cluster.propose(Claim(job="default/b", placement=on("node-0", worker("b")), reason="soon"))
        assert "default/b" in cluster.state.claims
        cluster.tick(DEADLINES.claim)
        assert not cluster.state.claims


def test_an_unanswered_request_for_a_checkpoint_does_not_end_scaling_in():
    """The claim of the job that waits runs out, and the next scaling is tried."""
    scaled = settings("progress", starvation=None)
    scaled = msgspec.structs.replace(
        scaled,
        deadlines=msgspec.structs.replace(scaled.deadlines, claim=30),
        parameters={"resize_seconds": 0.0},
    )
    cluster = Cluster(nodes=1, cpus=4.0, settings=scaled)
    cluster.sidecars_answer = False
    cluster.post(ev.JobSubmitted(gang("big", 4, ps=0, fewest=1, resizing="live")))
    cluster.settle()
    cluster.submit("small", requests=Resources(cpu=1.0))
    for number in range(200):
        for name in sorted(cluster.live):
            cluster.report(name, step=10 + number, total_steps=10**6, remaining_seconds=LONG)
        cluster.carry_out()
        cluster.tick()
    tried = [each for each in cluster.state.history if each.kind is Kind.SCALE_IN]
    assert len(tried) > 1


# -- one predicate for policy and plan -----------------------------------------------------------------


@pytest.mark.parametrize("policy", ["fitgpp", "progress", "lrtp", "rand"])
def test_a_trial_gets_another_victim_where_one_may_not_be_preempted(policy):
    """What the plan always refuses is not chosen for ever while somebody else could go."""
    cluster = Cluster(nodes=1, cpus=4.0, settings=settings(policy))
    cluster.post(ev.JobSubmitted(gang("best", 2, ps=0, resizing="none", grace_seconds=1)))
    cluster.post(ev.JobSubmitted(gang("next", 2, ps=0, resizing="none", grace_seconds=3)))
    cluster.settle()
    for name in sorted(cluster.live):
        cluster.report(name, step=10, checkpoint=Checkpoint(step=5, path="/c", digest=DIGEST))
    # The one that would be chosen first has lost its first worker, which would save for it.
    cluster.die(worker("best", 0), 1)
    cluster.post(ev.Paused(reason="so that it is not started again"))
    cluster.tick()
    snapshot = cluster.state.snapshot(cluster.now)
    assert preemption_objection(snapshot.jobs["default/best"], snapshot) is not None
    assert preemption_objection(snapshot.jobs["default/next"], snapshot) is None
    cluster.post(ev.Paused(reason=None))
    state = cluster.state
    missing = msgspec.structs.replace(state.replicas[worker("best", 0)], not_before=cluster.now + 100)
    cluster.state = state.with_replica(missing)
    trial = gang("trial", 2, ps=0, job_class="trial")
    cluster.post(ev.JobSubmitted(trial))
    cluster.settle(12)
    assert "Running" in phases(cluster, "trial").values()
    assert set(phases(cluster, "next").values()) == {"Pending"}


@pytest.mark.parametrize("policy", ["kod2", "kubeflow", "progress", "dragon"])
def test_workers_are_taken_from_a_job_that_can_give_them(policy):
    """A job that is not settled is refused each time: the head does not starve for it."""
    cluster = Cluster(nodes=1, cpus=6.0, settings=settings(policy))
    first = gang("torn", 3, ps=0, fewest=1, resizing="live", utility=1.0)
    other = gang("whole", 3, ps=0, fewest=1, resizing="live", utility=2.0)
    cluster.post(ev.JobSubmitted(first))
    cluster.post(ev.JobSubmitted(other))
    cluster.settle()
    for name in sorted(cluster.live):
        cluster.report(name, step=10)
    cluster.die(worker("torn", 2), 1)
    cluster.post(ev.Paused(reason="so that it is not started again"))
    cluster.tick()
    snapshot = cluster.state.snapshot(cluster.now)
    assert resizing_objection(snapshot.jobs["default/torn"], snapshot) is not None
    assert resizing_objection(snapshot.jobs["default/whole"], snapshot) is None
    cluster.post(ev.Paused(reason=None))
    late = msgspec.structs.replace(
        cluster.state.replicas[worker("torn", 2)], not_before=cluster.now + 1e6, lost_at=cluster.now + 1e6
    )
    cluster.state = cluster.state.with_replica(late)
    head = gang("head", 2, ps=0, fewest=1, utility=9.0, declared_seconds=1.0)
    cluster.post(ev.JobSubmitted(head))
    for number in range(400):
        for name in sorted(cluster.live):
            cluster.report(name, step=11 + number, total_steps=10**6, remaining_seconds=LONG)
        cluster.carry_out()
        cluster.tick()
        if "Running" in phases(cluster, "head").values():
            return
    raise AssertionError(f"the head starves: {cluster.state.verdicts}")


# -- parts of jobs -------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", ["dragon", "dragon-locality", "quota-fifo", "kod2", "progress", "fifo"])
def test_a_job_of_which_a_worker_has_completed_starts_with_the_rest(policy):
    """It is described by what has not ended of it."""
    cluster = Cluster(nodes=1, cpus=4.0, settings=settings(policy))
    cluster.post(ev.JobSubmitted(gang("g", 3, ps=0, restarts=9)))
    cluster.settle()
    cluster.die(worker("g", 0), 0)
    cluster.die(worker("g", 1), 1)
    cluster.die(worker("g", 2), 1)
    cluster.settle(8)
    assert phases(cluster, "g") == {"worker0": "Succeeded", "worker1": "Running", "worker2": "Running"}


@pytest.mark.parametrize("policy", ["specon", "round-robin", "default-scheduler"])
def test_a_gang_that_does_not_fit_takes_no_room_from_others(policy):
    """Half of it is not proposed: what comes after it starts."""
    cluster = Cluster(nodes=1, cpus=2.0, settings=settings(policy))
    cluster.post(ev.JobSubmitted(gang("large", 3, ps=0, resizing="none")))
    cluster.submit("small", requests=Resources(cpu=1.0))
    cluster.settle()
    assert cluster.state.replicas["default/small/worker/0"].phase is Phase.RUNNING
    assert set(phases(cluster, "large").values()) == {"Pending"}


def test_a_job_that_completes_while_its_smaller_admission_is_turned_back_stays_complete():
    """It is over: no replica of it waits, and none is started again."""
    cluster = Told(nodes=2, cpus=4.0, settings=told.SETTINGS)
    with registered(cluster.proposed):
        spec = gang("g", 3, ps=0, fewest=1, resizing="live")
        cluster.post(ev.JobSubmitted(spec))
        cluster.propose(AdmitGang(job="default/g", placement=on("node-0", worker("g", 0)), reason="small"))
        (start,) = [order for order in cluster.orders if isinstance(order, StartReplica)]
        cluster.tick(DEADLINES.ready)  # it was not seen: the admission is turned back
        assert cluster.state.transactions_of("default/g")[0].attempt == 2
        for event in cluster.start(start):
            cluster.post(event)
        cluster.die(worker("g", 0), 0)
        cluster.orders.clear()
        cluster.settle(3)
        job = cluster.state.jobs["default/g"]
        assert job.ended_at is not None
        assert "Pending" not in phases(cluster, "g").values()
        assert not cluster.live


# -- moves that fail -----------------------------------------------------------------------------------


def moved(cluster: Told, restarts: int = 3) -> str:
    """Let one replica run on node-0 and a move of it to node-1 begin."""
    name = worker("j")
    cluster.admit(gang("j", 1, ps=0, restarts=restarts), on("node-0", name))
    cluster.report(name, step=10)
    for step in (98, 99, 100):
        cluster.report(name, Category.CONVERGED, step=step)
    cluster.propose(Migrate(replica=name, target="node-1", purpose="migrate", reason="converged"))
    return name


def test_a_move_that_neither_node_can_restore_is_no_crash():
    """With `restarts: 0` the job waits for its next start, and is not ended."""
    cluster = Told(nodes=2, cpus=4.0, settings=told.SETTINGS)
    with registered(cluster.proposed):
        name = moved(cluster, restarts=0)
        cluster.may_carry_out = lambda action: not isinstance(action, StartReplica)
        cluster.carry_out()
        for _ in range(2):
            start = next(order for order in cluster.orders if isinstance(order, StartReplica))
            cluster.orders.remove(start)
            cluster.post(ev.StartRefused(replica=name, start=start.start, reason="no such image"))
        assert cluster.state.history[-1].state is TransactionState.FAILED
        assert cluster.state.replicas[name].phase is Phase.PENDING
        assert cluster.state.replicas[name].crashes == 0
        cluster.may_carry_out = lambda action: True
        cluster.again("default/j", on("node-0", name))
        assert cluster.state.replicas[name].phase is Phase.RUNNING


def test_failed_moves_use_up_a_budget_and_count_in_what_moves_cost():
    """Ten moves a day that prove nothing would be twenty evictions."""
    budget = msgspec.structs.replace(
        told.SETTINGS, budgets=msgspec.structs.replace(told.SETTINGS.budgets, moves_per_replica=2)
    )
    cluster = Told(nodes=2, cpus=4.0, settings=budget)
    with registered(cluster.proposed):
        name = moved(cluster)
        for _ in range(6):
            cluster.carry_out()
            cluster.tick(DEADLINES.verify)  # no step is named in time, neither there nor back
            cluster.tick(DEADLINES.verify)
            cluster.carry_out()
            cluster.tick(200)
            if name in cluster.live:
                cluster.report(name, Category.CONVERGED, step=cluster.state.replicas[name].progress.step)
            cluster.propose(Migrate(replica=name, target="node-1", purpose="migrate", reason="again"))
        assert cluster.state.replicas[name].disrupted == 2
        assert cluster.state.verdicts[name].refusal is Refusal.REPLICA_BUDGET
        assert cluster.state.measured.moves == 2
        assert cluster.state.measured.downtime > 0


def test_a_log_that_names_steps_too_rarely_is_not_moved():
    """A resume could not be proven in time: it would be rolled back, each time."""
    cluster = Told(nodes=2, cpus=4.0, settings=told.SETTINGS)
    with registered(cluster.proposed):
        name = worker("j")
        cluster.admit(gang("j", 1, ps=0), on("node-0", name))
        cluster.report(name, Category.CONVERGED, step=100)
        cluster.now += 400
        cluster.report(name, Category.CONVERGED, step=101)
        snapshot = cluster.state.snapshot(cluster.now)
        against = move_objection(snapshot.replicas[name], snapshot)
        assert against is not None
        assert against.refusal is Refusal.NO_STEPS
        assert "every 400 s" in against.text


@pytest.mark.parametrize("gone", [True, False])
def test_a_target_that_is_lost_while_its_replica_leaves_is_not_waited_for(gone):
    """It comes back where it was as soon as it has left, not after `deadlines.start`."""
    cluster = Told(nodes=2, cpus=4.0, settings=told.SETTINGS)
    with registered(cluster.proposed):
        name = moved(cluster)
        cluster.may_carry_out = lambda action: not isinstance(action, EvictReplica)
        cluster.carry_out()
        assert cluster.state.transaction_of(name).state is TransactionState.LEAVING
        capacity = cluster.state.nodes["node-1"].capacity
        cluster.post(
            ev.NodeGone(node="node-1")
            if gone
            else ev.NodeObserved(node="node-1", capacity=capacity, usage=Resources(), ready=False)
        )
        cluster.may_carry_out = lambda action: True
        began = cluster.now
        cluster.carry_out()
        assert cluster.state.replicas[name].phase is Phase.RUNNING
        assert cluster.state.replicas[name].node == "node-0"
        assert cluster.now == began


def test_what_never_goes_is_called_stuck_and_frees_the_budget():
    """The slot is for others; it is told again, and goes on when it is gone after all."""
    one = msgspec.structs.replace(
        told.SETTINGS, budgets=msgspec.structs.replace(told.SETTINGS.budgets, moves_at_once=1)
    )
    cluster = Told(nodes=4, cpus=4.0, settings=one)
    with registered(cluster.proposed):
        name = moved(cluster)
        cluster.may_carry_out = lambda action: not isinstance(action, EvictReplica)
        cluster.carry_out()
        cluster.admit(gang("k", 1, ps=0), on("node-2", worker("k")))
        cluster.report(worker("k"), Category.CONVERGED, step=100)
        other = Migrate(replica=worker("k"), target="node-3", purpose="migrate", reason="converged")
        cluster.propose(other)
        assert cluster.state.verdicts[worker("k")].refusal is Refusal.CLUSTER_BUDGET
        for _ in range(5):
            cluster.tick(40)
        stuck = cluster.state.transaction_of(name)
        assert "is still there" in stuck.stuck
        cluster.propose(other)
        assert cluster.state.transaction_of(worker("k")) is not None
        cluster.may_carry_out = lambda action: True
        cluster.carry_out()
        cluster.report(name, step=101)
        cluster.report(name, step=102)
        assert cluster.state.history[-1].id == stuck.id
        assert cluster.state.history[-1].state is TransactionState.SUCCEEDED


def test_an_eviction_that_is_refused_on_the_way_back_is_told():
    """It must end all the same: people hear why it does not."""
    cluster = Told(nodes=2, cpus=4.0, settings=told.SETTINGS)
    with registered(cluster.proposed):
        name = moved(cluster)
        cluster.carry_out()
        cluster.tick(DEADLINES.verify)
        (eviction,) = [order for order in cluster.orders if isinstance(order, EvictReplica)]
        cluster.orders.clear()
        cluster.post(ev.EvictionRefused(replica=name, incarnation=eviction.incarnation, reason="it hangs"))
        assert cluster.state.transaction_of(name).stuck == "it hangs"


# -- phantoms ------------------------------------------------------------------------------------------


def test_a_late_word_of_an_earlier_start_is_no_new_incarnation():
    """It carries the number of its start: it is told to end until it is gone."""
    cluster = Told(nodes=2, cpus=4.0, settings=told.SETTINGS)
    with registered(cluster.proposed):
        name = worker("j")
        cluster.post(ev.JobSubmitted(gang("j", 1, ps=0, grace_seconds=1)))
        cluster.propose(AdmitGang(job="default/j", placement=on("node-0", name), reason="room"))
        cluster.orders.clear()
        cluster.tick(DEADLINES.start)
        cluster.post(ev.ReplicaGone(replica=name, incarnation=None))
        cluster.propose(AdmitGang(job="default/j", placement=on("node-1", name), reason="again"), seconds=10)
        assert cluster.state.replicas[name].starts == 2
        late = ev.ReplicaStarted(replica=name, incarnation="first", node="node-0", start=1)
        for actions in (cluster.post(late), cluster.tick(), cluster.tick(6)):
            if actions:
                assert [a.incarnation for a in actions if isinstance(a, EvictReplica)] == ["first"]
        assert cluster.state.replicas[name].phase is Phase.STARTING
        cluster.post(ev.ReplicaGone(replica=name, incarnation="first"))
        assert not cluster.state.unwanted


def test_nothing_starts_beside_an_incarnation_that_nobody_wants():
    """The start is on record, and is ordered once that one is gone."""
    cluster = Told(nodes=2, cpus=4.0, settings=told.SETTINGS)
    with registered(cluster.proposed):
        name = worker("j")
        cluster.post(ev.JobSubmitted(gang("j", 1, ps=0, grace_seconds=1)))
        cluster.propose(AdmitGang(job="default/j", placement=on("node-0", name), reason="room"))
        cluster.tick(DEADLINES.start)
        cluster.post(ev.ReplicaGone(replica=name, incarnation=None))
        cluster.orders.clear()
        cluster.post(ev.ReplicaStarted(replica=name, incarnation="first", node="node-0", start=1))
        cluster.propose(AdmitGang(job="default/j", placement=on("node-1", name), reason="again"), seconds=10)
        assert cluster.state.replicas[name].starts == 2
        assert not [order for order in cluster.orders if isinstance(order, StartReplica)]
        cluster.post(ev.ReplicaGone(replica=name, incarnation="first"))
        assert [order.start for order in cluster.orders if isinstance(order, StartReplica)] == [2]


def test_an_id_of_a_person_never_collides_with_one_of_ours():
    """`move-1` may be what a person calls a move: the next of ours has another name."""
    cluster = Told(nodes=3, cpus=4.0, settings=told.SETTINGS)
    with registered(cluster.proposed):
        name = worker("j")
        cluster.admit(gang("j", 1, ps=0), on("node-0", name))
        cluster.report(name, Category.CONVERGED, step=100)
        cluster.post(ev.MoveRequested(id="move-1", replica=name, target="node-1"))
        cluster.carry_out()
        cluster.report(name, step=101)
        cluster.report(name, Category.CONVERGED, step=102)
        cluster.propose(Migrate(replica=name, target="node-2", purpose="migrate", reason="converged"))
        assert [each.id for each in cluster.state.history][-1] == "move-1"
        (ours,) = cluster.state.transactions.values()
        assert ours.id != "move-1"


# -- successes that are none ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "how"),
    [
        (0, "it started from the beginning"),
        (1, "it started from the beginning"),
        (60, "it went on from an older state"),
    ],
)
def test_a_resume_from_somewhere_else_than_the_checkpoint_is_no_success(first, how):
    """It trains on where it is, the move has failed, and no policy moves it again."""
    cluster = Told(nodes=3, cpus=4.0, settings=told.SETTINGS)
    with registered(cluster.proposed):
        name = moved(cluster)
        cluster.carry_out()
        cluster.report(name, Category.CONVERGED, step=first)
        over = cluster.state.history[-1]
        assert over.state is TransactionState.FAILED
        assert how in over.note
        assert cluster.state.replicas[name].phase is Phase.RUNNING
        assert cluster.state.replicas[name].node == "node-1"
        cluster.report(name, Category.CONVERGED, step=200)
        cluster.tick(1000)
        cluster.propose(Migrate(replica=name, target="node-2", purpose="migrate", reason="converged"))
        assert cluster.state.verdicts[name].refusal is Refusal.UNPROVEN
        cluster.post(ev.MoveRequested(id="by-hand", replica=name, target="node-2"))
        assert cluster.state.transaction_of(name) is not None


# -- a checkpoint that has grown old ---------------------------------------------------------------------


def test_an_order_to_end_that_comes_late_asks_for_a_new_checkpoint():
    """What was trained since the first one would be lost."""
    cluster = Told(nodes=2, cpus=4.0, settings=told.SETTINGS)
    with registered(cluster.proposed):
        name = moved(cluster)
        cluster.may_carry_out = lambda action: not isinstance(action, EvictReplica)
        cluster.carry_out()
        (eviction,) = [order for order in cluster.orders if isinstance(order, EvictReplica)]
        assert eviction.fresh_until == cluster.now + DEADLINES.checkpoint_age
        cluster.report(name, step=2000)
        cluster.orders.clear()
        cluster.post(ev.OrderExpired(transaction=eviction.transaction))
        again = cluster.state.transaction_of(name)
        assert (again.state, again.asks) == (TransactionState.CHECKPOINTING, 2)
        cluster.may_carry_out = lambda action: True
        cluster.carry_out()
        cluster.report(name, step=2001)
        cluster.report(name, step=2002)
        over = cluster.state.history[-1]
        assert over.state is TransactionState.SUCCEEDED
        assert over.checkpoint.step == 2000
        assert over.steps_lost == 0


@pytest.mark.parametrize("age", [3.0, DEADLINES.checkpoint_age + 1])
def test_an_answer_that_comes_late_is_as_old_as_it_says(age):
    """The manager was killed or frozen while the trainer saved, and hears of it now: nothing ends by that."""
    cluster = Told(nodes=2, cpus=4.0, settings=told.SETTINGS)
    with registered(cluster.proposed):
        name = moved(cluster)
        cluster.sidecars_answer = False
        cluster.may_carry_out = lambda action: not isinstance(action, EvictReplica)
        cluster.carry_out()
        cluster.acknowledge(name, checkpoint=Checkpoint(step=1000, path="/c/1", digest=DIGEST), age=age)
        (eviction,) = [order for order in cluster.orders if isinstance(order, EvictReplica)]
        assert eviction.fresh_until == cluster.now - age + DEADLINES.checkpoint_age
        assert is_stale(eviction, cluster.now) is (age > DEADLINES.checkpoint_age)


@pytest.mark.parametrize("away", [2.0, 40.0])
def test_a_manager_that_comes_back_late_asks_for_a_new_checkpoint(away):
    """Killed after the eviction was recorded and before it was carried out."""
    cluster = Told(nodes=2, cpus=4.0, settings=told.SETTINGS)
    with registered(cluster.proposed):
        name = moved(cluster)
        cluster.may_carry_out = lambda action: not isinstance(action, EvictReplica)
        cluster.carry_out()
        cluster.now += away
        cluster.restart_manager()
        transaction = cluster.state.transaction_of(name)
        late = away > DEADLINES.checkpoint_age
        assert transaction.state is (TransactionState.CHECKPOINTING if late else TransactionState.LEAVING)


def test_an_eviction_that_was_carried_out_though_it_was_believed_lost_goes_on():
    """The replica is gone while a new checkpoint is asked for: the first one has to do."""
    cluster = Told(nodes=2, cpus=4.0, settings=told.SETTINGS)
    with registered(cluster.proposed):
        name = moved(cluster)
        cluster.may_carry_out = lambda action: not isinstance(action, EvictReplica)
        cluster.carry_out()
        cluster.now += 40
        cluster.orders.clear()
        cluster.post(ev.ManagerStarted("again", cluster.state.settings))
        cluster.may_carry_out = lambda action: isinstance(action, StartReplica)
        cluster.die(name, 143, evicted=True)
        cluster.carry_out()
        assert cluster.state.replicas[name].node == "node-1"
        cluster.report(name, step=101)
        cluster.report(name, step=102)
        assert cluster.state.history[-1].state is TransactionState.SUCCEEDED


# -- preemption of replicas that train by themselves -----------------------------------------------------


def test_each_replica_that_trains_by_itself_is_asked_for_its_own_checkpoint():
    """One that saves for itself alone does not save for the others."""
    cluster = Told(nodes=2, cpus=4.0, settings=told.SETTINGS)
    cluster.sidecars_answer = False
    with registered(cluster.proposed):
        names = [worker("g", n) for n in range(3)]
        cluster.admit(gang("g", 3, ps=0, coupled=False, resizing="none"), on("node-0", *names))
        for number, name in enumerate(names):
            cluster.report(name, step=100 + number)
        cluster.propose(Preempt(job="default/g", reason="a trial waits"))
        transaction = cluster.state.whole_transaction_of("default/g")
        assert sorted(transaction.witnesses) == names
        for number, name in enumerate(names[:2]):
            cluster.acknowledge(name, checkpoint=Checkpoint(step=100 + number, path="/c", digest=DIGEST))
        assert cluster.state.whole_transaction_of("default/g").state is TransactionState.CHECKPOINTING
        cluster.acknowledge(names[2], checkpoint=Checkpoint(step=102, path="/c", digest=DIGEST))
        assert cluster.state.whole_transaction_of("default/g").state is TransactionState.LEAVING


def test_one_that_cannot_save_keeps_all_of_them_running():
    """No replica of it is ended without a verified checkpoint of its own."""
    cluster = Told(nodes=2, cpus=4.0, settings=told.SETTINGS)
    cluster.sidecars_answer = False
    with registered(cluster.proposed):
        names = [worker("g", n) for n in range(2)]
        cluster.admit(gang("g", 2, ps=0, coupled=False, resizing="none"), on("node-0", *names))
        for name in names:
            cluster.report(name, step=100)
        cluster.propose(Preempt(job="default/g", reason="a trial waits"))
        cluster.acknowledge(names[0], checkpoint=Checkpoint(step=100, path="/c", digest=DIGEST))
        cluster.acknowledge(names[1], done=False, reason="disk full")
        assert cluster.state.history[-1].state is TransactionState.ROLLED_BACK
        assert sorted(cluster.live) == names


def test_scaling_in_asks_those_that_leave():
    """If replicas train by themselves, the others are not disturbed."""
    cluster = Told(nodes=2, cpus=4.0, settings=told.SETTINGS)
    cluster.sidecars_answer = False
    with registered(cluster.proposed):
        names = [worker("g", n) for n in range(3)]
        spec = gang("g", 3, ps=0, fewest=1, coupled=False, resizing="live")
        cluster.admit(spec, on("node-0", *names))
        for name in names:
            cluster.report(name, step=100)
        cluster.propose(ScaleIn(job="default/g", replicas=(names[2],), reason="another waits"))
        assert sorted(cluster.state.whole_transaction_of("default/g").witnesses) == [names[2]]
