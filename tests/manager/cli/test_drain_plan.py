"""Which replicas leave a node, whatever budgets let move at a time."""

import msgspec

from specon_manager.cli.act.drain_plan import judge_moves, replicas_on_node
from specon_manager.core.transaction.begin import record_of
from specon_manager.model.actions import Migrate
from specon_manager.model.resources import Resources
from specon_manager.model.settings import Budgets, Settings
from support.decisions.cluster import replica_of
from support.decisions.snapshots import NOW, cluster_of

ONE = Settings(policy="fifo", budgets=Budgets(moves_at_once=1, moves_at_once_per_node=1))


def moving(state, name, target):
    proposal = Migrate(replica=replica_of(name), target=target, purpose="migrate", reason="why")
    move = record_of(proposal, state.jobs, state.replicas, name=f"m-{name}", now=NOW)
    return state.with_transaction(move)


def test_all_leave_though_budgets_allow_one_at_a_time():
    """Budgets make them take turns; they do not make them stay."""
    state = cluster_of({"node-0": "ccc", "node-1": "", "node-2": ""}, settings=ONE)
    plan = judge_moves(state, "node-0", (), NOW)
    assert [each.subject for each in plan.leavers] == [replica_of(name) for name in ("c0", "c1", "c2")]
    assert not plan.stay
    assert state.settings is ONE


def test_each_one_takes_its_room_from_the_next():
    """Two that need three cores each do not both fit on a node of four."""
    state = cluster_of({"node-0": "cc", "node-1": ""}, settings=ONE)
    for name in ("c0", "c1"):
        replica = msgspec.structs.replace(state.replicas[replica_of(name)], requests=Resources(cpu=3.0))
        state = state.with_replica(replica)
    plan = judge_moves(state, "node-0", ("node-1",), NOW)
    assert [each.placement for each in plan.leavers] == [{replica_of("c0"): "node-1"}]
    assert plan.stay == {replica_of("c1"): "no room on node-1"}


def test_moves_in_flight_are_neither_asked_for_again_nor_forgotten():
    """One leaves already; one is being brought here, which is said."""
    state = cluster_of({"node-0": "cc", "node-1": "c"}, settings=ONE)
    state = moving(moving(state, "c0", "node-1"), "c2", "node-0")
    assert replicas_on_node(state, "node-0") == tuple(replica_of(name) for name in ("c0", "c1", "c2"))
    plan = judge_moves(state, "node-0", (), NOW)
    assert plan.leaving == (replica_of("c0"),)
    assert plan.stay == {replica_of("c2"): "m-c2 is bringing it there"}
    assert [each.subject for each in plan.leavers] == [replica_of("c1")]
