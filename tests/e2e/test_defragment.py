"""Real trainers that are moved so that a job which waits has room."""

import pytest

from specon_manager.model.transactions import TransactionState
from support.local.stage import Stage, check_succeeded, only_move

pytestmark = pytest.mark.processes


def test_two_halves_become_a_whole(stage: Stage):
    """Half of each node is free once `short` has ended; one trainer goes to the other, and `whole` starts."""
    half = {"requests": {"cpu": 0.5}}
    stage.write_jobs(
        {"name": "short", "command": "sleep 2", **half, "migrate": False},
        stage.job("left", "--flat", **half),
        stage.job("right", "--flat", **half),
        stage.job("whole", "--flat", requests={"cpu": 1.0}),
        policy="fifo",
        parameters={},
        defragment="on",
    )
    ended = stage.manager("--capacity", "1").end
    check_succeeded(ended)
    move = only_move(ended)
    assert (move.state, move.policy, move.beneficiary) == (
        TransactionState.SUCCEEDED,
        "defragment",
        "default/whole",
    )
    stage.check_trained("left", "right", "whole")
