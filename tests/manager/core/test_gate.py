"""The do-no-harm gate: a move must gain more than it costs."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specon_manager.core.gate import objection
from specon_manager.core.state import Measured
from specon_manager.model.actions import Migrate, Refusal
from specon_manager.model.resources import Resources
from specon_manager.model.settings import Gate
from specon_sidecar.classify.curve import Estimate
from support.decisions.cluster import replica_of
from support.decisions.snapshots import NOW, cluster_of

GATE = Gate(horizon=100.0, margin=1.0, expected_downtime=5.0)
NONE = Measured()


def judged(layout, name="c1", target="node-1", *, gate=GATE, measured=NONE, cpus=1.0, state=None, **progress):
    state = state or cluster_of(layout, cpus=cpus)
    replica = state.replicas[replica_of(name)]
    known = msgspec.structs.replace(replica.progress, **progress)
    state = state.with_replica(msgspec.structs.replace(replica, progress=known))
    proposal = Migrate(replica=replica.name, target=target, purpose="migrate", reason="why")
    found = objection(proposal, state.snapshot(NOW), gate, measured)
    return None if found is None else found.refusal


def test_a_crowded_node_gains_from_a_move_to_an_idle_one():
    """Mover and neighbour each get a whole core: 1 * 0.5 + 2 * 0.5 a second, far more than 5 s cost."""
    assert judged({"node-0": "pc", "node-1": ""}) is None


def test_a_move_that_changes_no_share_gains_nothing():
    """With cores for all there is nothing to win, however high the score."""
    assert judged({"node-0": "pc", "node-1": ""}, cpus=8.0) is Refusal.NO_GAIN


def test_the_target_may_not_end_up_fuller_than_the_source_was():
    """Replicas per core count, so a larger node may hold more of them."""
    assert judged({"node-0": "pc", "node-1": "pp"}) is Refusal.WORSE_LOADED
    state = cluster_of({"node-0": "pc", "node-1": "pp"}, cpus=1.0)
    large = msgspec.structs.replace(state.nodes["node-1"], capacity=Resources(cpu=3))
    state = msgspec.structs.replace(state, nodes={**state.nodes, "node-1": large})
    assert judged(None, state=state) is None


def test_swapping_one_crowd_for_the_same_crowd_is_refused():
    """Whatever grows on either side: a target that ends up as loaded as the source was is a swap."""
    assert judged({"node-0": "pc", "node-1": "p"}) is Refusal.WORSE_LOADED
    assert judged({"node-0": "ppc", "node-1": "cc"}, "c2") is Refusal.WORSE_LOADED


def test_what_still_grows_counts_more_than_what_converged():
    """The joined node's jobs lose: a growing one more than the gain, a converged one less."""
    assert judged({"node-0": "ppc", "node-1": "c"}, "c2") is None
    assert judged({"node-0": "ccc", "node-1": "p"}, "c1") is Refusal.NO_GAIN


@pytest.mark.parametrize(("remaining", "expected"), [(None, None), (50.0, None), (0.1, Refusal.NO_GAIN)])
def test_a_job_that_is_almost_done_is_not_worth_a_move(remaining, expected):
    """A gain counts only while the mover still runs, and never beyond the horizon."""
    estimate = None if remaining is None else Estimate(value=remaining, uncertainty=0.0)
    assert judged({"node-0": "pc", "node-1": ""}, remaining_seconds=estimate) is expected


def test_a_gain_counts_no_further_than_the_horizon():
    """Where the remaining time is longer, or not known, the horizon bounds what is promised."""
    gate = msgspec.structs.replace(GATE, horizon=1.0)
    estimate = Estimate(value=1e9, uncertainty=0.0)
    assert judged({"node-0": "pc", "node-1": ""}, gate=gate, remaining_seconds=estimate) is Refusal.NO_GAIN


def test_what_moves_cost_so_far_is_what_the_next_must_gain():
    """Measured downtime takes the place of the expected one."""
    layout = {"node-0": "pc", "node-1": ""}
    assert judged(layout, measured=Measured(moves=1, downtime=1000.0)) is Refusal.NO_GAIN
    assert judged(layout, measured=Measured(moves=1, downtime=1.0)) is None
    assert judged(layout, gate=msgspec.structs.replace(GATE, expected_downtime=1000.0)) is Refusal.NO_GAIN
    dear = msgspec.structs.replace(GATE, expected_downtime=1000.0)
    assert judged(layout, gate=dear, measured=Measured(moves=3, downtime=1.0)) is None


@pytest.mark.parametrize(
    ("weights", "expected"), [({}, None), ({"progressing_weight": 0.0}, Refusal.NO_GAIN)]
)
def test_a_gain_counts_by_the_weights_of_the_settings(weights, expected):
    """What a growing neighbour gains is nothing where its weight is: what is left is what the move costs."""
    gate = msgspec.structs.replace(GATE, horizon=5.0, **weights)
    assert judged({"node-0": "pc", "node-1": ""}, gate=gate) is expected


def test_lost_steps_cost_the_time_to_train_them_again():
    """Steps times seconds per step, where the replica's own speed is known."""
    layout = {"node-0": "pc", "node-1": ""}
    lossy = Measured(moves=1, downtime=1.0, steps_lost=100.0)
    slow = {"step": 100, "total_steps": 200, "remaining_seconds": Estimate(value=1000.0, uncertainty=0.0)}
    assert judged(layout, measured=lossy) is None
    assert judged(layout, measured=lossy, **slow) is Refusal.NO_GAIN
    assert judged(layout, measured=lossy, **{**slow, "total_steps": 100}) is None


def test_the_margin_is_how_many_times_its_cost_a_move_must_gain():
    """A gain of 150 at a cost of 2.5: sixty times, not more."""
    layout = {"node-0": "pc", "node-1": ""}
    assert judged(layout, gate=msgspec.structs.replace(GATE, margin=59.0)) is None
    assert judged(layout, gate=msgspec.structs.replace(GATE, margin=61.0)) is Refusal.NO_GAIN


def test_a_gate_that_is_off_still_refuses_what_is_no_move():
    """A same-node move is no move, in every mode; an unknown source is none either."""
    off = Gate(enabled=False)
    assert judged({"node-0": "pc", "node-1": "ppp"}, gate=off) is None
    assert judged({"node-0": "pc", "node-1": ""}, target="node-0", gate=off) is Refusal.SAME_NODE
    state = cluster_of({"node-0": "pc", "node-1": ""})
    state = msgspec.structs.replace(state, nodes={"node-1": state.nodes["node-1"]})
    assert judged(None, state=state, gate=off) is Refusal.NODE_NOT_READY


letters = st.text("pwcus", max_size=5)


@given(
    here=letters,
    there=letters,
    cpus=st.sampled_from([0.0, 0.5, 1.0, 4.0]),
    remaining=st.none() | st.floats(0, 1e300),
    downtime=st.floats(0, 1e300),
)
def test_the_gate_never_fails_and_never_fills_the_target_above_the_source(
    here, there, cpus, remaining, downtime
):
    """Whatever the numbers, it answers; on equal nodes what it lets pass does not end up more crowded."""
    estimate = None if remaining is None else Estimate(value=remaining, uncertainty=0.0)
    found = judged(
        {"node-0": "c" + here, "node-1": there},
        "c0",
        cpus=cpus,
        measured=Measured(moves=1, downtime=downtime),
        remaining_seconds=estimate,
    )
    if found is None:
        assert len(there) + 1 <= len(here) + 1
    else:
        assert found in {Refusal.WORSE_LOADED, Refusal.NO_GAIN}
