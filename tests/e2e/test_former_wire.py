"""Sidecars and manager move jobs though one of them is of version 0.1: pods keep their sidecar for weeks."""

import pytest

from specon_manager.model.transactions import TransactionState
from specon_manager.runtime.journal import NAME, first_difference
from support.local.stage import MOVER, NEIGHBOUR, Stage, check_succeeded, only_move

pytestmark = pytest.mark.processes


def test_a_job_is_moved_over_the_wire_of_version_0_1(stage: Stage):
    """What one of both does not know is left out on the way; no step is lost, and no decision hangs on it."""
    stage.write_move("--forget-on-sigterm")
    manager = stage.manager("--former-wire")
    ended = manager.end
    check_succeeded(ended)
    move = only_move(ended)
    assert move.state is TransactionState.SUCCEEDED, move.note
    assert move.checkpoint is not None
    assert stage.resumes(MOVER) == [move.checkpoint.step]
    stage.check_trained(MOVER, NEIGHBOUR)
    done = next(line["proxy"] for line in manager.told if "proxy" in line)
    assert done["/v1/reports"] > 0
    assert done["/v1/acknowledgements"] > 0
    assert done["left out"] > 0
    assert first_difference(stage.state / NAME)[1] is None
