"""Moves that make room: when they are made, when not, and what is told of it."""

import msgspec
import pytest

from specon_manager.core import defragment
from specon_manager.core.admission_gate import prepare
from specon_manager.core.defragment_picture import Scene
from specon_manager.core.plan import plan
from specon_manager.core.step import frees_what_waits, step
from specon_manager.core.waiting import list_waits
from specon_manager.model import events as ev
from specon_manager.model.actions import Claim, HoldRoom, Refusal
from specon_manager.model.cluster import Phase
from specon_manager.model.resources import Resources
from specon_manager.model.settings import Budgets, Gate
from specon_manager.model.transactions import TransactionState
from specon_manager.policies.table import POLICIES
from specon_sidecar.classify import Category
from support.decisions.cluster import SETTINGS, Cluster, replica_of
from support.decisions.gangs import gang, worker
from support.decisions.owners import Owners


def scattered(**settings):
    """Return two nodes of four CPUs, each half free, and job `d`, which waits for four on one node."""
    known = {"policy": "fifo", "defragment": "on", "gate": Gate(horizon=600.0), **settings}
    cluster = Cluster(nodes=2, cpus=4.0, settings=msgspec.structs.replace(SETTINGS, **known))
    for job in "abc":
        cluster.submit(job, requests=Resources(cpu=2.0))
    cluster.tick()
    cluster.carry_out()
    for job in "abc":
        cluster.report(replica_of(job))
    cluster.die(replica_of("a"), 0)
    cluster.submit("d", requests=Resources(cpu=4.0))
    return cluster


def goes_on(cluster, rounds=8):
    """Let all that runs train and all that is ordered come about."""
    for _ in range(rounds):
        cluster.carry_out()
        for replica in sorted(cluster.live):
            step = cluster.state.replicas[replica].progress.step or 0
            cluster.report(replica, step=step + 10)
        cluster.tick()


def moves(cluster):
    return [each for each in cluster.state.history if each.purpose == "defragment"]


def said(cluster, name):
    return [each for each in cluster.state.decisions if each.replica == name and each.policy == "defragment"]


def test_a_job_starts_once_another_has_made_room():
    """The free halves of two nodes are made one, and the job that waits for that starts there."""
    cluster = scattered()
    cluster.tick()
    assert cluster.state.replicas[replica_of("d")].phase is Phase.PENDING
    (begun,) = cluster.state.transactions.values()
    assert (begun.purpose, begun.policy, begun.beneficiary) == ("defragment", "defragment", "default/d")
    assert cluster.state.claims["default/d"].reason == "room is made for it by 1 move"
    goes_on(cluster)
    assert cluster.state.replicas[replica_of("d")].phase is Phase.RUNNING
    assert [each.state for each in moves(cluster)] == [TransactionState.SUCCEEDED]
    assert not cluster.state.claims


def test_the_end_of_its_move_calls_for_a_tick():
    """The rest of a plan, or the start of who waits, comes at once."""
    cluster = scattered()
    cluster.tick()
    state, (move,) = cluster.state, cluster.state.transactions.values()
    refused = ev.RoomRefused(transaction=move.id, replica=move.replica, reason="full")
    assert frees_what_waits(state, step(state, refused, cluster.now)[0])


def test_nothing_is_moved_unless_it_is_set():
    """Off is the default."""
    cluster = scattered(defragment="off")
    goes_on(cluster)
    assert not moves(cluster)
    assert not cluster.state.transactions


def test_a_dry_run_tells_and_orders_nothing():
    """Each move is told once as refused, with what would be ordered and what it costs."""
    cluster = scattered(defragment="dry-run")
    actions = cluster.tick()
    assert not any(isinstance(action, HoldRoom) for action in actions)
    goes_on(cluster)
    assert not moves(cluster)
    assert not cluster.state.claims
    (decision,) = said(cluster, replica_of("c"))
    assert decision.refusal is Refusal.DRY_RUN
    assert decision.reason == (
        "would be ordered: move default/c/worker/0 to node-0 (makes room for default/d: 1 move for 10.0,"
        " its start is worth 1200.0 (weighted replica-seconds))"
    )


def test_a_start_that_is_worth_less_than_the_moves_is_none():
    """The gate: what the start is worth within the horizon exceeds the price by the margin."""
    cluster = scattered(gate=Gate(horizon=6.0, expected_downtime=5.0, margin=1.3))
    goes_on(cluster)
    assert not moves(cluster)
    (decision,) = said(cluster, "default/d")
    assert decision.refusal is Refusal.NO_GAIN
    assert decision.reason == "predicted gain 12.0 does not exceed the cost 10.0 (weighted replica-seconds)"


def test_who_has_converged_is_moved_rather_than_who_has_not():
    """A second of training that still brings something is worth more."""
    cluster = scattered()
    cluster.report(replica_of("c"), Category.CONVERGED)
    cluster.tick()
    (begun,) = cluster.state.transactions.values()
    assert begun.replica == replica_of("c")


def test_what_its_owner_forbids_is_not_moved():
    """The same things stand against these moves as against any."""
    cluster = Cluster(
        nodes=2, cpus=4.0, settings=msgspec.structs.replace(SETTINGS, policy="fifo", defragment="on")
    )
    for job in "abc":
        cluster.submit(job, requests=Resources(cpu=2.0), migratable=False)
    cluster.tick()
    goes_on(cluster, 1)
    cluster.die(replica_of("a"), 0)
    cluster.submit("d", requests=Resources(cpu=4.0))
    goes_on(cluster)
    assert not moves(cluster)
    (decision,) = said(cluster, "default/d")
    assert decision.refusal is Refusal.NO_ROOM


def test_who_cannot_be_helped_is_looked_at_again_when_something_has_changed():
    """Nothing is searched again at every Tick; what becomes free is noticed at once."""
    cluster = scattered(gate=Gate(horizon=6.0, margin=1.3))
    goes_on(cluster, 2)
    (mark,) = cluster.state.making_room.unhelped.values()
    goes_on(cluster, 2)
    assert list(cluster.state.making_room.unhelped.values()) == [mark]
    state, snapshot = prepare(cluster.state, cluster.now)
    assert not list(defragment.outlooks(state, snapshot, state.making_room.unhelped))
    cluster.die(replica_of("b"), 0)
    goes_on(cluster, 1)
    assert cluster.state.replicas[replica_of("d")].phase is Phase.STARTING


def test_why_it_waits_says_what_is_done_for_it():
    """Which moves make room, or why nothing is moved."""
    helped = scattered()
    helped.tick()
    (why,) = list_waits(helped.state, helped.now).values()
    assert why.kind == "room"
    assert why.text.endswith("; room is made for it by move-1")
    dear = scattered(gate=Gate(horizon=6.0, margin=1.3))
    dear.tick()
    (why,) = list_waits(dear.state, dear.now).values()
    assert why.text.endswith(
        "; no room is made for it: predicted gain 12.0 does not exceed the cost 10.0"
        " (weighted replica-seconds)"
    )


def test_one_thing_at_a_time():
    """While a move of one plan is in flight no other plan is made."""
    cluster = scattered()
    cluster.tick()
    before = dict(cluster.state.transactions)
    cluster.submit("e", requests=Resources(cpu=1.0))
    for _ in range(3):
        cluster.tick(0.5)
    assert list(cluster.state.transactions) == list(before)


def test_a_policy_does_not_give_up_the_claim_while_a_move_makes_room():
    """The room that the moves make would go to the next job that comes."""
    cluster = scattered()
    cluster.tick()
    (verdict,) = plan(cluster.state, [Claim(job="default/d", placement={}, reason="")], cluster.now)
    assert verdict.objection.refusal is Refusal.IN_FLIGHT


def test_a_failed_move_gives_the_room_back():
    """Where nothing more can be done for it, nothing is kept for it either, and others may start."""
    cluster = scattered(budgets=Budgets(cooldown=0, retry_cooldown=1000))
    cluster.tick()
    (begun,) = cluster.state.transactions.values()
    cluster.post(ev.RoomRefused(transaction=begun.id, replica=begun.replica, reason="no"))
    cluster.orders.clear()
    other = replica_of("c" if begun.replica == replica_of("b") else "b")
    cluster.tick()
    (again,) = cluster.state.transactions.values()
    assert again.replica == other, "the other way is tried"
    cluster.post(ev.RoomRefused(transaction=again.id, replica=again.replica, reason="no"))
    cluster.orders.clear()
    cluster.tick()
    assert not cluster.state.transactions
    assert not cluster.state.claims


def test_a_gang_makes_room_as_a_whole():
    """Nothing else may be moved: both of a gang leave their node at once, each for another, in one move."""
    settings = msgspec.structs.replace(
        SETTINGS, policy="quota-fifo", defragment="on", gate=Gate(horizon=600.0)
    )
    cluster = Cluster(nodes=3, cpus=2.0, settings=settings)
    one = {"requests": Resources(cpu=1.0), "migratable": False}
    cluster.submit("x", **one)
    cluster.post(ev.JobSubmitted(gang("g", 2, ps=0, cpu=1.0, resizing="none")))
    cluster.submit("y", **one)
    cluster.submit("z", **one)
    cluster.tick()
    goes_on(cluster, 2)
    assert {cluster.state.replicas[worker("g", index)].node for index in range(2)} == {"node-1"}
    cluster.die(replica_of("x"), 0)
    cluster.submit("d", requests=Resources(cpu=2.0))
    goes_on(cluster, 10)
    assert cluster.state.replicas[replica_of("d")].node == "node-1"
    (move,) = moves(cluster)
    assert (move.whole, sorted(move.after.values())) == (True, ["node-0", "node-2"])
    assert move.state is TransactionState.SUCCEEDED


def test_a_gang_that_rests_is_not_among_what_may_be_moved():
    """What the plan would refuse is not chosen, or it would be chosen for ever."""
    cluster = Cluster(nodes=2, cpus=2.0, settings=msgspec.structs.replace(SETTINGS, policy="quota-fifo"))
    cluster.post(ev.JobSubmitted(gang("g", 2, ps=0, cpu=1.0, resizing="none")))
    goes_on(cluster, 3)

    def units():
        return [unit.name for unit in Scene(cluster.state.snapshot(cluster.now), cluster.state).units]

    assert units() == ["default/g"]
    rests = msgspec.structs.replace(cluster.state.jobs["default/g"], cooldown_until=cluster.now + 60.0)
    cluster.state = cluster.state.with_job(rests)
    assert units() == []


@pytest.mark.parametrize("policy", sorted({*POLICIES} - {"lrtp", "srpt"}))
def test_it_runs_beside_any_policy(policy):
    """A job that waits starts in the end, whichever policy is to start it."""
    cluster = scattered(policy=policy)
    goes_on(cluster, 12)
    assert cluster.state.replicas[replica_of("d")].phase is Phase.RUNNING
    assert len(moves(cluster)) == 1


def test_the_job_that_starves_is_helped_on_the_nodes_that_are_kept_for_it():
    """Its claim is the manager's: what runs there is moved elsewhere, and the claim stays as it is."""
    cluster = scattered(starvation=5.0, defragment="off")
    goes_on(cluster, 8)
    ((name, claim),) = cluster.state.claims.items()
    assert (name, claim.firm) == ("default/d", True)
    (kept,) = {node for _, node in claim.placement}
    on = msgspec.structs.replace(cluster.state.settings, defragment="on")
    cluster.post(ev.ManagerStarted("again", on))
    cluster.tick()
    (begun,) = cluster.state.transactions.values()
    assert (begun.source, begun.beneficiary) == (kept, "default/d")
    assert cluster.state.claims["default/d"] == claim
    goes_on(cluster)
    assert cluster.state.replicas[replica_of("d")].node == kept


def test_the_job_that_starves_is_helped_in_clusters_of_any_size(monkeypatch):
    """Node by node where there are too many for the exact search."""
    cluster = scattered(starvation=5.0, defragment="off")
    goes_on(cluster, 8)
    assert cluster.state.claims["default/d"].firm
    monkeypatch.setattr("specon_manager.policies.defragmentation.exact.is_small", lambda _: False)
    on = msgspec.structs.replace(cluster.state.settings, defragment="on")
    cluster.post(ev.ManagerStarted("again", on))
    cluster.tick()
    (begun,) = cluster.state.transactions.values()
    assert begun.beneficiary == "default/d"


def test_a_job_that_its_owner_holds_back_is_helped_too():
    """It is admitted once an owner's gang has made room, whose pods its owner starts on the new nodes."""
    settings = msgspec.structs.replace(
        SETTINGS, policy="quota-fifo", defragment="on", gate=Gate(horizon=600.0)
    )
    cluster = Owners(nodes=3, cpus=2.0, settings=settings)
    cluster.prompt = True
    fixed = {"ps": 0, "resizing": "none", "held": True}

    def comes(name, workers, **changes):
        cluster.create(gang(name, workers, present=workers, **fixed, **changes))
        cluster.tick()
        goes_on(cluster, 2)

    comes("x", 1, migratable=False)
    comes("g", 2)
    comes("y", 1, migratable=False)
    assert {cluster.state.replicas[worker("g", index)].node for index in range(2)} == {"node-1"}
    comes("d", 1, cpu=2.0)
    goes_on(cluster, 12)
    assert cluster.state.replicas[worker("d")].node == "node-1"
    (move,) = moves(cluster)
    assert (move.state, sorted(move.after.values())) == (TransactionState.SUCCEEDED, ["node-0", "node-2"])
