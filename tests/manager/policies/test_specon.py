"""SpeCon's Algorithms 2 and 3, and what was repaired in them."""

import random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specon_manager.model.actions import Admit, Migrate, Stay
from specon_manager.model.cluster import Phase
from specon_manager.model.constraints import Taint
from specon_manager.model.snapshot import Snapshot
from specon_manager.policies import specon
from specon_manager.policies.specon import MIGRATE, REBALANCE, SpeConSettings, propose, score
from support.decisions.cluster import replica_of
from support.decisions.snapshots import NOW, cluster_of, move_of, short, snapshot_of

DEFAULT = SpeConSettings()
LITERAL = SpeConSettings(literal=True, min_growing=2)
ONLY_MIGRATE = SpeConSettings(rebalance=False)


def moves(snapshot, settings=DEFAULT, purpose=None):
    """Return what is proposed, as (replica, target), in its order."""
    return [
        (short(proposal.replica), proposal.target)
        for proposal in propose(snapshot, settings)
        if isinstance(proposal, Migrate) and purpose in {None, proposal.purpose}
    ]


# -- Algorithm 2 ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("letters", "expected"),
    [("", 0), ("p", 2), ("w", 1.5), ("c", 1), ("pwc", 4.5), ("ppp", 6), ("u", 2), ("d", 2), ("s", 2)],
)
def test_a_score_is_two_one_and_a_half_and_one(letters, expected):
    """S_w = 2 |PC| + 1.5 |WC| + 1 |CC|; what is none of the three weighs like a growing one."""
    snapshot = snapshot_of({"node-0": letters})
    assert score(snapshot.census("node-0"), DEFAULT) == expected


def test_a_converged_job_moves_to_the_node_with_the_lowest_score():
    """T = argmin S_w over all nodes, the job counted where it is."""
    layout = {"node-0": "pc", "node-1": "pp", "node-2": "p", "node-3": "pw"}
    assert moves(snapshot_of(layout), ONLY_MIGRATE) == [("c1", "node-2")]


def test_of_several_lowest_the_least_used_wins_then_the_first_by_name():
    """|T| > 1: the node with the least R(w, t); of those with the same use, node-2 before node-10."""
    layout = {"node-0": "pc", "node-10": "p", "node-2": "p", "node-3": "p"}
    used = {"node-10": 0.5, "node-2": 0.5, "node-3": 0.1}
    assert moves(snapshot_of(layout, usage=used), ONLY_MIGRATE) == [("c1", "node-3")]
    assert moves(snapshot_of(layout, usage={"node-3": 0.1}), ONLY_MIGRATE) == [("c1", "node-2")]


@pytest.mark.parametrize("layout", [{"node-0": "pc", "node-1": "pp"}, {"node-0": "pc", "node-1": "pc"}])
def test_a_job_on_a_node_in_t_stays(layout):
    """Where its own node has the lowest score, alone or among others, there is nothing to gain."""
    assert moves(snapshot_of(layout), ONLY_MIGRATE) == []


def test_staying_is_remembered_in_literal_mode_only():
    """Printed: `migrated` is set in every branch. The authors' own logs show such jobs moving later."""
    snapshot = snapshot_of({"node-0": "ppc", "node-1": "pppp"})
    assert list(propose(snapshot, DEFAULT)) == []
    (stay,) = propose(snapshot, LITERAL)
    assert isinstance(stay, Stay)
    assert (short(stay.replica), stay.purpose) == ("c2", MIGRATE)
    assert "lowest score, 5" in stay.reason


@pytest.mark.parametrize(
    ("growing", "default", "literal"), [("", 0, 0), ("p", 1, 0), ("pp", 1, 1), ("w", 1, 0)]
)
def test_a_job_moves_only_for_neighbours_that_grow(growing, default, literal):
    """Algorithm 1, line 15: the paper wants two of them (|PC| + |WC| > 1), one is the sensible value."""
    snapshot = snapshot_of({"node-0": f"{growing}cc", "node-1": ""})
    no_rebalance = msgspec.structs.replace(LITERAL, rebalance=False)
    assert bool(moves(snapshot, ONLY_MIGRATE)) == default
    assert bool(moves(snapshot, no_rebalance)) == literal


def test_min_growing_can_be_set():
    """0 moves a job away from converged ones too."""
    snapshot = snapshot_of({"node-0": "cc", "node-1": ""})
    anyway = SpeConSettings(min_growing=0, rebalance=False)
    assert moves(snapshot, anyway) == [("c0", "node-1")]
    assert moves(snapshot, msgspec.structs.replace(anyway, min_growing=1)) == []


def test_the_longest_converged_asks_first_and_the_next_sees_what_it_did():
    """Requests are answered one after the other; each counts the moves before it."""
    snapshot = snapshot_of({"node-0": "ppcc", "node-1": "", "node-2": "p"}, since={"c2": 90.0, "c3": 80.0})
    assert moves(snapshot, ONLY_MIGRATE) == [("c3", "node-1"), ("c2", "node-1")]


def test_on_a_large_cluster_a_tick_looks_at_some_and_each_comes_in_turn(monkeypatch):
    """Whether Ticks are 5 s or a minute apart, none is passed over for long; as printed all are looked at."""
    layout = {f"node-{number}": "ppcc" for number in range(8)} | {"node-8": "", "node-9": ""}
    cluster = cluster_of(layout)
    asking = {name for name, _ in moves(cluster.snapshot(NOW), ONLY_MIGRATE)}
    literal = moves(cluster.snapshot(NOW), LITERAL)
    monkeypatch.setattr(specon, "_AT_ONCE", 3)
    for apart in (5.0, 7.3, 10.0, 60.0):
        ticks = [cluster.snapshot(NOW + apart * number) for number in range(24)]
        asked = [{name for name, _ in moves(each, ONLY_MIGRATE)} for each in ticks]
        assert all(1 <= len(names) <= 3 for names in asked)
        assert set().union(*asked) >= asking
    assert moves(cluster.snapshot(NOW), LITERAL) == literal


def test_scores_follow_the_weights_that_are_set():
    """w_pc, w_wc and w_cc are parameters."""
    layout = {"node-0": "pc", "node-1": "cc", "node-2": "p"}
    assert moves(snapshot_of(layout), ONLY_MIGRATE) == [("c1", "node-1")]
    heavy = SpeConSettings(rebalance=False, converged_weight=5.0)
    assert moves(snapshot_of(layout), heavy) == [("c1", "node-2")]


def test_only_running_converged_jobs_ask():
    """Not one that is started, that has ended, that moves already, or that was moved for this before."""
    state = cluster_of({"node-0": "pc", "node-1": ""})
    name = replica_of("c1")
    assert moves(state.snapshot(NOW)) == [("c1", "node-1")]
    replica = state.replicas[name]
    for changes in (
        {"phase": Phase.STARTING},
        {"phase": Phase.SUCCEEDED},
        {"moved_for": (MIGRATE, REBALANCE)},
    ):
        changed = state.with_replica(msgspec.structs.replace(replica, **changes))
        assert moves(changed.snapshot(NOW)) == [], changes
    assert moves(state.with_transaction(move_of(name, "node-0", "node-1")).snapshot(NOW)) == []


def test_a_move_in_flight_counts_where_it_will_end():
    """Two jobs that converge one after the other do not both run to the same idle node."""
    state = cluster_of({"node-0": "pcc", "node-1": "", "node-2": "p"})
    moving = state.with_transaction(move_of(replica_of("c1"), "node-0", "node-1"))
    assert moves(moving.snapshot(NOW), ONLY_MIGRATE) == [("c2", "node-1")]
    heavier = SpeConSettings(rebalance=False, converged_weight=2.5)
    assert moves(moving.snapshot(NOW), heavier) == [("c2", "node-2")]


def barred(snapshot, *nodes):
    """Return the snapshot in which these nodes are tainted."""
    tainted = {
        name: msgspec.structs.replace(node, taints=(Taint(key="gpu"),) if name in nodes else ())
        for name, node in snapshot.nodes.items()
    }
    return Snapshot(
        now=NOW,
        nodes=tainted,
        jobs=snapshot.jobs,
        replicas=snapshot.replicas,
        transactions=snapshot.transactions,
    )


def test_a_node_that_a_job_may_not_run_on_does_not_hide_the_next_best():
    """The best eligible node is taken, and the scores that follow count it; as printed there are no rules."""
    layout = {"node-0": "pppcc", "node-1": "", "node-2": "p", "node-3": "p"}
    assert moves(snapshot_of(layout), ONLY_MIGRATE) == [("c3", "node-1"), ("c4", "node-1")]
    snapshot = barred(snapshot_of(layout), "node-1")
    assert moves(snapshot, ONLY_MIGRATE) == [("c3", "node-2"), ("c4", "node-3")]
    literal = msgspec.structs.replace(LITERAL, rebalance=False)
    assert moves(snapshot, literal) == [("c3", "node-1"), ("c4", "node-1")]


def test_no_job_moves_where_the_next_best_is_worse_than_where_it_is():
    """What the best node would gain is no reason to go to another."""
    layout = {"node-0": "pc", "node-1": "", "node-2": "pp"}
    assert moves(barred(snapshot_of(layout), "node-1"), ONLY_MIGRATE) == []
    assert moves(barred(snapshot_of(layout), "node-1", "node-2"), ONLY_MIGRATE) == []


def test_rebalancing_fills_only_nodes_that_a_job_may_run_on():
    """A job that one idle node may not take is left to the next idle one."""
    layout = {"node-0": "ccc", "node-1": "ccc", "node-2": "", "node-3": ""}
    assert {target for _, target in moves(snapshot_of(layout), purpose=REBALANCE)} == {"node-2", "node-3"}
    snapshot = barred(snapshot_of(layout), "node-2")
    assert moves(snapshot, purpose=REBALANCE) == [("c5", "node-3")]
    assert moves(barred(snapshot_of(layout), "node-2", "node-3"), purpose=REBALANCE) == []


def test_nodes_that_are_not_ready_are_neither_left_nor_entered():
    """What is on a node that does not answer cannot save, and what goes there cannot start."""
    layout = {"node-0": "ppc", "node-1": "", "node-2": "p"}
    assert moves(snapshot_of(layout, not_ready="node-1"), ONLY_MIGRATE) == [("c2", "node-2")]
    assert moves(snapshot_of(layout, not_ready="node-0")) == []
    assert moves(snapshot_of(layout, not_ready="node-1 node-2")) == []
    assert moves(snapshot_of(layout, not_ready="node-0 node-1 node-2")) == []


# -- Algorithm 3 ---------------------------------------------------------------------------------


def rebalanced(layout, **changes):
    return moves(snapshot_of(layout, **changes), purpose=REBALANCE)


def test_an_idle_node_is_filled_to_the_balance_factor():
    """Bf = floor(sum / |W|); the converged last go first, for they run longest (smallest d_c)."""
    assert rebalanced({"node-0": "cccccc", "node-1": "ccc", "node-2": ""}) == [
        ("c5", "node-2"),
        ("c4", "node-2"),
        ("c3", "node-2"),
    ]


def test_the_smallest_converged_duration_moves_first():
    """d_c = now - t_cc."""
    since = {"c0": 30.0, "c1": 10.0, "c2": 20.0}
    assert rebalanced({"node-0": "ccc", "node-1": ""}, since=since) == [("c0", "node-1")]


def test_several_idle_nodes_share():
    """Each is filled in turn, and no source falls below the factor."""
    found = rebalanced({"node-0": "cccccc", "node-1": "", "node-2": ""})
    assert found == [("c5", "node-1"), ("c4", "node-1"), ("c3", "node-2"), ("c2", "node-2")]


@pytest.mark.parametrize(
    "layout", [{"node-0": "c", "node-1": ""}, {"node-0": "c", "node-1": "c", "node-2": ""}]
)
def test_with_fewer_jobs_than_nodes_nothing_moves(layout):
    """With bf = 0 an idle node is left idle."""
    assert rebalanced(layout) == []


def test_no_node_is_stripped_to_fill_another():
    """A source gives only what it has above the factor: the printed argmin could empty it."""
    assert rebalanced({"node-0": "cc", "node-1": "pp", "node-2": ""}) == [("c1", "node-2")]
    assert rebalanced({"node-0": "c", "node-1": "pp", "node-2": ""}) == []


def test_a_node_that_is_short_by_two_is_lifted():
    """Without an idle node, those with fewer than bf - 1 are lifted to it."""
    layout = {"node-0": "cccccc", "node-1": "pppppp", "node-2": "p"}
    assert rebalanced(layout) == [("c5", "node-2"), ("c4", "node-2")]
    assert rebalanced({"node-0": "cccc", "node-1": "pppp", "node-2": "ppp"}) == []


def test_a_short_node_does_not_give_to_another():
    """Sources are the nodes that are not in T, no matter which job converged last."""
    layout = {"node-0": "p", "node-1": "ccc", "node-2": "c" * 10, "node-3": "p" * 10}
    since = {"c1": 500.0, "c2": 500.0, "c3": 500.0}
    assert rebalanced(layout, since=since)[:4] == [
        ("c13", "node-0"),
        ("c12", "node-0"),
        ("c11", "node-0"),
        ("c10", "node-0"),
    ]


def test_jobs_that_still_grow_are_never_rebalanced():
    """Only what converged is movable."""
    assert rebalanced({"node-0": "pwusd", "node-1": ""}) == []


def test_a_job_moves_at_most_once_for_each_purpose():
    """A container can move twice: once by Algorithm 2, once by Algorithm 3."""
    state = cluster_of({"node-0": "cc", "node-1": ""})
    for purposes, expected in (((MIGRATE,), 1), ((REBALANCE,), 0), ((MIGRATE, REBALANCE), 0)):
        changed = state
        for replica in state.replicas.values():
            changed = changed.with_replica(msgspec.structs.replace(replica, moved_for=purposes))
        assert len(moves(changed.snapshot(NOW))) == expected


def test_what_migrates_is_not_rebalanced_in_the_same_breath():
    """One replica, one proposal."""
    for layout in ({"node-0": "pccc", "node-1": ""}, {"node-0": "ppcccc", "node-1": "", "node-2": ""}):
        names = [proposal.replica for proposal in propose(snapshot_of(layout), DEFAULT)]
        assert len(names) == len(set(names))


def test_rebalancing_can_be_switched_off():
    """Algorithm 2 alone."""
    assert moves(snapshot_of({"node-0": "cccc", "node-1": ""}), ONLY_MIGRATE) == []


def printed(layout, **changes):
    return moves(snapshot_of(layout, **changes), LITERAL, purpose=REBALANCE)


def test_as_printed_each_idle_node_gets_one_job_at_a_time():
    """Algorithm 3, lines 12 to 16: one for each idle node and call, the smallest d_c of all, from any."""
    assert printed({"node-0": "cccccc", "node-1": "ccc", "node-2": ""}) == [("c8", "node-2")]
    assert printed({"node-0": "cccccc", "node-1": "", "node-2": ""}) == [("c5", "node-1"), ("c4", "node-2")]
    assert printed({"node-0": "c", "node-1": "pp", "node-2": ""}) == [("c0", "node-2")]
    assert printed({"node-0": "c", "node-1": ""}) == []


def test_as_printed_each_node_that_is_not_short_gives_one_job():
    """Lines 23 to 30: its own smallest d_c, to a node that holds fewer than bf - 1, as long as one does."""
    layout = {"node-0": "cccccc", "node-1": "cccccc", "node-2": "c"}
    assert printed(layout) == [("c5", "node-2"), ("c11", "node-2")]
    assert printed({"node-0": "cccccc", "node-1": "cccccc", "node-2": "cc"}) == [("c5", "node-2")]


def test_as_printed_only_who_falls_once_more_asks():
    """Algorithm 1, lines 6 and 13 to 16: a converged job whose gain does not fall stays where it is."""
    state = cluster_of({"node-0": "ppc", "node-1": ""})
    replica = state.replicas[replica_of("c2")]
    still = msgspec.structs.replace(replica.progress, falls_on=False)
    state = state.with_replica(msgspec.structs.replace(replica, progress=still))
    assert moves(state.snapshot(NOW), LITERAL, MIGRATE) == []
    assert moves(state.snapshot(NOW), DEFAULT, MIGRATE) == [("c2", "node-1")]


# -- always --------------------------------------------------------------------------------------

layouts = st.lists(st.text("pwcuds", max_size=6), min_size=1, max_size=5).map(
    lambda words: {f"node-{number}": word for number, word in enumerate(words)}
)
some_settings = st.builds(
    SpeConSettings, literal=st.booleans(), min_growing=st.integers(0, 3), rebalance=st.booleans()
)
usages = st.dictionaries(st.sampled_from([f"node-{n}" for n in range(5)]), st.sampled_from([0.0, 1.0, 2.0]))


@given(layout=layouts, settings=some_settings, usage=usages)
def test_a_reason_says_the_same_whenever_it_is_read(layout, settings, usage):
    """Read as each move is proposed, or after the last one; the first names the scores of the snapshot."""
    snapshot = snapshot_of(layout, usage=usage)
    proposals, at_once = [], []
    for proposal in propose(snapshot, settings):
        proposals.append(proposal)
        at_once.append(str(proposal.reason))
    assert [str(proposal.reason) for proposal in proposals] == at_once
    for proposal in proposals[:1]:
        if isinstance(proposal, Migrate) and proposal.purpose == MIGRATE:
            source = snapshot.replicas[proposal.replica].node
            lowest, held = (score(snapshot.census(node), settings) for node in (proposal.target, source))
            assert at_once[0].endswith(f"; score {lowest:g} on {proposal.target}, {held:g} on {source}")


@given(layout=layouts, settings=some_settings, usage=usages, seed=st.integers(0, 5))
def test_what_is_proposed_is_possible_and_depends_on_nothing_else(layout, settings, usage, seed):
    """Known replicas and ready nodes, never its own, no replica twice; the order of records is no matter."""
    snapshot = snapshot_of(layout, usage=usage)
    proposals = list(propose(snapshot, settings))
    assert proposals == list(propose(snapshot, settings))
    for proposal in proposals:
        replica = snapshot.replicas[proposal.replica]
        assert not isinstance(proposal, Admit)
        assert replica.progress.category == "converged"
        assert str(proposal.reason)
        if isinstance(proposal, Migrate):
            assert proposal.target in snapshot.nodes
            assert proposal.target != replica.node
    asked = [proposal.replica for proposal in proposals if isinstance(proposal, Migrate)]
    assert len(asked) == len(set(asked))
    shuffled = {}
    for kind in ("nodes", "jobs", "replicas"):
        items = list(getattr(snapshot, kind).items())
        random.Random(seed).shuffle(items)
        shuffled[kind] = dict(items)
    again = Snapshot(now=snapshot.now, **shuffled)
    assert proposals == list(propose(again, settings))


@given(layout=layouts)
def test_a_rebalance_never_makes_a_full_node_fuller_than_a_source(layout):
    """After every rebalancing move the source has at least as many as the target."""
    snapshot = snapshot_of(layout)
    held = {name: len(replicas) for name, replicas in snapshot.on_node.items()}
    for name, target in moves(snapshot, SpeConSettings(min_growing=99), REBALANCE):
        held[snapshot.replicas[replica_of(name)].node] -= 1
        held[target] += 1
        assert held[snapshot.replicas[replica_of(name)].node] >= 1
    counts = list(held.values())
    before = [len(replicas) for replicas in snapshot.on_node.values()]
    assert max(counts) - min(counts) <= max(before) - min(before)
