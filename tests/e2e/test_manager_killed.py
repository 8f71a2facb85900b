"""The manager is killed in every state of a move, before and after its journal line is on disk."""

import signal

import pytest

from specon_manager.model.transactions import Transaction, TransactionState
from specon_manager.runtime.journal import NAME, recover
from support.local.stage import MOVER, NEIGHBOUR, PATIENCE, Stage, check_succeeded, only_move

pytestmark = [pytest.mark.processes, pytest.mark.long]

STATES = [
    TransactionState.PROPOSED,
    TransactionState.RESERVED,
    TransactionState.CHECKPOINTING,
    TransactionState.LEAVING,
    TransactionState.COMING,
    TransactionState.VERIFYING,
]


def on_disk(stage: Stage) -> Transaction | None:
    """Return the move as the journal has it."""
    recovered = recover(stage.state / NAME)
    assert recovered is not None
    return next(iter(recovered.state.transactions.values()), None)


def check_moved(stage: Stage) -> None:
    """Run a manager to the end; the move succeeds from its checkpoint and no step is lost."""
    ended = stage.manager().end
    check_succeeded(ended)
    move = only_move(ended)
    assert move.state is TransactionState.SUCCEEDED, move.note
    assert move.checkpoint is not None
    assert stage.resumes(MOVER) == [move.checkpoint.step]
    # What was trained between the last report and the end is lost, and the manager cannot know it.
    assert (move.steps_lost or 0) <= stage.steps_lost(MOVER)
    assert stage.resumes(NEIGHBOUR) == []
    stage.check_trained(MOVER, NEIGHBOUR)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("state", STATES)
def test_a_killed_manager_finishes_the_move(stage: Stage, state: TransactionState, when: str):
    """Wherever it is killed, the next manager brings the move to its end, and no step is lost."""
    # A trainer that saves when told to end would hide a restore from anything else than the checkpoint.
    stage.write_move("--forget-on-sigterm")
    assert stage.manager("--kill-at", state, "--when", when).wait() == -signal.SIGKILL
    left = on_disk(stage)
    if when == "after":
        assert left is not None
        assert STATES.index(left.state) >= STATES.index(state)
    elif state is TransactionState.PROPOSED:
        assert left is None
    else:
        assert left is not None
        assert STATES.index(left.state) < STATES.index(state)
    check_moved(stage)


def test_managers_that_are_killed_again_and_again_finish_the_move(stage: Stage):
    """A move gets through although one manager after the other is killed, each in a later state."""
    stage.write_move("--forget-on-sigterm", settings={"deadlines": PATIENCE})
    for state in STATES:
        # A request that the sidecar has already is not handed out again: its answer leads on from Reserved.
        if state is not TransactionState.CHECKPOINTING:
            assert stage.manager("--kill-at", state).wait() == -signal.SIGKILL
    check_moved(stage)
