"""A gang of real processes that is spread is brought together, once measured paces say that this pays."""

import os

import pytest

from specon_manager.model.transactions import Kind, TransactionState
from support.local.gang_stage import change_of, gang
from support.local.stage import Stage, check_succeeded

pytestmark = [
    pytest.mark.processes,
    pytest.mark.skipif(
        len(os.sched_getaffinity(0)) < 2,
        reason="virtual nodes have the same processor where there is one only: needs two",
    ),
]

COMPACT, SPREAD = "compact", "spread"


def test_a_gang_moves_to_one_node_where_its_kind_was_measured_to_be_faster(stage: Stage):
    """Its own pace is that of two nodes, the other gang of its kind shows that of one."""
    quarter = {"requests": {"cpu": 0.25}}
    of_a_kind = {"kind": "digits", "resizing": "none", "workers": 2, **quarter}
    slow_apart = ("--exchange-seconds", "0.1")
    stage.write_jobs(
        gang(stage, *slow_apart, name=COMPACT, **of_a_kind),
        {"name": "long", "command": "sleep 8", "migrate": False, "requests": {"cpu": 0.75}},
        {"name": "small", "command": f"sh -c 'until [ -e {stage.hurry} ]; do sleep 0.1; done'", **quarter},
        gang(stage, *slow_apart, name=SPREAD, submit_at=0.5, **of_a_kind),
        policy="fifo",
        parameters={},
        defragment="on",
    )
    ended = stage.manager("--capacity", "1", "--apart").end
    check_succeeded(ended)
    stage.check_trained(COMPACT, SPREAD)
    move = change_of(ended, Kind.MOVE, SPREAD)
    assert (move.state, move.purpose, move.whole) == (TransactionState.SUCCEEDED, "faster", True), move.note
    assert (len({*move.before.values()}), len({*move.after.values()})) == (2, 1)
