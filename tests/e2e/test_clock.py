"""Wall clocks that jump: deadlines do not fire wrongly, and time never goes back."""

import signal

import pytest

from specon_manager.model.transactions import TransactionState
from specon_manager.runtime.journal import NAME, StepLine, read
from support.local.stage import MOVER, NEIGHBOUR, Stage, check_succeeded, only_move

pytestmark = pytest.mark.processes

HOUR = 3600.0


def times(stage: Stage) -> list[float]:
    return [line.now for _, line in read(stage.state / NAME) if isinstance(line, StepLine)]


def check_moved(stage: Stage, *flags: str) -> None:
    ended = stage.manager(*flags).end
    check_succeeded(ended)
    move = only_move(ended)
    assert move.state is TransactionState.SUCCEEDED, move.note
    assert ended.replicas[move.replica].crashes == 0
    assert times(stage) == sorted(times(stage))
    stage.check_trained(MOVER, NEIGHBOUR)


def test_a_wall_clock_that_jumps_while_the_manager_runs(stage: Stage):
    """Each look at the wall clock shows another hour: the manager does not notice."""
    stage.write_move()
    check_moved(stage, "--wall-jump", str(HOUR))


@pytest.mark.parametrize("offset", [-HOUR, HOUR], ids=["back", "ahead"])
@pytest.mark.parametrize("state", [TransactionState.CHECKPOINTING, TransactionState.VERIFYING])
def test_a_wall_clock_that_jumps_while_no_manager_runs(stage: Stage, state: TransactionState, offset: float):
    """A manager that finds the clock an hour off goes on with the move; no deadline has passed."""
    stage.write_move()
    assert stage.manager("--kill-at", state, "--when", "after").wait() == -signal.SIGKILL
    before = times(stage)[-1]
    check_moved(stage, "--wall-offset", str(offset))
    went_on = min(time for time in times(stage) if time > before)
    if offset < 0:
        assert went_on - before < HOUR / 2
    else:
        assert went_on - before > HOUR / 2
