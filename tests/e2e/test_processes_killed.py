"""Trainers and sidecars are killed, and come back."""

import os
import signal

import pytest

from specon_manager.model.cluster import Phase
from specon_manager.model.transactions import TransactionState
from support.local.stage import MOVER, NEIGHBOUR, Running, Stage, check_succeeded, only_move

pytestmark = pytest.mark.processes

NAME = f"default/{MOVER}/worker/0"


def category(running: Running) -> str | None:
    return next((line["category"] for line in reversed(running.told) if line.get("replica") == NAME), None)


def test_a_killed_trainer_goes_on_from_its_checkpoint(stage: Stage):
    """A trainer that was killed is started again, resumes, and the crash is counted."""
    stage.write_jobs(stage.job(MOVER, "--every", "20"))
    manager = stage.manager(hurry=False)
    stage.eventually(lambda: "checkpoint saved step=40" in stage.log(MOVER))
    os.kill(stage.pod(MOVER, "trainer"), signal.SIGKILL)
    stage.eventually(lambda: stage.resumes(MOVER))
    stage.hurry.touch()
    ended = manager.end
    check_succeeded(ended)
    assert ended.replicas[NAME].crashes == 1
    assert "signal 9" in ended.replicas[NAME].note
    assert stage.steps_lost(MOVER) < 20 + 1
    stage.check_trained(MOVER)


def test_a_trainer_that_always_crashes_is_given_up(stage: Stage):
    """A job whose crashes exceed its owner's patience has failed, and the others go on."""
    stage.write_jobs(
        stage.job(MOVER, "--every", "20", "--crash-at", "50", restarts=2), stage.job(NEIGHBOUR, "--flat")
    )
    manager = stage.manager(hurry=False)
    stage.eventually(lambda: manager.told_of(replica=NAME, phase=Phase.FAILED))
    stage.hurry.touch()
    ended = manager.end
    assert ended.replicas[NAME].crashes == 3
    assert "signal 6" in ended.replicas[NAME].note
    assert stage.resumes(MOVER) == [40, 40]
    assert ended.replicas[f"default/{NEIGHBOUR}/worker/0"].phase is Phase.SUCCEEDED
    stage.check_trained(NEIGHBOUR)


def test_a_killed_sidecar_takes_up_where_it_was(stage: Stage):
    """The sidecar comes back with the same category, trains nothing anew, and the move still works."""
    # Alone on its node the mover does not ask to move; its neighbour is submitted later.
    stage.write_jobs(stage.job(MOVER))
    manager = stage.manager(hurry=False)
    stage.eventually(lambda: category(manager) == "converged")
    # Far enough for a machine under load to stretch an interval to many.
    stage.eventually(lambda: stage.steps_done(MOVER) > 200)
    converged = manager.told[-1]
    killed = stage.sidecar(MOVER)
    assert killed is not None
    os.kill(killed, signal.SIGKILL)
    stage.eventually(lambda: manager.told[-1]["session"] != converged["session"])
    # Some intervals of the new one, for what it reads first is all that it missed.
    step = stage.steps_done(MOVER)
    stage.eventually(lambda: stage.steps_done(MOVER) > step + 50)
    since = manager.told[manager.told.index(converged) :]
    assert {line["category"] for line in since} == {"converged"}
    assert {line["incarnation"] for line in since} == {converged["incarnation"]}
    stage.submit_neighbour()
    stage.eventually(lambda: manager.told_of(state=TransactionState.SUCCEEDED))
    stage.hurry.touch()
    ended = manager.end
    check_succeeded(ended)
    assert only_move(ended).replica == NAME
    stage.check_trained(MOVER, NEIGHBOUR)


def test_a_sidecar_killed_in_a_move_does_not_stop_it(stage: Stage):
    """A sidecar that is killed while a checkpoint is asked for is asked again, and the move succeeds."""
    stage.write_move()
    manager = stage.manager()
    stage.eventually(lambda: manager.told_of(state=TransactionState.CHECKPOINTING))
    os.kill(stage.sidecar(MOVER) or 0, signal.SIGKILL)
    ended = manager.end
    check_succeeded(ended)
    assert only_move(ended).state is TransactionState.SUCCEEDED
    stage.check_trained(MOVER, NEIGHBOUR)


def test_a_killed_supervisor_takes_its_pod_with_it(stage: Stage):
    """When the supervisor is killed no process of the pod is left, and the job starts again."""
    stage.write_jobs(stage.job(MOVER, "--every", "20"))
    manager = stage.manager(hurry=False)
    stage.eventually(lambda: "checkpoint saved step=40" in stage.log(MOVER))
    before = stage.pods()
    os.kill(stage.pod(MOVER, "supervisor"), signal.SIGKILL)
    stage.eventually(lambda: stage.resumes(MOVER))
    assert not set(before) & set(stage.pods())
    stage.hurry.touch()
    ended = manager.end
    check_succeeded(ended)
    assert ended.replicas[NAME].crashes == 1
    stage.check_trained(MOVER)
