"""A dry run: everything is judged and told, nothing is ordered."""

import msgspec
import pytest

from specon_manager.core.dry_run import describe_proposal
from specon_manager.core.plan import plan
from specon_manager.core.step import step
from specon_manager.model import events as ev
from specon_manager.model.actions import (
    Admit,
    AdmitGang,
    Claim,
    Migrate,
    MigrateGang,
    Preempt,
    Proposal,
    Refusal,
    Reweight,
    ScaleIn,
    ScaleOut,
    Stay,
)
from specon_manager.model.transactions import TransactionState
from support.decisions.gangs import gang, on, with_gang, worker
from support.decisions.told import SETTINGS, registered, state_of

NOW = 1000.0
G, W0, W1 = "default/g", worker("g"), worker("g", 1)
DRY = msgspec.structs.replace(SETTINGS, dry_run=True)
WORDS = {
    "start default/g/worker/0 on node-1": Admit(replica=W0, node="node-1", reason="r"),
    "admit default/g: 2 replicas, 1 on node-0, 1 on node-1": AdmitGang(
        job=G, placement={W0: "node-0", W1: "node-1"}, reason="r"
    ),
    "scale out default/g: 1 replica, 1 on node-1": ScaleOut(job=G, placement={W1: "node-1"}, reason="r"),
    "scale in default/g: end default/g/worker/1": ScaleIn(job=G, replicas=(W1,), reason="r"),
    "preempt default/g": Preempt(job=G, reason="r"),
    "preempt default/g for default/t": Preempt(job=G, reason="r", beneficiary="default/t"),
    "keep room for default/g: 1 replica, 1 on node-1": Claim(job=G, placement={W0: "node-1"}, reason="r"),
    "give up the room that is kept for default/g": Claim(job=G, placement={}, reason="r"),
    "move default/g/worker/0 to node-1": Migrate(replica=W0, target="node-1", purpose="p", reason="r"),
    "move all of default/g: 2 replicas, 2 on node-1": MigrateGang(
        job=G, placement=on("node-1", W0, W1), purpose="p", reason="r"
    ),
    "give default/g/worker/0 the weight 0.5": Reweight(replica=W0, weight=0.5, reason="r"),
    "leave default/g/worker/0 where it is": Stay(replica=W0, purpose="p", reason="r"),
}


@pytest.mark.parametrize("words", list(WORDS))
def test_every_proposal_has_words(words):
    """What would be ordered can be read."""
    assert describe_proposal(WORDS[words]) == words


def test_no_kind_of_proposal_is_without_words():
    """A new kind needs a case."""
    assert {type(proposal) for proposal in WORDS.values()} == set(Proposal.__args__)


def test_what_would_be_accepted_is_told_and_not_ordered():
    """Once, and again when it is something else; the records stay as they are."""
    state = with_gang(state_of(DRY), gang("g", 2, ps=0, fewest=1), {})
    proposals = [AdmitGang(job=G, placement=on("node-0", W0), reason="room")]
    with registered(lambda _snapshot, _settings: proposals):
        state, actions = step(state, ev.Tick(), NOW)
        told = state.verdicts[G]
        assert actions == []
        assert told.refusal is Refusal.DRY_RUN
        assert told.reason == "would be ordered: admit default/g: 1 replica, 1 on node-0 (room)"
        state, _ = step(state, ev.Tick(), NOW + 1)
        assert state.verdicts[G] is told
        proposals[:] = [Claim(job=G, placement=on("node-0", W0), reason="soon")]
        state, _ = step(state, ev.Tick(), NOW + 2)
    assert "keep room for default/g" in state.verdicts[G].reason
    assert state.claims == {}
    assert state.replicas[W0].phase == "Pending"


def test_what_would_be_refused_is_refused_as_ever():
    """And what comes after an accepted proposal is judged as if that were carried out."""
    state = with_gang(with_gang(state_of(DRY), gang("g", 2, ps=0), {}), gang("h", 4, ps=0), {})
    other = on("node-0", *(worker("h", index) for index in range(4)))
    proposals = [
        AdmitGang(job=G, placement=on("node-0", W0, W1), reason="room"),
        AdmitGang(job="default/h", placement=other, reason="room"),
    ]
    refusals = [verdict.objection.refusal for verdict in plan(state, proposals, NOW)]
    assert refusals == [Refusal.DRY_RUN, Refusal.NO_ROOM]


def test_a_move_that_a_person_asks_for_is_answered_in_the_same_words():
    """Nothing is in flight; the answer stands in the history."""
    state = with_gang(state_of(DRY), gang("g", 1, ps=0), on("node-0", W0))
    running = state.replicas[W0]
    progress = msgspec.structs.replace(running.progress, step=5)
    state = state.with_replica(msgspec.structs.replace(running, progress=progress))
    state, actions = step(state, ev.MoveRequested(id="m", replica=W0), NOW)
    (move,) = state.history
    assert (actions, state.transactions, move.state) == ([], {}, TransactionState.REFUSED)
    assert move.note == "would be ordered: move default/g/worker/0 to node-1 (it was asked for)"
