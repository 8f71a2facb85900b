"""Moves that somebody asks for: judged like any, but for what they gain and cost; refused in words, once."""

import msgspec
import pytest

from specon_manager.core.state import HISTORY
from specon_manager.core.step import frees_what_waits, step
from specon_manager.model import events as ev
from specon_manager.model.actions import WithdrawRequest
from specon_manager.model.cluster import Phase
from specon_manager.model.constraints import Constraints, Taint
from specon_manager.model.progress import Progress
from specon_manager.model.resources import Resources
from specon_manager.model.settings import Budgets, Gate, Settings
from specon_manager.model.transactions import MAY_GO, TransactionState
from specon_sidecar.wire import Acknowledgement, Checkpoint
from support.decisions.cluster import replica_of
from support.decisions.snapshots import NOW, cluster_of

C1, C2 = replica_of("c1"), replica_of("c2")
STRICT = Settings(policy="specon", gate=Gate(horizon=1.0), budgets=Budgets(cooldown=1e6))
LAYOUT = {"node-0": "pc", "node-1": "", "node-2": ""}


def state_of(layout=None, **changes):
    return cluster_of(layout or LAYOUT, settings=STRICT, **changes)


def but(state, name="c1", **changes):
    replica = state.replicas[replica_of(name)]
    return state.with_replica(msgspec.structs.replace(replica, **changes))


def with_spec(state, **changes):
    job = state.jobs["default/c1"]
    return state.with_job(msgspec.structs.replace(job, spec=msgspec.structs.replace(job.spec, **changes)))


def with_node(state, name, **changes):
    node = msgspec.structs.replace(state.nodes[name], **changes)
    return msgspec.structs.replace(state, nodes={**state.nodes, name: node})


def ask(state, target="node-1", replica=C1, name="default/m", reason="maintenance"):
    event = ev.MoveRequested(id=name, replica=replica, target=target, reason=reason)
    return step(state, event, NOW)


def refusal(state, **asked):
    """Return the words with which the request is refused; nothing else comes of it."""
    after, actions = ask(state, **asked)
    assert actions == []
    (move,) = after.history
    assert (move.state, move.policy, move.purpose) == (TransactionState.REFUSED, "request", "requested")
    assert msgspec.structs.replace(after, history=()) == state
    return move.note


def test_a_request_becomes_a_move_of_that_name():
    """The id, the reason and the target are those that were asked for."""
    after, (hold,) = ask(state_of())
    move = after.transaction_of(C1)
    assert (move.id, move.reason, move.source, move.target, move.state) == (
        "default/m",
        "maintenance",
        "node-0",
        "node-1",
        TransactionState.PROPOSED,
    )
    assert (hold.transaction, hold.replica, hold.node) == ("default/m", C1, "node-1")
    assert (after.transaction_count, after.history, after.requests) == (0, (), {})


def test_neither_gate_nor_cooldown_nor_count_of_moves_hold_it_back():
    """Somebody wants it, whatever it gains."""
    state = but(
        state_of({"node-0": "c", "node-1": "ppp", "node-2": ""}),
        "c0",
        cooldown_until=NOW + 9,
        moves=99,
        disrupted=99,
    )
    after, _ = ask(state, replica=replica_of("c0"))
    assert after.transaction_of(replica_of("c0")).target == "node-1"


def test_a_move_of_what_has_just_started_waits_for_its_first_step():
    """It begins once one is known; if none is known for half a minute, its log is not understood."""
    job = msgspec.structs.replace(state_of().jobs["default/c1"], trains_since=NOW)
    state = but(state_of().with_job(job), progress=Progress())
    after, actions = ask(state)
    assert (actions, after.history) == ([], ())
    assert after.requests["default/m"].waits_for == "it has just started, and no step of it is known yet"
    heard = but(after, progress=Progress(step=3, metric="loss"))
    begun, _ = step(heard, ev.Tick(), NOW + 1)
    assert begun.transaction_of(C1).id == "default/m"
    unread, _ = step(after, ev.Tick(), NOW + 30)
    assert "its log is not understood" in unread.history[-1].note


CASES = {
    "an unknown replica": (state_of(), {"replica": "default/x/worker/0"}, "there is no replica"),
    "one that does not run": (
        but(state_of(), phase=Phase.PENDING, node=None, incarnation=None),
        {},
        "it is Pending, not running",
    ),
    "an unknown node": (state_of(), {"target": "node-9"}, "there is no node node-9"),
    "a node that is not ready": (state_of(not_ready="node-1"), {}, "node node-1 is not ready"),
    "its own node": (state_of(), {"target": "node-0"}, "it is on node-0 already"),
    "a full node": (but(state_of(), requests=Resources(cpu=5.0)), {}, "no room on node-1"),
    "what its owner forbids": (with_spec(state_of(), migratable=False), {}, "its owner forbids moves"),
    "what cannot be moved": (with_spec(state_of(), immovable="on an emptyDir"), {}, "on an emptyDir"),
    "what never saves": (
        with_spec(state_of(), checkpointing="none"),
        {},
        "its trainer writes no checkpoints",
    ),
    "a tainted node": (
        with_node(state_of(), "node-1", taints=(Taint(key="gpu"),)),
        {},
        "node-1 has the taint gpu:NoSchedule, which is not tolerated",
    ),
    "a name that no sidecar takes": (
        state_of(),
        {"name": "x" * 121},
        "its name is longer than 120 characters",
    ),
    "no node at all": (
        state_of({"node-0": "pc"}),
        {"target": None},
        "no other node can take it: none is ready",
    ),
    "no node of its kind": (
        with_spec(state_of(), constraints=Constraints(selector=(("disk", "ssd"),))),
        {"target": None},
        "no other node can take it: node-1 has no label disk, not ssd as the node selector asks; node-2",
    ),
    "what cannot be moved, anywhere": (
        with_spec(state_of(), immovable="on an emptyDir"),
        {"target": None},
        "on an emptyDir",
    ),
}


@pytest.mark.parametrize(("state", "asked", "words"), CASES.values(), ids=CASES.keys())
def test_what_is_refused_is_in_the_history_with_its_words(state, asked, words):
    """The request is over at once, and says why."""
    assert refusal(state, **asked).startswith(words)


def test_budgets_of_cluster_and_node_hold():
    """Somebody's wish disturbs no more at once than the owner of the cluster accepts: it waits."""
    state, _ = ask(state_of({"node-0": "pc", "node-1": "", "node-2": "c"}))
    after, actions = ask(state, replica=replica_of("c2"), name="default/n")
    assert (actions, after.history, list(after.transactions)) == ([], (), ["default/m"])
    assert after.requests["default/n"].waits_for == "1 move of node-1 is in flight, which is its budget"
    budgets = msgspec.structs.replace(STRICT.budgets, moves_at_once=1)
    full = msgspec.structs.replace(state, settings=msgspec.structs.replace(STRICT, budgets=budgets))
    after, actions = ask(full, replica=replica_of("p0"), target=None, name="default/n")
    assert (actions, after.history, list(after.transactions)) == ([], (), ["default/m"])
    assert after.requests["default/n"].waits_for == "1 move is in flight, which is the cluster's budget"


def waits():
    """Return a state in which the move default/n waits for default/m."""
    state, _ = ask(state_of({"node-0": "pc", "node-1": "", "node-2": "c"}))
    state, _ = ask(state, replica=C2, name="default/n")
    return state


def test_what_waits_begins_once_nothing_stands_in_its_way():
    """At the next Tick, under the name it was asked for; what came before it need not have succeeded."""
    state = waits()
    still, _ = step(state, ev.Tick(), NOW + 1)
    assert still.requests == state.requests
    refused = ev.RoomRefused(transaction="default/m", replica=C1, reason="full")
    state, _ = step(state, refused, NOW + 2)
    state, actions = step(state, ev.Tick(), NOW + 3)
    assert (list(state.transactions), state.requests) == (["default/n"], {})
    assert state.transactions["default/n"].after == {C2: "node-1"}
    assert [(each.transaction, each.node) for each in actions] == [("default/n", "node-1")]


def test_the_end_of_a_move_calls_for_a_tick_where_another_waits_for_it():
    """No other event does: of a policy's moves the next Tick is soon enough."""
    state = waits()
    refused = ev.RoomRefused(transaction="default/m", replica=C1, reason="full")
    held, _ = step(state, ev.RoomHeld(transaction="default/m", replica=C1), NOW + 1)
    over, _ = step(state, refused, NOW + 2)
    assert [frees_what_waits(state, after) for after in (state, held, over)] == [False, False, True]
    alone, _ = step(state, ev.RequestWithdrawn(id="default/n"), NOW + 1)
    assert not frees_what_waits(alone, step(alone, refused, NOW + 2)[0])


def test_what_waits_can_be_withdrawn_and_what_has_begun_cannot():
    """It is in the history as refused, with the reason given for the withdrawal."""
    state, actions = step(waits(), ev.RequestWithdrawn(id="default/n", reason="never mind"), NOW + 1)
    assert (actions, state.requests) == ([], {})
    assert (state.history[-1].state, state.history[-1].note) == (TransactionState.REFUSED, "never mind")
    assert step(state, ev.RequestWithdrawn(id="default/n"), NOW + 2) == (state, [])
    assert step(state, ev.RequestWithdrawn(id="default/m"), NOW + 2) == (state, [])


def test_what_waits_for_too_long_is_refused():
    """It says for how long, and for what."""
    state = waits()
    patience = state.settings.deadlines.request
    late = state.with_transaction(
        msgspec.structs.replace(state.transactions["default/m"], deadline=NOW + 2 * patience)
    )
    before, _ = step(late, ev.Tick(), NOW + patience - 1)
    assert list(before.requests) == ["default/n"]
    after, _ = step(late, ev.Tick(), NOW + patience)
    assert (after.requests, after.history[-1].state) == ({}, TransactionState.REFUSED)
    assert after.history[-1].note == (
        f"it has waited for {patience:.0f} s: 1 move of node-1 is in flight, which is its budget"
    )


def test_the_same_request_again_changes_nothing_while_it_waits():
    """A name is used once."""
    state = waits()
    assert ask(state, replica=C2, name="default/n") == (state, [])
    assert ask(state, replica=C2, name="default/n", target="node-0") == (state, [])


def test_who_asks_for_what_waits_already_is_told_so():
    """Under a name of their own, too: the replica would be moved twice. Another target is another request."""
    state = waits()
    after, actions = ask(state, replica=C2, name="default/again")
    assert (actions, after.requests) == ([], state.requests)
    assert after.history[-1].note == (
        "default/n asks for the same, and waits: 1 move of node-1 is in flight, which is its budget"
    )
    after, _ = ask(state, replica=C2, name="default/elsewhere", target=None)
    assert list(after.requests) == ["default/n", "default/elsewhere"]


@pytest.mark.parametrize("target", ["node-1", "node-9"])
def test_the_same_request_again_changes_nothing(target):
    """In flight or refused: a name is used once."""
    after, _ = ask(state_of(), target=target)
    assert ask(after, target=target) == (after, [])
    assert ask(after, target="node-2") == (after, [])


@pytest.mark.parametrize(
    ("cores", "expected"),
    [
        ({"node-1": 4.0, "node-2": 8.0}, "node-2"),
        ({"node-1": 8.0, "node-2": 8.0}, "node-1"),
        ({"node-1": 8.0, "node-2": 4.0}, "node-1"),
    ],
)
def test_without_a_target_the_most_open_node_is_taken(cores, expected):
    """The share of a node that is open decides, of equals the first by name; never the source."""
    state = state_of({"node-0": "pc", "node-1": "p", "node-2": "p"})
    for name in ("p2", "p3"):
        state = but(state, name, requests=Resources(cpu=2.0))
    for node, cpu in cores.items():
        state = with_node(state, node, capacity=Resources(cpu=cpu))
    after, _ = ask(state, target=None)
    assert after.transaction_of(C1).target == expected


def test_without_a_target_a_node_that_cannot_take_it_hides_no_other():
    """The emptiest is tainted, the next one is taken."""
    state = with_node(
        state_of({"node-0": "pc", "node-1": "", "node-2": "p"}), "node-1", taints=(Taint(key="x"),)
    )
    after, _ = ask(state, target=None)
    assert after.transaction_of(C1).target == "node-2"


def test_refused_requests_do_not_pile_up():
    """The history is bounded, no matter who asks."""
    state = state_of()
    for number in range(HISTORY + 3):
        state, _ = ask(state, target="node-9", name=f"default/m{number}")
    assert len(state.history) == HISTORY
    assert state.history[-1].id == f"default/m{HISTORY + 2}"


def leave(state, node="node-0", replica=C1, name="default/evict"):
    event = ev.MoveRequested(id=name, replica=replica, reason="evicted", leave=node)
    return step(state, event, NOW)


def test_what_leaves_a_node_goes_where_there_is_room():
    """The manager chooses the node, as for any request without a target."""
    after, _ = leave(state_of())
    move = after.transaction_of(C1)
    assert (move.source, move.target, move.purpose) == ("node-0", "node-1", "leave")


def test_what_has_left_the_node_already_is_not_moved_again():
    """Its gang took it along, or its owner created it elsewhere."""
    after, actions = leave(state_of(), node="node-2")
    assert (actions, after.transactions) == ([], {})
    assert after.history[-1].note == "it has left node-2"


@pytest.mark.parametrize("cordoned", [False, True])
def test_what_has_room_nowhere_saves_and_may_go(cordoned):
    """Its checkpoint is verified where it is; nothing is ended and no room is held."""
    state = state_of()
    for name in ("node-1", "node-2", *(["node-0"] if cordoned else [])):
        state = with_node(state, name, ready=False)
    state, actions = leave(state)
    move = state.transaction_of(C1)
    assert (move.source, move.target, move.purpose) == ("node-0", "node-0", "yield")
    assert [type(each).__name__ for each in actions] == ["RequestCheckpoint"]


def test_what_may_go_keeps_its_pause_until_it_is_gone():
    """It saved for its eviction, which comes in a moment: whatever it trained until then would be lost."""
    state = state_of()
    for name in ("node-1", "node-2"):
        state = with_node(state, name, ready=False)
    state, (ask_,) = leave(state)
    assert ask_.pause > 0
    saved = Checkpoint(step=7, path="/c/7", digest="a" * 64)
    answer = Acknowledgement(
        schema=1,
        replica=C1,
        incarnation=state.replicas[C1].incarnation,
        id=ask_.id,
        done=True,
        checkpoint=saved,
        paused=True,
    )
    after, actions = step(state, ev.InstructionAcknowledged(answer), NOW)
    (move,) = after.history
    assert (move.state, move.note) == (TransactionState.ROLLED_BACK, MAY_GO)
    assert [each.release for each in actions if isinstance(each, WithdrawRequest)] == [False]


def test_the_requests_for_one_replica_take_no_place_of_others():
    """A tenant that asks a thousand times for its own lets nobody else be refused; nor does a large drain."""
    settings = Settings(policy="fifo", gate=Gate(enabled=False), budgets=Budgets(moves_at_once=1))
    state = cluster_of({"node-0": "p" * 1100, "node-1": "", "node-2": ""}, settings=settings)
    mine, *theirs = sorted(state.replicas)
    for number in range(1000):
        state, _ = step(state, ev.MoveRequested(id=f"mine/{number}", replica=mine, leave="node-0"), NOW)
    for number, replica in enumerate(theirs):
        state, _ = step(state, ev.MoveRequested(id=f"drain/{number}", replica=replica, leave="node-0"), NOW)
    assert len(state.requests) == 8 + len(theirs)
    assert {each.note for each in state.history} == {f"8 requests wait for {mine} already"}
