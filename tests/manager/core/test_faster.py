"""Jobs that are faster on other accelerators: what is learnt of each model, and who moves there."""

import msgspec
import pytest

from specon_manager.core import faster
from specon_manager.core.plan import plan
from specon_manager.model import events as ev
from specon_manager.model.actions import AdmitGang, MigrateGang
from specon_manager.model.paces import ENOUGH, KindPaces, Pace
from specon_manager.model.settings import Gate
from specon_manager.model.transactions import TransactionState
from support.decisions.gangs import worker
from support.decisions.models import cluster_of, job, on
from support.decisions.spread import moves, nodes_of, ordered, running, said, starts

PACES = {"K80": 4.0, "V100": 1.0, "": 2.0}
"""Seconds per step that jobs really have."""


def begin(cluster, name, *nodes, **changes):
    """Start a job with a worker on each of these nodes."""
    spec = job(name, len(nodes), **changes)
    starts(cluster, spec, {worker(name, number): node for number, node in enumerate(nodes)})


def go_on(cluster, rounds, paces=None):
    """Let all that runs train for ten seconds a round, a job at the pace of its slowest accelerator."""
    for _ in range(rounds):
        cluster.carry_out()
        cluster.now += 9.0
        for replica in sorted(cluster.live):
            state = cluster.state
            places = nodes_of(cluster, state.replicas[replica].job.removeprefix("default/"))
            pace = max((paces or PACES)[state.nodes[node].accelerator] for node in places)
            cluster.report(replica, step=(state.replicas[replica].progress.step or 0) + round(10.0 / pace))
        cluster.tick()


def known(cluster, paces, job="default/a"):
    """Let these paces of setups be measured of the kind, seconds per step; the first is that of the job."""
    found = tuple(Pace(setup=setup, seconds=seconds, samples=ENOUGH) for setup, seconds in paces.items())
    kinds = {"vae": KindPaces(paces=found, jobs={job: next(iter(paces))})}
    cluster.state = msgspec.structs.replace(cluster.state, setup_paces=kinds)


def seen(cluster, name="a"):
    return faster.outlook(f"default/{name}", cluster.state, cluster.state.snapshot(cluster.now))


def test_paces_are_learnt_for_each_model():
    """Jobs of one replica with GPUs and a kind count, too; nodes of an unknown model do not."""
    cluster = cluster_of("K80", "V100", "", defragment="off")
    begin(cluster, "a", "node-0")
    begin(cluster, "b", "node-1")
    begin(cluster, "c", "node-2", kind="unknown")
    begin(cluster, "d", "node-1", kind="cpu", gpu=0.0)
    begin(cluster, "e", "node-1", kind="")
    go_on(cluster, ENOUGH + 2)
    assert [*cluster.state.setup_paces] == ["vae"]
    slow, fast = cluster.state.setup_paces["vae"].paces
    assert (slow.setup, fast.setup) == (on("K80"), on("V100"))
    assert slow.seconds == pytest.approx(4.0, rel=0.4)
    assert fast.seconds == pytest.approx(1.0, rel=0.1)


def test_a_gang_on_unlike_models_is_of_none():
    """Its pace is compared with that of no model."""
    cluster = cluster_of("K80", "V100", "V100", defragment="off")
    begin(cluster, "a", "node-0", "node-1")
    go_on(cluster, 4)
    (pace,) = cluster.state.setup_paces["vae"].paces
    assert pace.setup == on("", workers=2, nodes=2)
    known(cluster, {on("", workers=2, nodes=2): 4.0, on("V100", workers=2): 1.0})
    assert not faster.candidates(cluster.state)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_job_on_a_slow_model_moves_to_free_room_on_a_faster_one(workers):
    """Once the one that has it is over: the paces of both were measured."""
    cluster = cluster_of("K80", "V100")
    begin(cluster, "a", *["node-0"] * workers)
    begin(cluster, "b", *["node-1"] * 2)
    go_on(cluster, ENOUGH + 2)
    assert not moves(cluster)
    if workers == 1:
        known(cluster, {on("K80"): 4.0, on("V100"): 1.0})  # the other one of its kind has two workers
        go_on(cluster, 1)
    text = f"there is no room for {'it' if workers == 1 else 'all 2 replicas of it'} on 1 node with V100"
    assert seen(cluster).objection.text == text
    for number in range(2):
        cluster.die(worker("b", number), 0)
    go_on(cluster, ENOUGH + 10)
    (move,) = moves(cluster)
    assert (move.job, move.state) == ("default/a", TransactionState.SUCCEEDED)
    assert nodes_of(cluster, "a") == {"node-1"}
    assert running(cluster, "a")
    assert cluster.state.tried["default/a"].saved == pytest.approx(0.75, abs=0.1)


def test_the_reason_names_both_setups():
    """With their paces, gain and price."""
    cluster = cluster_of("K80", "V100", defragment="dry-run")
    begin(cluster, "a", "node-0")
    known(cluster, {on("K80"): 4.0, on("V100"): 1.0})
    cluster.tick()
    (decision,) = said(cluster, worker("a"))
    assert decision.reason == (
        "would be ordered: move default/a/worker/0 to node-1 (trains faster on 1 node with V100"
        " than on 1 node with K80: a step takes 1 s there and 4 s here (measured 10 and 10 times), which"
        " saves 75 % at least: worth 900.0, for 10.0 (weighted replica-seconds))"
    )


@pytest.mark.parametrize(
    ("now", "then"),
    [
        ({on("K80"): 4.0}, {on("P100"): 1.0}),  # no node has it
        ({on("K80"): 4.0}, {on(""): 1.0}),
        ({on(""): 4.0}, {on("V100"): 1.0}),
        ({on("K80"): 1.0}, {on("V100"): 1.0}),
        ({on("K80"): 4.0}, {on("V100", workers=2): 1.0}),
    ],
    ids=["no such node", "to an unknown model", "from an unknown model", "as fast", "more workers"],
)
def test_where_it_is_not_known_to_be_faster_it_stays(now, then):
    """Nothing is compared across models that are not known."""
    cluster = cluster_of("K80", "V100")
    begin(cluster, "a", "node-0")
    known(cluster, now | then)
    go_on(cluster, 2, paces=dict.fromkeys(PACES, next(iter(now.values()))))
    assert not moves(cluster)
    assert not cluster.state.transactions


def test_a_gang_may_be_faster_on_more_nodes_of_a_better_model():
    """What was measured counts, not the number of nodes."""
    cluster = cluster_of("K80", "V100", "V100", gpus=2.0)
    begin(cluster, "a", "node-0", "node-0")
    for name, node in (("b", "node-1"), ("c", "node-2")):
        begin(cluster, name, node, kind="other")
    known(cluster, {on("K80", workers=2): 4.0, on("V100", workers=2, nodes=2): 1.5})
    assert set(seen(cluster).placement.values()) == {"node-1", "node-2"}
    go_on(cluster, 6)
    assert [each.state for each in moves(cluster)] == [TransactionState.SUCCEEDED]


def test_what_brought_nothing_on_another_model_is_not_done_again():
    """It is measured there, and remembered while the job runs."""
    cluster = cluster_of("K80", "V100")
    begin(cluster, "a", "node-0")
    known(cluster, {on("K80"): 5.0, on("V100"): 1.0})
    go_on(cluster, ENOUGH + 10, paces={"K80": 5.0, "V100": 5.0})
    assert len(moves(cluster)) == 1
    known(cluster, {on("V100"): 5.0, on("K80"): 1.0})
    assert seen(cluster).objection.text == (
        "it was moved to 1 node with V100 before, which saved -2 % of its time, and had to save 1 %"
    )


def test_no_policy_moves_a_gang_to_a_model_on_which_it_is_slower():
    """It would be moved back; a model on which its kind was never measured is none."""
    cluster = cluster_of("V100", "K80", "P100", gate=Gate(enabled=False))
    begin(cluster, "a", "node-0", "node-0")
    known(cluster, {on("V100", workers=2): 1.0, on("K80", workers=2): 4.0})

    def judged(node):
        placement = {worker("a", number): node for number in range(2)}
        move = MigrateGang(job="default/a", placement=placement, purpose="test", reason="")
        (verdict,) = plan(cluster.state, [move], cluster.now)
        return verdict.objection

    assert judged("node-1").text == (
        "on 1 node with K80 a step takes 4 s, and 1 s on 1 node with V100 (measured 10 and 10 times)"
    )
    assert judged("node-2") is None


def test_an_admission_is_not_measured_before_all_of_it_runs():
    """A job that waits has no pace, whatever its node would have."""
    cluster = cluster_of("V100")
    cluster.post(ev.JobSubmitted(job("a", 2)))
    placement = {worker("a", number): "node-0" for number in range(2)}
    ordered(cluster, AdmitGang(job="default/a", placement=placement, reason=""))
    assert not cluster.state.setup_paces
