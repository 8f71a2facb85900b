"""Logs that stop, are renamed or are cut while they are followed."""

import shutil
import threading
from pathlib import Path
from typing import Self

import pytest

from specon_manager.model.transactions import TransactionState
from specon_manager.runtime.journal import NAME
from support.local.stage import MOVER, NEIGHBOUR, Stage, check_succeeded, only_move

pytestmark = pytest.mark.processes

REPLICA = f"default/{MOVER}/worker/0"


def test_a_log_that_stops_is_a_stall_and_moves_nothing(stage: Stage):
    """A job that lives but logs nothing is stalled and not moved, although it had converged; it ends well."""
    # Alone on its node it does not ask to move before it falls silent, eight seconds after its start.
    stage.write_jobs(stage.job(MOVER, "--silent-after", "800"))
    manager = stage.manager(hurry=False)
    stage.eventually(lambda: manager.told_of(replica=REPLICA, category="converged"))
    stalled = stage.eventually(lambda: manager.told_of(replica=REPLICA, category="stalled"))
    assert stalled["phase"] == "Running"
    stage.submit_neighbour()
    ticks = ticks_of(stage)
    # The policy is asked again and again, and asks for nothing.
    stage.eventually(lambda: ticks_of(stage) > ticks + 10)
    stage.hurry.touch()
    ended = manager.end
    check_succeeded(ended)
    assert ended.history == ()
    assert not [decision for decision in ended.decisions if decision.proposal.startswith("Migrate")]
    stage.check_trained(MOVER, NEIGHBOUR)


def ticks_of(stage: Stage) -> int:
    """Return how many Ticks the journal has."""
    return (stage.state / NAME).read_bytes().count(b'"type":"Tick"')


class Rotator:
    """Rotates a log every tenth of a second, as long as the context lasts."""

    def __init__(self, log: Path, *, copytruncate: bool) -> None:
        self.count = 0
        self._log = log
        self._copytruncate = copytruncate
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(0.1):
            if not self._log.exists():
                continue
            aside = self._log.with_name(f"{self._log.name}.{10**6 - self.count}")
            if self._copytruncate:
                shutil.copyfile(self._log, aside)
                with self._log.open("r+b") as file:
                    file.truncate()
            else:
                self._log.rename(aside)
            self.count += 1


@pytest.mark.parametrize("copytruncate", [False, True], ids=["rename", "copytruncate"])
def test_a_log_that_is_rotated_all_the_time(stage: Stage, *, copytruncate: bool):
    """However the log is rotated during a move, the resume is proven and nothing is trained twice."""
    stage.write_move()
    log = stage.directory(MOVER) / "train.log"
    with Rotator(log, copytruncate=copytruncate) as rotator:
        ended = stage.manager().end
    assert rotator.count > 5
    check_succeeded(ended)
    move = only_move(ended)
    assert move.state is TransactionState.SUCCEEDED, move.note
    assert move.checkpoint is not None
    assert move.first_step_after is not None
    assert move.first_step_after > move.checkpoint.step
    if not copytruncate:  # which may lose what was written between the copy and the cut
        assert stage.steps_lost(MOVER) == 0
    stage.check_trained(MOVER, NEIGHBOUR)
