"""Gangs that are brought together: when that is done, when not, and what is remembered of it."""

from collections import Counter

import msgspec
import pytest

from specon_manager.core import faster
from specon_manager.core.plan import plan
from specon_manager.core.setup_targets import onto
from specon_manager.core.state import MakingRoom
from specon_manager.model import events as ev
from specon_manager.model.actions import Claim, HoldRoom, Migrate, MigrateGang, Refusal
from specon_manager.model.cluster import KINDS_REMEMBERED
from specon_manager.model.paces import ENOUGH, KindPaces, Pace, Setup
from specon_manager.model.resources import Resources
from specon_manager.model.settings import Budgets, Gate
from specon_manager.model.transactions import TransactionState
from support.decisions.cluster import SETTINGS, Cluster
from support.decisions.gangs import gang, with_gang, worker
from support.decisions.spread import (
    APART,
    MEASURED,
    TOGETHER,
    go_on,
    known,
    moves,
    nodes_of,
    ordered,
    running,
    said,
    spread,
)


def one_outlook(cluster):
    """Return what could be done for the gang `g`."""
    return faster.outlook("default/g", cluster.state, cluster.state.snapshot(cluster.now))


def test_a_spread_gang_is_brought_together_where_it_trains_faster():
    """It moves as a whole, once, and trains on at the pace that was measured for one node."""
    cluster = spread()
    cluster.tick()
    (begun,) = cluster.state.transactions.values()
    assert (begun.purpose, begun.policy, begun.whole) == ("faster", "defragment", True)
    go_on(cluster, 40)
    assert [each.state for each in moves(cluster)] == [TransactionState.SUCCEEDED]
    assert len(nodes_of(cluster, "g")) == 1
    assert running(cluster, "g")


def test_the_reason_names_both_paces_gain_and_price():
    """How often each was measured, too."""
    cluster = spread(defragment="dry-run")
    cluster.tick()
    (decision,) = said(cluster, "default/g")
    assert decision.refusal is Refusal.DRY_RUN
    assert decision.reason == (
        "would be ordered: move all of default/g: 2 replicas, 2 on node-0 (trains faster on 1 node"
        " than on 2 nodes: a step takes 0.5 s there and 1 s here (measured 10 and 10 times), which saves 50 %"
        " at least: worth 1200.0, for 20.0 (weighted replica-seconds))"
    )


def test_a_dry_run_orders_nothing():
    """However long it lasts."""
    cluster = spread(defragment="dry-run")
    assert not any(isinstance(action, HoldRoom) for action in cluster.tick())
    go_on(cluster, 10)
    assert not moves(cluster)
    assert not cluster.state.transactions
    assert not cluster.state.tried
    assert len(said(cluster, "default/g")) == 1


def test_nothing_is_moved_unless_it_is_set():
    """Off is the default."""
    cluster = spread(defragment="off")
    go_on(cluster, 10)
    assert not moves(cluster)


def test_nothing_is_guessed_of_what_was_not_measured():
    """One measurement less than enough on either side, another kind, or other numbers of workers."""
    few = {TOGETHER: (0.5, ENOUGH - 1)}, {APART: (1.0, ENOUGH - 1)}
    other_size = {TOGETHER: (0.5, 0), Setup(workers=3, nodes=1): (0.1, 50)}
    for paces in (*few, other_size):
        cluster = spread(paces=paces)
        assert not faster.candidates(cluster.state)
    cluster = spread()
    other = {"bert": cluster.state.setup_paces["vae"]}
    cluster.state = msgspec.structs.replace(cluster.state, setup_paces=other)
    assert one_outlook(cluster) is None
    cluster.tick()
    assert not cluster.state.transactions


def test_a_difference_within_the_noise_is_none():
    """Both means are taken to be wrong by two standard errors, to the disadvantage of the move."""
    sure = Pace(setup=APART, seconds=1.0, variance=0.0001, samples=ENOUGH)
    unsure = msgspec.structs.replace(sure, variance=0.25)
    together = msgspec.structs.replace(sure, setup=TOGETHER, seconds=0.75)
    cluster = spread()
    for pace, found in ((sure, ["default/g"]), (unsure, [])):
        paces = {"vae": KindPaces(paces=(pace, together), jobs={"default/g": APART})}
        cluster.state = msgspec.structs.replace(cluster.state, setup_paces=paces)
        assert faster.candidates(cluster.state) == found


def test_a_gain_below_the_price_is_no_reason():
    """Half of the 15 s that are looked ahead, for two replicas of weight 2: no more than 1.5 times 20."""
    cluster = spread(gate=Gate(horizon=15.0, expected_downtime=5.0, margin=1.5))
    cluster.tick()
    assert not moves(cluster)
    seen = one_outlook(cluster)
    assert seen.objection.text == (
        "predicted gain 30.0 does not exceed the cost 20.0 (weighted replica-seconds)"
    )


def test_where_it_has_no_room_together_it_stays():
    """Nobody else is moved for it; once there is room it moves."""
    cluster = spread(full=True)
    go_on(cluster, 5)
    assert not moves(cluster)
    seen = one_outlook(cluster)
    assert seen.objection.text == "there is no room for all 2 replicas of it on 1 node"
    cluster.die(worker("b0"), 0)
    go_on(cluster, 40)
    assert [each.state for each in moves(cluster)] == [TransactionState.SUCCEEDED]


@pytest.mark.parametrize(
    ("budgets", "why"),
    [
        ({"moves_at_once": 0}, None),
        ({"moves_per_replica": 0}, "it was ended for a move 0 times, which is its budget"),
    ],
)
def test_budgets_hold(budgets, why):
    """The same as for any other move."""
    cluster = spread(budgets=Budgets(cooldown=0, retry_cooldown=1, **budgets))
    go_on(cluster, 10)
    assert not moves(cluster)
    if why is not None:
        seen = one_outlook(cluster)
        assert seen.objection.text == why


def test_what_its_owner_forbids_is_not_done():
    """The same stands against it as against any move of a gang."""
    cluster = spread(migratable=False)
    go_on(cluster, 10)
    assert not moves(cluster)


def test_after_a_manager_that_knows_no_paces_any_more_nothing_is_moved():
    """On Kubernetes they are lost with its process: then it is silent until it has measured both again."""
    cluster = spread()
    cluster.state = msgspec.structs.replace(cluster.state, setup_paces={})
    cluster.restart_manager()
    go_on(cluster, 3 * ENOUGH)
    assert not moves(cluster)
    (pace,) = cluster.state.setup_paces["vae"].paces
    assert pace.setup == APART
    assert pace.seconds == pytest.approx(1.0, rel=0.05)


def test_what_brought_nothing_is_not_done_again():
    """What it brought is measured; where that was not worth the price it is remembered while the job runs."""
    cluster = spread()
    go_on(cluster, 40, seconds=lambda nodes: 1.0)  # on one node it is no faster than on two
    assert len(moves(cluster)) == 1
    record = cluster.state.tried["default/g"]
    assert record.saved == pytest.approx(0.0, abs=0.05)
    assert record.least == pytest.approx(20.0 / 2400.0)
    apart = {worker("g", index): f"node-{index}" for index in range(2)}
    ordered(cluster, MigrateGang(job="default/g", placement=apart, purpose="test", reason=""))
    go_on(cluster, 10, seconds=lambda nodes: 1.0)
    assert len(nodes_of(cluster, "g")) == 2
    cluster.state = known(cluster.state, MEASURED)  # by others of its kind
    go_on(cluster, 10, seconds=lambda nodes: 1.0)
    assert len(moves(cluster)) == 1
    seen = one_outlook(cluster)
    assert seen.objection.text == (
        "it was moved to 1 node before, which saved -2 % of its time, and had to save 1 %"
    )


def test_the_next_of_its_kind_waits_until_it_is_known_what_the_first_brought():
    """Then it follows, or it does not."""
    cluster = spread(gangs=("g", "h"), nodes=4)
    cluster.tick()
    assert len(cluster.state.transactions) == 1
    go_on(cluster, 8)
    assert [each.state for each in moves(cluster)] == [TransactionState.SUCCEEDED]
    assert not cluster.state.transactions
    go_on(cluster, 40)
    assert {each.job for each in moves(cluster)} == {"default/g", "default/h"}
    assert all(each.saved == pytest.approx(0.5) for each in cluster.state.tried.values())


def test_what_is_known_of_a_job_alone_goes_with_it():
    """What its kind has in common stays."""
    cluster = spread()
    go_on(cluster, 40)
    for index in range(2):
        cluster.die(worker("g", index), 0)
    assert cluster.state.jobs["default/g"].ended_at is not None
    assert not cluster.state.tried
    assert not cluster.state.setup_paces["vae"].jobs
    assert len(cluster.state.setup_paces["vae"].paces) == 2


def test_a_gang_of_no_kind_is_compared_with_itself_alone():
    """What it was measured at is forgotten with it."""
    cluster = Cluster(nodes=2, cpus=2.0, settings=msgspec.structs.replace(SETTINGS, policy="quota-fifo"))
    cluster.post(ev.JobSubmitted(gang("g", 2, ps=0, resizing="none")))
    cluster.tick()
    go_on(cluster, 5)
    (pace,) = cluster.state.setup_paces["default/g\n"].paces
    assert pace.setup == TOGETHER
    for index in range(2):
        cluster.die(worker("g", index), 0)
    assert not cluster.state.setup_paces


def test_what_a_move_in_flight_disturbs_is_not_measured():
    """A trainer that pauses after its save says nothing of the pace of its setup."""
    cluster = spread()
    cluster.tick()
    before = cluster.state.setup_paces
    cluster.now += 30
    cluster.report(worker("g"), step=1000)
    assert cluster.state.setup_paces == before


def test_room_that_is_kept_for_others_is_left_to_them():
    """What is claimed on its own nodes is no room for it; it goes where nothing is."""
    for nodes, there in ((2, set()), (3, {"node-2"})):
        cluster = spread(nodes=nodes)
        cluster.post(ev.JobSubmitted(gang("w", 2, ps=0, cpu=2.0, resizing="none")))
        claim = Claim(job="default/w", placement={worker("w", i): f"node-{i}" for i in range(2)}, reason="")
        ordered(cluster, claim)
        seen = one_outlook(cluster)
        assert {*seen.placement.values()} == there


def test_while_room_is_made_for_a_job_that_waits_nobody_is_brought_together():
    """What is moved for it next must find the room that it was planned with."""
    cluster = spread(nodes=3)
    cluster.post(ev.JobSubmitted(gang("w", 3, ps=0, cpu=2.0, resizing="none")))
    ordered(cluster, Claim(job="default/w", placement={worker("w"): "node-0"}, reason="room is made for it"))
    for job, verdicts in (("default/w", 0), ("", 1)):
        cluster.state = msgspec.structs.replace(cluster.state, making_room=MakingRoom(job=job))
        _, found = faster.judge_faster_move(cluster.state, cluster.state.snapshot(cluster.now), cluster.now)
        assert len(found) == verdicts


def test_of_many_gangs_only_some_are_looked_at_in_one_tick():
    """They take turns, so that each is looked at in the end."""
    names = tuple(f"g{number:02}" for number in range(20))
    cluster = spread(names, nodes=40, budgets=Budgets(cooldown=0, moves_per_replica=0))
    cluster.tick()
    assert cluster.state.faster_after == "default/g15"
    free = msgspec.structs.replace(SETTINGS, policy="quota-fifo", defragment="dry-run")
    cluster.post(ev.ManagerStarted("again", free))
    cluster.tick()
    assert said(cluster, "default/g16")
    assert not said(cluster, "default/g15")


def test_no_policy_spreads_a_gang_that_is_known_to_train_faster_as_it_is():
    """It would be brought together again; where its pace on two nodes was not measured it may."""
    cluster = spread()
    go_on(cluster, 30)
    (here,) = nodes_of(cluster, "g")
    (other,) = {"node-0", "node-1"} - {here}
    off = msgspec.structs.replace(cluster.state.settings, gate=Gate(enabled=False))
    cluster.state = msgspec.structs.replace(cluster.state, settings=off)
    move = Migrate(replica=worker("g", 1), target=other, purpose="test", reason="")
    (verdict,) = plan(cluster.state, [move], cluster.now)
    assert verdict.objection.refusal is Refusal.NO_GAIN
    assert verdict.objection.text == (
        "on 2 nodes a step takes 0.98 s, and 0.5 s on 1 node (measured 11 and 38 times)"
    )
    ignorant = msgspec.structs.replace(cluster.state, setup_paces={})
    (verdict,) = plan(ignorant, [move], cluster.now)
    assert verdict.objection is None


@pytest.mark.parametrize(
    ("held", "cpus", "count", "placed"),
    [
        ([2, 1, 1], [0, 1, 0], 2, [2, 2, 0]),
        ([2, 1, 1], [0, 0, 2], 2, [2, 0, 2]),
        ([2, 1, 1], [0, 0, 0], 2, None),
        ([1, 1, 1, 0], [0, 0, 0, 9], 1, [0, 0, 0, 3]),
        ([1, 1, 1, 0], [0, 0, 2, 3], 1, [0, 0, 3, 0]),
        ([1, 1, 1, 0, 0], [0, 0, 0, 9, 9], 2, [0, 0, 0, 2, 1]),
    ],
)
def test_the_nodes_on_which_it_runs_come_first(held, cpus, count, placed):
    """And it is on just as many as were measured, never on fewer."""
    cluster = Cluster(nodes=0, settings=SETTINGS)
    for number, (own, free) in enumerate(zip(held, cpus, strict=True)):
        room = Resources(cpu=own + free + 0.5)
        cluster.post(ev.NodeObserved(node=f"node-{number}", capacity=room, usage=Resources()))
    spec = gang("g", sum(held), ps=0, resizing="none")
    where = [f"node-{number}" for number, own in enumerate(held) for _ in range(own)]
    state = with_gang(cluster.state, spec, dict(zip(spec.replicas, where, strict=True)))
    found = onto(state.jobs["default/g"], Setup(workers=sum(held), nodes=count), state.snapshot(0.0))
    counts = Counter(found.values()) if found else {}
    assert ([counts[f"node-{n}"] for n in range(len(held))] if found else None) == placed


def test_a_gang_of_no_kind_learns_nothing_of_one_whose_kind_has_its_name():
    """Otherwise a user who may annotate a pod could have the gangs of others moved."""
    cluster = Cluster(nodes=4, cpus=2.0, settings=msgspec.structs.replace(SETTINGS, policy="quota-fifo"))
    cluster.post(ev.JobSubmitted(gang("g", 2, ps=0, resizing="none")))
    cluster.post(ev.JobSubmitted(gang("h", 2, ps=0, resizing="none", kind="default/g")))
    cluster.tick()
    go_on(cluster, 5)
    assert [[*each.jobs] for each in cluster.state.setup_paces.values()] == [["default/g"], ["default/h"]]


def test_of_too_many_kinds_one_that_no_gang_has_any_more_is_forgotten():
    """Else nothing would be learnt any more; those that run keep what they know."""
    cluster = Cluster(nodes=4, cpus=2.0, settings=msgspec.structs.replace(SETTINGS, policy="quota-fifo"))
    seen = KindPaces(paces=(Pace(setup=TOGETHER, seconds=1.0, samples=ENOUGH),))
    used = msgspec.structs.replace(seen, jobs={"default/other": TOGETHER})
    full = {f"kind-{number}": seen if number == 7 else used for number in range(KINDS_REMEMBERED)}
    cluster.state = msgspec.structs.replace(cluster.state, setup_paces=full)
    for name in ("g", "h"):
        cluster.post(ev.JobSubmitted(gang(name, 2, ps=0, resizing="none", kind=name)))
        cluster.tick()
        go_on(cluster, 5)
    assert {*full} - {*cluster.state.setup_paces} == {"kind-7"}
    assert {*cluster.state.setup_paces} - {*full} == {"g"}
