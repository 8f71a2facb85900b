"""Half of what sidecars and manager say is lost, doubled, late, repeated or malformed."""

import pytest

from specon_manager.model.transactions import TransactionState
from specon_manager.runtime.journal import NAME, first_difference
from support.local.proxy import HARMS
from support.local.stage import MOVER, NEIGHBOUR, Stage, check_succeeded, only_move

pytestmark = pytest.mark.processes


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_messages_that_do_not_arrive_as_they_were_sent(stage: Stage, seed: int):
    """Jobs still move and end, no step is lost, and the decisions can be replayed."""
    stage.write_move("--forget-on-sigterm")
    manager = stage.manager("--proxy-seed", str(seed))
    ended = manager.end
    check_succeeded(ended)
    move = only_move(ended)
    assert move.state is TransactionState.SUCCEEDED, move.note
    assert move.checkpoint is not None
    assert stage.resumes(MOVER) == [move.checkpoint.step]
    stage.check_trained(MOVER, NEIGHBOUR)
    done = next(line["proxy"] for line in manager.told if "proxy" in line)
    assert set(HARMS) == done.keys()
    assert first_difference(stage.state / NAME)[1] is None
