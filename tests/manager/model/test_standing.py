"""What stands against a move is the same whether words were looked for or not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specon_manager.core.plan import plan
from specon_manager.model import standing
from specon_manager.model.actions import Migrate
from support.decisions.expected import worlds


@given(worlds(), st.data())
def test_nothing_is_against_a_move_exactly_where_no_words_for_it_are_found(layout, data):
    """Of every replica of random worlds, some of whose jobs have rules of their own."""
    state, snapshot = layout.state, layout.snapshot
    moves = [
        Migrate(replica=name, target=data.draw(st.sampled_from(sorted(state.nodes))), purpose="", reason="")
        for name in sorted(state.replicas)
    ]
    told = [standing.move_objection(replica, snapshot) for replica in state.replicas.values()]
    judged = words(plan(state, moves, snapshot.now))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(standing, "may_move", lambda *_: False)
        patch.setattr(type(snapshot), "particular", frozenset(state.jobs))
        assert [standing.move_objection(replica, snapshot) for replica in state.replicas.values()] == told
        assert words(plan(state, moves, snapshot.now)) == judged


def words(rulings):
    """Return the rulings with the words of each."""
    return [(each.proposal, each.objection and each.objection.text) for each in rulings]
