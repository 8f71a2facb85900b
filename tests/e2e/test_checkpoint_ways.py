"""Moves of trainers that are asked for a checkpoint in no other way than by their own habits."""

import signal

import pytest

from specon_manager.model.transactions import TransactionState
from support.local.stage import MOVER, NEIGHBOUR, Stage, check_succeeded, only_move

pytestmark = pytest.mark.processes


def test_a_trainer_that_saves_now_and_then(stage: Stage):
    """Nothing is asked of a trainer with periodic checkpoints: it is moved right after its next one."""
    stage.write_move(
        "--every", "25", "--ignore-checkpoint-requests", "--forget-on-sigterm", checkpoint="periodic"
    )
    ended = stage.manager().end
    check_succeeded(ended)
    move = only_move(ended)
    assert move.state is TransactionState.SUCCEEDED, move.note
    assert move.checkpoint is not None
    assert stage.resumes(MOVER)[0] >= move.checkpoint.step
    stage.check_trained(MOVER, NEIGHBOUR)
    assert stage.steps_lost(MOVER) >= (move.steps_lost or 0)


def test_a_trainer_that_saves_when_it_is_told_to_end(stage: Stage):
    """What is saved at the end is verified before anything is restored from it, and no step is lost."""
    stage.write_move("--ignore-checkpoint-requests", checkpoint="sigterm")
    ended = stage.manager().end
    check_succeeded(ended)
    move = only_move(ended)
    assert move.state is TransactionState.SUCCEEDED, move.note
    assert move.checkpoint is not None
    assert stage.resumes(MOVER) == [move.checkpoint.step]
    assert stage.steps_lost(MOVER) == move.steps_lost == 0
    stage.check_trained(MOVER, NEIGHBOUR)


def test_a_trainer_that_was_to_save_at_its_end_and_did_not(stage: Stage):
    """Without any checkpoint the job starts again where it was, from its beginning: the move has failed."""
    stage.write_move(
        "--every", "25", "--ignore-checkpoint-requests", "--cut-checkpoints", checkpoint="sigterm"
    )
    ended = stage.manager().end
    check_succeeded(ended)
    move = only_move(ended)
    assert move.state is TransactionState.FAILED
    assert "no verified checkpoint after the end" in move.note
    assert "started from the beginning" in move.note
    assert ended.replicas[move.replica].node == "node-0"
    stage.check_trained(MOVER, NEIGHBOUR)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("state", [TransactionState.LEAVING, TransactionState.COMING])
def test_a_manager_that_is_away_while_the_trainer_saves_and_ends(
    stage: Stage, state: TransactionState, when: str
):
    """If nobody hears of the last checkpoint the job goes on from it all the same."""
    stage.write_move("--ignore-checkpoint-requests", checkpoint="sigterm")
    assert stage.manager("--kill-at", state, "--when", when).wait() == -signal.SIGKILL
    ended = stage.manager().end
    check_succeeded(ended)
    assert only_move(ended).state in {TransactionState.SUCCEEDED, TransactionState.ROLLED_BACK}
    assert stage.steps_lost(MOVER) == 0
    stage.check_trained(MOVER, NEIGHBOUR)
