"""Whole gangs move, with real processes, while managers and workers are killed: never torn, never twice."""

import os
import signal
from collections.abc import Mapping

import pytest

from specon_manager.core.state import State
from specon_manager.model.transactions import Kind, Transaction, TransactionState
from support.local.gang_stage import JOB, change_of, gang, starts, trainer_of
from support.local.stage import NEIGHBOUR, PATIENCE, Stage, check_succeeded

pytestmark = [pytest.mark.processes, pytest.mark.long]

STATES = [
    TransactionState.PROPOSED,
    TransactionState.RESERVED,
    TransactionState.CHECKPOINTING,
    TransactionState.LEAVING,
    TransactionState.COMING,
    TransactionState.VERIFYING,
]
WORKERS = 3


def moving(stage: Stage, *flags: str, deadlines: Mapping[str, float] = PATIENCE, **fields: object) -> None:
    """Write a gang that converges beside a job that does not, while the other node is idle."""
    stage.write_jobs(
        gang(stage, "--restart", *flags, resizing="none", workers=WORKERS, requests={}, **fields),
        {"name": "filler", "command": "true"},  # takes its turn in the round robin
        stage.job(NEIGHBOUR, "--flat"),
        deadlines=deadlines,
    )


def finish(stage: Stage, *flags: str) -> tuple[State, Transaction]:
    """Run a manager to the end: every job succeeds, its state lost no step. Return the end and the move."""
    ended = stage.manager(*flags).end
    check_succeeded(ended)
    stage.check_trained(JOB, NEIGHBOUR)
    return ended, change_of(ended, Kind.MOVE)


def check_moved(stage: Stage, *flags: str) -> None:
    """See that all of it went on from the one checkpoint that was verified for it, each worker once."""
    _, move = finish(stage, *flags)
    assert (move.state, move.whole) == (TransactionState.SUCCEEDED, True), move.note
    assert move.checkpoint is not None
    assert stage.resumes(JOB) == [move.checkpoint.step]
    assert sorted((told["index"], told["start"]) for told in starts(stage)) == [
        (index, start) for index in range(WORKERS) for start in (1, 2)
    ]
    assert {told["workers"] for told in starts(stage)} == {WORKERS}


def test_a_gang_moves_whole(stage: Stage):
    """Its first worker converges, and all of it ends and goes on from that worker's checkpoint."""
    moving(stage)
    check_moved(stage)


def test_a_gang_moves_whole_over_the_wire_of_version_0_1(stage: Stage):
    """A sidecar of then knows of no pause, and a manager of then asks for none."""
    moving(stage)
    check_moved(stage, "--former-wire")


@pytest.mark.parametrize(
    ("state", "when"),
    [
        *((state, "after") for state in STATES),
        (TransactionState.LEAVING, "before"),
        (TransactionState.COMING, "before"),
    ],
)
def test_a_killed_manager_finishes_the_move(stage: Stage, state: TransactionState, when: str):
    """Wherever it is killed, the next one brings all of it to its place; nobody runs twice."""
    moving(stage)
    assert stage.manager("--kill-at", state, "--when", when).wait() == -signal.SIGKILL
    check_moved(stage)


def test_a_gang_that_does_not_save_trains_on(stage: Stage):
    """Nobody of it is ended."""
    moving(stage, "--ignore-checkpoint-requests", deadlines={**PATIENCE, "checkpoint": 10})
    _, move = finish(stage)
    assert move.state is TransactionState.ROLLED_BACK
    assert {told["start"] for told in starts(stage)} == {1}


@pytest.mark.parametrize(
    ("state", "index"),
    [
        (TransactionState.CHECKPOINTING, 0),
        (TransactionState.CHECKPOINTING, 1),
        (TransactionState.LEAVING, 2),
        (TransactionState.COMING, 1),
        (TransactionState.VERIFYING, 0),
        (TransactionState.VERIFYING, 2),
    ],
)
def test_a_worker_that_is_killed_tears_nothing(stage: Stage, state: TransactionState, index: int):
    """With a move under way a worker is killed: all of it ends whole, before or after, and loses no state."""
    moving(stage, restarts=5)
    assert stage.manager("--kill-at", state, "--when", "after").wait() == -signal.SIGKILL
    if (pid := trainer_of(stage, index)) is not None:
        os.kill(pid, signal.SIGKILL)
    _, move = finish(stage)
    assert not move.in_flight


@pytest.mark.parametrize(
    ("state", "index"),
    [
        (TransactionState.CHECKPOINTING, 0),
        (TransactionState.CHECKPOINTING, 2),
        (TransactionState.VERIFYING, 1),
    ],
)
def test_a_sidecar_that_is_killed_tears_nothing(stage: Stage, state: TransactionState, index: int):
    """Its supervisor starts it again, it is asked again, and the gang moves."""
    moving(stage)
    manager = stage.manager()
    stage.eventually(lambda: manager.told_of(state=state))
    stage.eventually(lambda: stage.sidecar(JOB, index) is not None)
    pid = stage.sidecar(JOB, index)
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    check_succeeded(manager.end)
    stage.check_trained(JOB, NEIGHBOUR)
    assert change_of(manager.end, Kind.MOVE).state is TransactionState.SUCCEEDED
