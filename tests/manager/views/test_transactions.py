"""Transactions as rows: what they wait for, what they change, in which words."""

import msgspec
import pytest

from specon_manager.model.cluster import Leaving, Phase
from specon_manager.model.transactions import FINAL_STATES, Kind, Transaction, TransactionState, Witness
from specon_manager.views.awaited import describe_wait
from specon_manager.views.transaction_words import sentence
from specon_manager.views.transactions import choose_rows, news, row_of, rows_of
from specon_manager.views.words import ASKED, QUEUED, word_of_state
from support.decisions.changed_jobs import NOW, change, changing, elastic, ended, nodes
from support.decisions.gangs import on, server, with_gang, worker


def replica(state, name, **fields):
    return state.with_replica(msgspec.structs.replace(state.replicas[name], **fields))


def test_what_a_change_waits_for():
    """In each of its states, in words."""
    state = with_gang(nodes(), elastic(), on("node-0", server("e"), worker("e", 0), worker("e", 1)))
    lead, name, coming = worker("e"), worker("e", 1), worker("e", 2)
    told = Leaving(purpose="scale-in", since=NOW, deadline=NOW, reason="less")
    assert describe_wait(change(), state) == f"a verified checkpoint of {lead}"
    fewer = dict.fromkeys((server("e"), lead), "node-0")
    leaving = change(Kind.SCALE_IN, state=TransactionState.LEAVING, after=fewer, restart=False)
    assert describe_wait(leaving, replica(state, name, leaving=told)) == f"the end of {name}"
    anew = msgspec.structs.replace(leaving, restart=True)
    assert describe_wait(anew, state) == f"the end of {server('e')}, {lead}, {name}"
    assert describe_wait(change(state=TransactionState.COMING), state) == f"the start of {coming}"
    verifying = change(state=TransactionState.VERIFYING, running_at=NOW)
    text = describe_wait(verifying, replica(state, coming, phase=Phase.RUNNING))
    assert text.startswith(f"a step of {lead} that shows that it trains, and a report of ")
    proven = msgspec.structs.replace(
        verifying, witnesses={lead: Witness(incarnation="0001", proven=True)}, running_at=None
    )
    assert describe_wait(proven, state) == "the next look"


def test_what_a_move_waits_for(scene):
    """For room first; no report is waited for beside its step."""
    name = scene.job()
    scene.running(name)
    proposed = scene.move(name, TransactionState.PROPOSED)
    assert describe_wait(proposed, scene.state) == "room on node-1"
    verifying = scene.move(name, TransactionState.VERIFYING, running_at=1020.0)
    assert describe_wait(verifying, scene.state) == f"a step of {name} that shows that it trains"


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (Kind.ADMIT, "admit 3 workers"),
        (Kind.SCALE_OUT, "scale-out 2 -> 3"),
        (Kind.PREEMPT, "preempt"),
        (Kind.PUT_BACK, "put-back"),
    ],
)
def test_what_a_change_does(kind, text):
    """The workers before and after, where their number is what changes; parameter servers are none."""
    assert row_of(change(kind), nodes()).what == text


def test_what_a_move_does(scene):
    """From where to where; of a gang, from which nodes to which."""
    name = scene.job(replicas=2)
    row = row_of(scene.move(name, TransactionState.LEAVING), scene.state)
    assert (row.what, row.replica, row.destination) == ("node-0 -> node-1", name, "node-1")
    back = row_of(scene.move(name, TransactionState.LEAVING, attempt=2), scene.state)
    assert back.destination == "node-0"
    names = [name, name.replace("/0", "/1")]
    gang = Transaction(
        id="move-2",
        kind=Kind.MOVE,
        job="default/mnist",
        before={names[0]: "node-0", names[1]: "node-1"},
        after=dict.fromkeys(names, "node-2"),
        whole=True,
        policy="p",
        reason="why",
        state=TransactionState.LEAVING,
        proposed_at=NOW,
        deadline=NOW,
    )
    row = row_of(gang, scene.state)
    assert (row.what, row.replica, row.label) == ("all 2 replicas: node-0, node-1 -> node-2", None, "mnist")


def test_one_list_has_everything_in_the_order_in_which_it_was_proposed(scene):
    """Requests that wait, what is in flight and what has ended; moves and changes are filters of it."""
    name = scene.job()
    scene.running(name)
    scene.move(name, TransactionState.REFUSED, id="move-1", at=5.0, ended_at=1005.0, note="no room")
    scene.transaction(ended(9, job="mnist", proposed_at=1002.0))
    scene.request(name, at=8.0)
    scene.move(name, TransactionState.COMING, id="move-2", at=7.0)
    rows = rows_of(scene.state)
    assert [row.id for row in rows] == ["change-9", "move-1", "move-2", "request-1"]
    assert [row.id for row in choose_rows(rows, moves=False)] == ["change-9"]
    assert [row.id for row in choose_rows(rows, moves=True, ended=False)] == ["move-2", "request-1"]
    assert choose_rows(rows, namespace="team") == []
    refused, queued = rows[1], rows[3]
    assert (refused.state, refused.ended, refused.succeeded) == ("Refused", True, False)
    assert (queued.state, queued.begun, queued.in_flight, queued.ended) == (QUEUED, False, False, False)
    assert (queued.source, queued.target, queued.awaited) == ("node-0", "node-1", "4 moves are in flight")


def test_a_sentence_says_what_hinders_it(scene):
    """Stuck, going back, waiting: until when, and for what reason."""
    name = scene.job()
    scene.running(name)
    scene.move(name, TransactionState.VERIFYING, attempt=2, stuck="node-1 is silent", note="it crashed")
    (row,) = rows_of(scene.state)
    assert sentence(row) == (
        "move-1 mnist: node-0 -> node-1, Verifying, going back, stuck: node-1 is silent, waits for a step "
        f"of {name} that shows that it trains, until {row.deadline} at most: converged [it crashed]"
    )
    assert sentence(row, named=False).startswith("move-1 node-0 -> node-1, Verifying")


def test_a_gang_that_moved_tells_its_whole_cost(scene):
    """Downtime, no step lost, and who did not end in time."""
    name = scene.job(replicas=2)
    names = (name, name.replace("/0", "/1"))
    way = {"before": on("node-0", *names), "after": on("node-1", *names), "whole": True, "restart": True}
    scene.move(name, TransactionState.SUCCEEDED, **way, killed=names[1:], downtime=3.0, steps_lost=0)
    (row,) = rows_of(scene.state)
    assert sentence(row) == (
        "move-1 mnist: all 2 replicas: node-0 -> node-1, Succeeded: converged (3.0 s of downtime, no step "
        "lost, 1 replica killed)"
    )


def test_news_are_new_states_ways_and_hindrances():
    """Not a new deadline."""
    (row,) = rows_of(changing())
    known = {row.id: row}
    assert news({}, [row]) == [row]
    assert news(known, [msgspec.structs.replace(row, deadline="later", awaited="more")]) == []
    for change_ in ({"state": "Leaving"}, {"attempt": 2}, {"stuck": "why"}):
        assert news(known, [msgspec.structs.replace(row, **change_)])


def test_every_state_has_a_word_of_its_own():
    """In plain English, no two the same."""
    words = [word_of_state(state) for state in (*TransactionState, ASKED, QUEUED)]
    assert len(set(words)) == len(words)
    assert not {*words} & {str(state) for state in TransactionState}
    assert {word_of_state(state) for state in FINAL_STATES} == {
        "succeeded",
        "rolled back",
        "failed",
        "refused",
    }
