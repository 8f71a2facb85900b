"""The plan: which proposals are refused and why, in which order they are judged, and what each sees."""

import msgspec
import pytest

from specon_manager.core.plan import plan
from specon_manager.model.actions import Admit, Migrate, Refusal, Stay
from specon_manager.model.cluster import Phase
from specon_manager.model.moves import Move, MoveState
from specon_manager.model.resources import Resources
from specon_manager.model.settings import Budgets, Gate, Settings
from support.cluster import replica_of
from support.snapshots import NOW, cluster_of

OPEN = Settings(gate=Gate(enabled=False), budgets=Budgets(moves_at_once=4, moves_at_once_per_node=4))


def state_of(layout=None, budgets=None, **changes):
    settings = OPEN if budgets is None else msgspec.structs.replace(OPEN, budgets=budgets)
    return cluster_of(layout or {"node-0": "pc", "node-1": "", "node-2": ""}, settings=settings, **changes)


def changed(state, name="c1", **changes):
    replica = state.replicas[replica_of(name)]
    return state.with_replica(msgspec.structs.replace(replica, **changes))


def with_spec(state, name="c1", **changes):
    job = state.jobs[f"default/{name}"]
    spec = msgspec.structs.replace(job.spec, **changes)
    return msgspec.structs.replace(
        state, jobs={**state.jobs, job.name: msgspec.structs.replace(job, spec=spec)}
    )


def migrate(name="c1", target="node-1"):
    return Migrate(replica=replica_of(name), target=target, purpose="migrate", reason="why")


def admit(name="c1", node="node-1"):
    return Admit(replica=replica_of(name), node=node, reason="why")


def in_flight(state, name, target, source="node-0", state_of_move=MoveState.PROPOSED):
    return state.with_move(
        Move(
            id=f"move of {name}",
            replica=replica_of(name),
            source=source,
            target=target,
            policy="specon",
            purpose="migrate",
            reason="",
            state=state_of_move,
            proposed_at=NOW,
            deadline=NOW,
            incarnation="1",
        )
    )


def refused(state, proposal, now=NOW):
    (verdict,) = plan(state, [proposal], now)
    return None if verdict.objection is None else verdict.objection.refusal


def full(state, node):
    return msgspec.structs.replace(
        state,
        nodes={**state.nodes, node: msgspec.structs.replace(state.nodes[node], capacity=Resources(cpu=0.5))},
    )


WAITING = {"phase": Phase.PENDING, "node": None, "incarnation": None}

CASES = {
    "accepted": (state_of(), migrate(), None),
    "an unknown replica": (state_of(), migrate("c9"), Refusal.UNKNOWN_REPLICA),
    "an unknown replica to admit": (state_of(), admit("c9"), Refusal.UNKNOWN_REPLICA),
    "an unknown node": (state_of(), migrate(target="node-9"), Refusal.NODE_NOT_READY),
    "an unknown node to start on": (changed(state_of(), **WAITING), admit(node="n"), Refusal.NODE_NOT_READY),
    "a node that is not ready": (state_of(not_ready="node-1"), migrate(), Refusal.NODE_NOT_READY),
    "no room": (
        full(changed(state_of(), requests=Resources(cpu=1)), "node-1"),
        migrate(),
        Refusal.NO_ROOM,
    ),
    "no room to start": (
        full(changed(state_of(), requests=Resources(cpu=1), **WAITING), "node-1"),
        admit(),
        Refusal.NO_ROOM,
    ),
    "admitted": (changed(state_of(), **WAITING), admit(), None),
    "it runs already": (state_of(), admit(), Refusal.NOT_PENDING),
    "it has ended": (changed(state_of(), phase=Phase.FAILED), admit(), Refusal.NOT_PENDING),
    "it only starts": (changed(state_of(), phase=Phase.STARTING), migrate(), Refusal.NOT_RUNNING),
    "it waits": (changed(state_of(), **WAITING), migrate(), Refusal.NOT_RUNNING),
    "it has a move": (in_flight(state_of(), "c1", "node-2"), migrate(), Refusal.IN_FLIGHT),
    "its owner forbids it": (with_spec(state_of(), migratable=False), migrate(), Refusal.FORBIDDEN),
    "it never saves": (with_spec(state_of(), checkpointing="none"), migrate(), Refusal.NO_CHECKPOINT),
    "it shows no steps": (
        changed(
            state_of(),
            progress=msgspec.structs.replace(state_of().replicas[replica_of("c1")].progress, step=None),
        ),
        migrate(),
        Refusal.NO_STEPS,
    ),
    "it moved a moment ago": (changed(state_of(), cooldown_until=NOW + 0.1), migrate(), Refusal.COOLDOWN),
    "its pause is over": (changed(state_of(), cooldown_until=NOW), migrate(), None),
    "it moved often": (changed(state_of(), moves=4), migrate(), Refusal.REPLICA_BUDGET),
    "it is there already": (state_of(), migrate(target="node-0"), Refusal.SAME_NODE),
    "no moves at all": (state_of(budgets=Budgets(moves_at_once=0)), migrate(), Refusal.CLUSTER_BUDGET),
    "the cluster is busy": (
        in_flight(state_of(budgets=Budgets(moves_at_once=1)), "p0", "node-2"),
        migrate(),
        Refusal.CLUSTER_BUDGET,
    ),
    "its node is busy": (
        in_flight(state_of(budgets=Budgets(moves_at_once_per_node=1)), "p0", "node-2"),
        migrate(),
        Refusal.NODE_BUDGET,
    ),
    "the target is busy": (
        in_flight(
            state_of({"node-0": "pc", "node-1": "", "node-2": "p"}, Budgets(moves_at_once_per_node=1)),
            "p2",
            "node-1",
            "node-2",
        ),
        migrate(),
        Refusal.NODE_BUDGET,
    ),
}


@pytest.mark.parametrize(("state", "proposal", "expected"), CASES.values(), ids=CASES.keys())
def test_a_proposal_is_judged_with_its_reason(state, proposal, expected):
    """Every refusal has its code, and words that a person understands."""
    (verdict,) = plan(state, [proposal], NOW)
    assert (None if verdict.objection is None else verdict.objection.refusal) == expected
    assert verdict.proposal == proposal
    assert verdict.objection is None or verdict.objection.text


def test_every_refusal_has_a_case():
    """A new reason to refuse must be shown to refuse; the gate has tests of its own."""
    gate = {Refusal.WORSE_LOADED, Refusal.NO_GAIN}
    assert {expected for _, _, expected in CASES.values()} - {None} == set(Refusal) - gate


def test_the_least_disruptive_is_judged_first():
    """Staying, then starting, then moving; the policy's own order within each."""
    state = changed(state_of({"node-0": "pcc", "node-1": "", "node-2": ""}), **WAITING)
    stay = Stay(replica=replica_of("p0"), purpose="migrate", reason="why")
    proposals = [migrate("c2"), migrate("p0"), admit("c1"), stay]
    assert [verdict.proposal for verdict in plan(state, proposals, NOW)] == [
        stay,
        admit("c1"),
        migrate("c2"),
        migrate("p0"),
    ]


def test_a_start_takes_the_room_that_a_later_move_wanted():
    """Each is judged on a copy in which those accepted before it are carried out."""
    state = state_of({"node-0": "pcc", "node-1": ""}, cpus=4.0)
    for name in ("c1", "c2"):
        state = changed(state, name, requests=Resources(cpu=3))
    state = changed(state, "c1", **WAITING)
    first, second = plan(state, [migrate("c2"), admit("c1")], NOW)
    assert first.objection is None
    assert second.objection is not None
    assert second.objection.refusal is Refusal.NO_ROOM
    assert refused(state, migrate("c2")) is None


def test_of_two_starts_for_one_place_the_second_is_refused():
    """The second proposal sees the first."""
    state = state_of({"node-0": "", "node-1": "cc"}, cpus=1.0)
    for name in ("c0", "c1"):
        state = changed(state, name, requests=Resources(cpu=1), **WAITING)
    verdicts = plan(state, [admit("c0", "node-0"), admit("c1", "node-0")], NOW)
    assert [v.objection and v.objection.refusal for v in verdicts] == [None, Refusal.NO_ROOM]


def test_one_replica_is_neither_started_nor_moved_twice():
    """However often a policy proposes it."""
    state = state_of()
    verdicts = plan(state, [migrate(), migrate(target="node-2")], NOW)
    assert [v.objection and v.objection.refusal for v in verdicts] == [None, Refusal.IN_FLIGHT]
    waiting = changed(state, **WAITING)
    verdicts = plan(waiting, [admit(), admit(node="node-2")], NOW)
    assert [v.objection and v.objection.refusal for v in verdicts] == [None, Refusal.NOT_PENDING]


@pytest.mark.parametrize(("budget", "accepted"), [(0, 0), (1, 1), (2, 2), (9, 3)])
def test_the_budget_of_the_cluster_counts_what_is_accepted_now(budget, accepted):
    """Three proposals, so many moves."""
    layout = {"node-0": "ccc", "node-1": "", "node-2": ""}
    state = state_of(layout, Budgets(moves_at_once=budget, moves_at_once_per_node=9))
    verdicts = plan(state, [migrate("c0"), migrate("c1"), migrate("c2", "node-2")], NOW)
    assert sum(verdict.objection is None for verdict in verdicts) == accepted


def test_the_budget_of_a_node_counts_it_as_source_and_as_target():
    """One move at a time of each node, but unrelated nodes move at the same time."""
    layout = {"node-0": "cc", "node-1": "", "node-2": "c", "node-3": ""}
    state = state_of(layout, Budgets(moves_at_once=9, moves_at_once_per_node=1))
    proposals = [migrate("c0", "node-1"), migrate("c1", "node-3"), migrate("c2", "node-3")]
    verdicts = plan(state, proposals, NOW)
    assert [v.objection and v.objection.refusal for v in verdicts] == [None, Refusal.NODE_BUDGET, None]


@pytest.mark.parametrize("progress", list(MoveState)[:6])
def test_a_move_holds_room_on_both_of_its_nodes_until_it_ends(progress):
    """Nothing takes the target, nor the place on the source to which a failed restore goes back."""
    state = state_of({"node-0": "c", "node-1": "", "node-2": "c"}, cpus=1.0)
    for name in ("c0", "c1"):
        state = changed(state, name, requests=Resources(cpu=1))
    if progress in {MoveState.RESTORING, MoveState.VERIFYING}:
        state = changed(state, "c0", node="node-1")
    moving = in_flight(state, "c0", "node-1", state_of_move=progress)
    assert refused(moving, migrate("c1", "node-1")) is Refusal.NO_ROOM
    assert refused(moving, migrate("c1", "node-0")) is Refusal.NO_ROOM


def test_on_the_way_back_the_target_is_full_until_nothing_is_left_on_it():
    """A second attempt evicts from the target first: its room is not free before that."""
    state = state_of({"node-0": "c", "node-1": "", "node-2": "c"}, cpus=1.0)
    for name in ("c0", "c1"):
        state = changed(state, name, requests=Resources(cpu=1))
    back = in_flight(changed(state, "c0", node="node-1"), "c0", "node-1", state_of_move=MoveState.EVICTING)
    back = back.with_move(msgspec.structs.replace(back.moves[replica_of("c0")], attempt=2))
    assert refused(back, migrate("c1", "node-1")) is Refusal.NO_ROOM
    restoring = changed(back, "c0", node="node-0")
    assert refused(restoring, migrate("c1", "node-1")) is None


def test_nothing_is_planned_where_nothing_is_proposed():
    """No proposal, no verdict."""
    assert plan(state_of(), [], NOW) == ()
