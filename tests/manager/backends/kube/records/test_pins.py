"""Where the next pod of a replica is pinned, as the Migrations say."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specon_manager.backends.kube.records.pins import glance, pins_of
from specon_manager.core.state import State
from specon_manager.model.moves import Move, MoveState
from support.custom_resources import migration_of

R = "default/mnist/worker/0"
PINNED = {MoveState.EVICTING, MoveState.RESTORING, MoveState.VERIFYING}


def move(state, **changes):
    made = Move(
        id="move-1",
        replica=R,
        source="node-0",
        target="node-1",
        policy="specon",
        purpose="migrate",
        reason="test",
        state=state,
        proposed_at=1.0,
        deadline=2.0,
        incarnation="uid-1",
    )
    return msgspec.structs.replace(made, **changes)


def pins(*moves, hostname="host-1"):
    items = [
        migration_of(m, None, now=float(at), state=State(), hostname=hostname)
        for at, m in enumerate(moves, 1)
    ]
    return pins_of(map(glance, items))


@pytest.mark.parametrize("state", list(MoveState))
def test_a_replica_is_pinned_from_its_eviction_until_it_has_proven_itself(state):
    """Before that nothing is decided, after it its owner may place it anywhere."""
    assert pins(move(state)) == ({R: "host-1"} if state in PINNED else {})


def test_it_is_pinned_to_the_label_of_the_node_and_not_to_its_name():
    """The two may differ; where the label is not known the name is the best there is."""
    assert pins(move(MoveState.RESTORING)) == {R: "host-1"}
    assert pins(move(MoveState.RESTORING), hostname=None) == {R: "node-1"}
    assert pins(move(MoveState.RESTORING, attempt=2), hostname=None) == {R: "node-0"}


def test_of_two_migrations_the_one_that_was_written_last_pins():
    """Only nonsense has two; the answer is the same every time."""
    first, second = move(MoveState.EVICTING), move(MoveState.EVICTING, id="move-2", target="node-2")
    assert pins(first, second, hostname=None) == {R: "node-2"}


json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2),
    max_leaves=4,
)


@given(json, json)
def test_nonsense_pins_nothing(spec, status):
    """And raises nothing: the admission of every pod goes through here."""
    item = {"metadata": {"namespace": "default", "name": "x", "uid": "u"}, "spec": spec, "status": status}
    assert pins_of([glance(item)]) == {}
