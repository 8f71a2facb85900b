"""Jobs that share the processors of a node: whose turn it is, and who goes to an idle node."""

import pytest
from hypothesis import given

from specon_manager.model.cluster import JobSpec, Phase
from specon_manager.model.constraints import Constraints
from specon_manager.model.progress import Progress
from specon_manager.model.resources import Resources
from specon_manager.policies.expectation import Expectation
from specon_manager.policies.preemption.queues import Queues
from specon_manager.policies.progress import ProgressSettings
from specon_manager.policies.shares import Shares
from specon_sidecar.classify.curve import Estimate
from support.decisions.expected import in_place, left_alone, served, sharing, worlds
from support.decisions.gang_worlds import NOW, Layout, nodes_of, spec_of

LOW = ProgressSettings().low_weight
DEFAULT = ProgressSettings()


def shares_of(layout, settings=DEFAULT):
    snapshot = layout.snapshot
    return Shares(snapshot, Expectation(snapshot, prior_seconds=600.0), settings)


def cluster(*jobs, nodes=1, cores=8.0):
    """Return jobs a, b, ...: (node, seconds left or None where they are not known, weight)."""
    layout = in_place(Layout(nodes_of(nodes, cpu=cores, memory=8.0)))
    for name, (place, seconds, weight) in zip("abcdef", jobs, strict=False):
        layout.add(sharing(name), place, trains_since=NOW - 5)
        layout.change(f"{name}/worker/0", weight=weight)
        if seconds is not None:
            left_alone(layout, name, seconds)
    return layout


def weights(layout, settings=DEFAULT):
    return {p.replica.split("/")[1]: p.weight for p in shares_of(layout, settings).reweigh()}


def moves(layout, settings=DEFAULT, promised=()):
    found = shares_of(layout, settings).balance(promised)
    return [(move.replica.split("/")[1], move.target) for move in found]


def starts(layout, *names):
    """Return where waiting jobs go, one after the other."""
    shares, waiting = shares_of(layout), {w.job.name: w for w in Queues(layout.snapshot).best_effort()}
    return [tuple(shares.admit(waiting[f"default/{name}"]).placement.values()) for name in names]


# -- weights -------------------------------------------------------------------------------------


def test_who_is_alone_has_all_of_its_node():
    """Weight 1, whatever it was before."""
    assert weights(cluster(("0", 100.0, LOW))) == {"a": 1.0}
    assert weights(cluster(("0", 100.0, 1.0))) == {}


def test_a_job_that_was_stopped_since_its_start_is_still_tried():
    """Only the time in which it could run counts as a trial: else nobody knows it, and it is the last one."""
    layout = cluster(("0", 50.0, 1.0), ("0", None, LOW))
    layout.change("b/worker/0", progress=Progress(stopped=4.0, reported_at=NOW))
    settings = ProgressSettings(probe_seconds=3.0, probe_rank=3.0)
    assert weights(layout, settings) == {"a": LOW, "b": 1.0}
    layout.change("b/worker/0", progress=Progress(stopped=1.0, reported_at=NOW))
    assert weights(layout, settings) == {}


@pytest.mark.parametrize(("done", "tried"), [(156, True), (154, False), (141, False), (139, True)])
def test_nobody_is_tried_while_a_job_would_end_late_for_it(done, tried):
    """With equal shares a job with 120 s left ends 120 s later beside an unknown one than alone.

    It was alone for 200 s. What it lacks of them counts for each of both: with 44 s or 46 s it may wait for
    32 s or 28 s, and a trial takes 30 s. From 60 s on it ends late anyway.
    """
    layout = in_place(Layout(nodes_of(1, cpu=8.0, memory=8.0))).add(sharing("a"), "0", trains_since=NOW - 200)
    told = Progress(step=done, total_steps=done + 120, cpu_per_step=8.0, reported_at=NOW)
    layout.change("a/worker/0", progress=told, weight=LOW)
    layout.add(sharing("b"), "0", trains_since=NOW).change("b/worker/0", weight=LOW)
    assert weights(layout) == ({"b": 1.0} if tried else {"a": 1.0})


def test_the_one_with_the_least_left_goes_first_and_the_others_hardly_run():
    """On each node by itself; only what changes is proposed."""
    layout = cluster(("0", 300.0, 1.0), ("0", 100.0, 1.0), ("0", 200.0, LOW), ("1", 900.0, 1.0), nodes=2)
    assert weights(layout) == {"a": LOW}
    assert weights(layout, ProgressSettings(low_weight=0.5)) == {"a": 0.5, "c": 0.5}


def test_on_a_gpu_time_counts_and_not_what_a_processor_does_meanwhile():
    """A trainer that waits for its GPU uses little of a processor, or all of one, whatever a step takes."""
    layout = in_place(Layout(nodes_of(1, cpu=16.0, memory=8.0, gpu=1.0)))
    for name, seconds, cost in (("a", 300.0, 0.01), ("b", 200.0, 5.0)):
        layout.add(sharing(name), "0", trains_since=NOW - 500)
        left = Estimate(value=seconds, uncertainty=0.0)
        told = Progress(
            step=50,
            total_steps=150,
            cpu_per_step=cost,
            remaining_seconds=left,
            reported_at=NOW,
            stopped=490.0,
        )
        layout.change(f"{name}/worker/0", progress=told)
    assert weights(layout) == {"a": LOW}
    snapshot = layout.snapshot
    expected = Expectation(snapshot, prior_seconds=600.0)
    assert [expected.remaining(job) for job in snapshot.jobs.values()] == [300.0, 200.0]
    assert [expected.attained(job) for job in snapshot.jobs.values()] == [10.0, 10.0]
    layout.change("a/worker/0", node=None, phase=Phase.PENDING, incarnation=None)
    waiting = Expectation(layout.snapshot, prior_seconds=600.0)
    assert waiting.remaining(layout.snapshot.jobs["default/a"]) == 300.0


def test_of_equals_the_older_goes_first():
    """Every order ends in the order of submission."""
    assert weights(cluster(("0", 100.0, 1.0), ("0", 100.0, 1.0))) == {"b": LOW}


@pytest.mark.parametrize(("seconds", "changes"), [(81.0, False), (79.0, True)])
def test_whose_turn_it_is_keeps_it_unless_another_has_clearly_less(seconds, changes):
    """A fifth less: estimates err, and each change costs."""
    layout = cluster(("0", 100.0, 1.0), ("0", seconds, LOW))
    assert weights(layout) == ({"a": LOW, "b": 1.0} if changes else {})


@pytest.mark.parametrize(("other", "tried"), [(101.0, True), (99.0, False)])
def test_a_newcomer_is_tried_unless_another_is_over_soon(other, tried):
    """It counts as having 100 s left, until its sidecar knows."""
    assert weights(cluster(("0", other, LOW), ("0", None, LOW))) == ({"b": 1.0} if tried else {"a": 1.0})


def test_who_was_tried_in_vain_counts_by_what_its_kind_takes():
    """It trained for longer than `probe_seconds`, and nothing is known yet: 600 s less those."""
    layout = cluster(("0", 500.0, LOW), ("0", None, LOW))
    assert weights(layout, ProgressSettings(probe_seconds=5.0)) == {"a": 1.0}
    assert weights(layout, ProgressSettings(probe_seconds=6.0)) == {"b": 1.0}


def test_all_replicas_of_the_job_whose_turn_it_is_go_first():
    """A gang trains at the pace of its slowest worker."""
    layout = cluster(("0", 500.0, 1.0)).add(sharing("gang", 2), "0 0", trains_since=NOW - 5)
    left_alone(layout, "gang", 50.0)
    assert weights(layout) == {"a": LOW}
    layout = cluster().add(sharing("gang", 2), "0 0")
    assert weights(layout) == {}


def test_who_starts_leaves_or_moves_is_left_out():
    """Its weight cannot be changed, and it uses no processors for long."""
    layout = cluster(("0", 10.0, LOW), ("0", 100.0, LOW))
    layout.change("a/worker/0", phase=Phase.STARTING)
    assert weights(layout) == {"b": 1.0}
    assert weights(cluster(("0", 10.0, 1.0), ("0", 100.0, LOW)).leave("a/worker/0", "preempt")) == {"b": 1.0}


def test_who_reserves_cores_has_no_weight():
    """Its cores are its own."""
    layout = cluster(("0", 100.0, LOW)).add(spec_of("own", requests=Resources(cpu=2.0)), "0")
    assert weights(layout) == {"a": 1.0}


# -- admission -----------------------------------------------------------------------------------


def test_a_waiting_job_goes_where_the_least_is_left():
    """100 s rather than 300 s; the next one counts with what this one brought."""
    layout = cluster(("0", 300.0, 1.0), ("1", 100.0, 1.0), nodes=2).add(sharing("x")).add(sharing("y"))
    assert starts(layout, "x", "y") == [("node-1",), ("node-0",)]


def test_a_waiting_job_goes_where_it_and_others_delay_each_other_least():
    """Beside one with 300 s it waits for nobody; three with 30 s each would all go before it."""
    layout = cluster(("0", 300.0, 1.0), *[("1", 30.0, 1.0)] * 3, nodes=2)
    layout.add(sharing("short", kind="quick")).add(sharing("long", kind="slow"))
    layout = served(layout, quick=(3, 40.0), slow=(3, 500.0))
    assert starts(layout, "short") == [("node-0",)]
    assert starts(layout, "long") == [("node-1",)]


def test_reserved_cores_make_what_is_left_take_longer():
    """On node 0 only an eighth of the cores is anybody's; both have nothing to do yet."""
    layout = cluster(nodes=2).add(spec_of("own", requests=Resources(cpu=7.0)), "0").add(sharing("x"))
    assert starts(layout, "x") == [("node-1",)]


def test_a_gang_that_shares_is_spread():
    """Each of its workers has a node for itself."""
    assert starts(cluster(nodes=2).add(sharing("x", 2)), "x") == [("node-0", "node-1")]


def test_who_crashed_starts_where_it_was():
    """Its files are there; node 1 is empty."""
    layout = cluster(("0", 300.0, 1.0), nodes=2).add(sharing("x"))
    layout.change("x/worker/0", crashes=1, node="node-0")
    assert starts(layout, "x") == [("node-0",)]


# -- balance -------------------------------------------------------------------------------------


def test_an_idle_node_takes_who_would_wait_longest():
    """The one with the most left of the node with the most to do."""
    layout = cluster(
        ("0", 50.0, 1.0), ("0", 90.0, LOW), ("0", 70.0, LOW), ("1", 60.0, 1.0), ("1", 80.0, LOW), nodes=3
    )
    assert moves(layout) == [("b", "node-2")]


def test_no_node_gives_more_than_one_at_once():
    """Two nodes are idle, and there is one source."""
    layout = cluster(("0", 50.0, 1.0), ("0", 90.0, LOW), ("0", 70.0, LOW), nodes=3)
    assert moves(layout) == [("b", "node-1")]
    two = cluster(("0", 50.0, 1.0), ("0", 90.0, LOW), ("1", 70.0, 1.0), ("1", 99.0, LOW), nodes=4)
    assert moves(two) == [("d", "node-2"), ("b", "node-3")]


@pytest.mark.parametrize(("ahead", "moved"), [(10.0, False), (11.0, True)])
def test_nobody_moves_whose_turn_comes_soon(ahead, moved):
    """`move_seconds` is what it must wait at least."""
    layout = cluster(("0", ahead, 1.0), ("0", 90.0, LOW), nodes=2)
    assert bool(moves(layout)) is moved


def test_who_is_alone_stays():
    """There is nothing to gain."""
    assert moves(cluster(("0", 500.0, 1.0), nodes=2)) == []


@pytest.mark.parametrize("why", ["promised", "reserved", "full"])
def test_a_node_that_is_not_idle_takes_nobody(why):
    """One that is given away in this call, one where somebody reserves, one that is claimed."""
    layout = cluster(("0", 50.0, 1.0), ("0", 90.0, LOW), nodes=2)
    assert moves(layout) == [("b", "node-1")]
    if why == "promised":
        assert moves(layout, promised={"node-1"}) == []
    elif why == "reserved":
        assert moves(layout.add(spec_of("own", requests=Resources(cpu=1.0)), "1")) == []
    else:
        layout.add(spec_of("waits", requests=Resources(memory=8.0)))
        layout.claim("waits", {"default/waits/worker/0": "node-1"})
        for name in "ab":
            layout.change(f"{name}/worker/0", requests=Resources(memory=1.0))
        assert moves(layout) == []


@pytest.mark.parametrize(
    "changes",
    [
        {"progress": Progress()},
        {"cooldown_until": NOW + 1},
        {"phase": Phase.STARTING},
        {"checkpointing": "none"},
        {"migratable": False},
        {"immovable": "its checkpoints are on an emptyDir"},
        {"constraints": Constraints(selector=(("disk", "ssd"),))},
    ],
)
def test_who_cannot_move_does_not_keep_the_others_from_it(changes):
    """Without steps, soon after a move, while it starts, without checkpoints, or where it may not go."""
    of_spec = {key: value for key, value in changes.items() if key in JobSpec.__struct_fields__}
    layout = cluster(("0", 50.0, 1.0), ("0", 90.0, LOW), nodes=2)
    layout.add(sharing("z", **of_spec), "0", trains_since=NOW - 5)
    left_alone(layout, "z", 500.0)
    if not of_spec:
        assert moves(layout) == [("z", "node-1")]
        layout.change("z/worker/0", **changes)
    assert moves(layout) == [("b", "node-1")]


@given(worlds())
def test_weights_are_one_for_one_job_of_a_node_and_low_for_the_rest(layout):
    """Whatever is there, and proposed once for each replica, only where it changes."""
    snapshot = layout.snapshot
    proposals = list(shares_of(layout).reweigh())
    assert len({proposal.replica for proposal in proposals}) == len(proposals)
    new = {proposal.replica: proposal.weight for proposal in proposals}
    assert all(snapshot.replicas[name].weight != weight for name, weight in new.items())
    for node, on_it in snapshot.on_node.items():
        running = [r for r in on_it if r.phase is Phase.RUNNING and not r.requests.cpu and not r.requests.gpu]
        first = {r.job for r in running if new.get(r.name, r.weight) == 1.0}
        assert len(first) == bool(running), node
        assert {new.get(r.name, r.weight) for r in running} <= {1.0, LOW}
