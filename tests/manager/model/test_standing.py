"""What stands against a move is the same whether words were looked for or not."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specon_manager.core.plain_moves import PlainMoves
from specon_manager.core.plan import plan
from specon_manager.model import standing
from specon_manager.model.actions import DEFRAGMENT, Migrate
from specon_manager.model.cluster import Phase, Progress
from specon_manager.model.constraints import Taint
from specon_manager.model.resources import Resources
from specon_manager.model.settings import Budgets, Gate
from support.decisions.expected import worlds
from support.decisions.gang_worlds import NOW, Layout, nodes_of, spec_of


@given(worlds(), st.data())
def test_nothing_is_against_a_move_exactly_where_no_words_for_it_are_found(layout, data):
    """This holds for every replica of random worlds, where some jobs have rules of their own."""
    state, snapshot = layout.state, layout.snapshot
    moves = [
        Migrate(replica=name, target=data.draw(st.sampled_from(sorted(state.nodes))), purpose="", reason="")
        for name in sorted(state.replicas)
    ]
    told = [standing.move_objection(replica, snapshot) for replica in state.replicas.values()]
    judged = words(plan(state, moves, snapshot.now))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(standing, "may_move", lambda *_: False)
        patch.setattr(PlainMoves, "_is_plain", lambda *_: False)
        patch.setattr(type(snapshot), "particular", frozenset(state.jobs))
        assert [standing.move_objection(replica, snapshot) for replica in state.replicas.values()] == told
        assert words(plan(state, moves, snapshot.now)) == judged


unlike = st.sampled_from(
    [
        {},
        {},
        {"unproven": "it began anew"},
        {"disrupted": 4},
        {"cooldown_until": NOW},
        {"cooldown_until": NOW + 1},
        {"requests": Resources(cpu=100.0)},
        {"phase": Phase.STARTING},
        {"progress": Progress()},
    ]
)
"""In what a replica may differ from the others."""
places = st.sampled_from(["0", "1", "2"])
budgets = st.builds(
    Budgets,
    moves_at_once=st.integers(0, 3),
    moves_at_once_per_node=st.integers(1, 2),
    moves_per_replica=st.just(4),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(places, places, unlike), min_size=1, max_size=9), budgets, st.data())
def test_a_move_that_the_loads_forbid_is_refused_in_the_same_words_at_a_glance(jobs, limits, data):
    """Whatever else is against it: budgets, taints, no room, or a gate that weighs nothing."""
    layout, moves = Layout(nodes_of(3, cpu=4.0, gpu=20.0)), []
    purpose = data.draw(st.sampled_from(["", "", DEFRAGMENT]))
    for number, (place, target, changes) in enumerate(jobs):
        layout.add(spec_of(f"j{number}"), place)
        layout.change(f"j{number}/worker/0", **{"progress": Progress(step=5), **changes})
        name = f"default/j{number}/worker/0"
        moves.append(Migrate(replica=name, target=f"node-{target}", purpose=purpose, reason=""))
    first = layout.state.nodes["node-0"]
    taints = data.draw(st.sampled_from([(), (Taint(key="maintenance"),)]))
    first = msgspec.structs.replace(
        first, taints=taints, ready=data.draw(st.sampled_from([True, True, False]))
    )
    chosen = msgspec.structs.replace(
        layout.state.settings,
        budgets=limits,
        gate=Gate(enabled=data.draw(st.sampled_from([True, True, False])), expected_downtime=0.0),
    )
    nodes = {**layout.state.nodes, "node-0": first}
    state = msgspec.structs.replace(layout.state, nodes=nodes, settings=chosen)
    judged = words(plan(state, moves, NOW))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PlainMoves, "_is_plain", lambda *_: False)
        assert words(plan(state, moves, NOW)) == judged


def words(rulings):
    """Return the rulings with the words of each."""
    return [
        (each.proposal, each.objection and (each.objection.refusal, each.objection.text)) for each in rulings
    ]
