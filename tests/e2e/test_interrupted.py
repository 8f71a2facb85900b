"""The commands are interrupted or killed: what is left running, and what is not."""

import signal
import socket

import pytest

from specon_manager.runtime.state_directory import read_address
from support.local.stage import MOVER, Running, Stage

pytestmark = pytest.mark.processes

BUSY = 2
INTERRUPTED = 130


def training(stage: Stage, *arguments: str) -> Running:
    """Start a command on a job that does not end by itself soon; return once it trains and is watched."""
    stage.write_jobs(stage.job(MOVER, "--flat", "--every", "10"))
    running = stage.specon(*arguments)
    stage.eventually(lambda: list(stage.folder.rglob("checkpoints/step-*")))
    stage.eventually(lambda: stage.sidecar(MOVER))
    assert len(stage.pods()) == 3  # supervisor, trainer, sidecar
    return running


def local(stage: Stage) -> Running:
    return training(stage, "local", "jobs.yaml", "--state", "state", "--nodes", "1")


def demo(stage: Stage) -> Running:
    return training(stage, "demo", "--jobs", "jobs.yaml", "--nodes", "1")


@pytest.mark.parametrize("start", [local, demo])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_command_leaves_nothing_behind(stage: Stage, start, number: signal.Signals):
    """Ctrl-C ends every process within seconds, and the exit status says so."""
    running = start(stage)
    running.send(number)
    assert running.wait(10) == INTERRUPTED
    assert stage.processes() == []
    assert "interrupted" in running.errors


def test_a_killed_demo_takes_its_training_with_it(stage: Stage):
    """A killed `specon demo` ends its training processes too."""
    running = demo(stage)
    running.send(signal.SIGKILL)
    assert running.wait() == -signal.SIGKILL
    stage.eventually(lambda: stage.processes() == [], 10)


def test_training_outlives_a_killed_local_manager(stage: Stage):
    """A killed `specon local` stops no training; the next start takes it up as it is."""
    running = local(stage)
    pods = set(stage.pods())
    running.send(signal.SIGKILL)
    assert running.wait() == -signal.SIGKILL
    step = stage.steps_done(MOVER)
    stage.eventually(lambda: stage.steps_done(MOVER) > step + 10)
    following = stage.specon("local", "jobs.yaml", "--state", "state", "--nodes", "1")
    stage.eventually(lambda: "running" in explained(stage))
    assert set(stage.pods()) == pods
    stage.hurry.touch()
    assert following.wait() == 0, following.errors
    assert stage.resumes(MOVER) == []
    stage.check_trained(MOVER)


def test_leave_running_stops_only_the_manager(stage: Stage):
    """With --leave-running Ctrl-C ends the manager alone, and the next start takes the training up."""
    flags = ("local", "jobs.yaml", "--state", "state", "--nodes", "1")
    running = training(stage, *flags, "--leave-running")
    pods = set(stage.pods())
    running.send(signal.SIGINT)
    assert running.wait(10) == INTERRUPTED
    assert set(stage.pods()) == pods
    following = stage.specon(*flags)
    stage.hurry.touch()
    assert following.wait() == 0, following.errors
    assert stage.resumes(MOVER) == []
    stage.check_trained(MOVER)


def test_an_interrupted_run_is_gone_on_with(stage: Stage):
    """After Ctrl-C the next start goes on from the checkpoints, and it counts as no crash."""
    running = local(stage)
    running.send(signal.SIGINT)
    assert running.wait(10) == INTERRUPTED
    stage.hurry.touch()
    following = stage.run_specon("local", "jobs.yaml", "--state", "state", "--nodes", "1", "--plain")
    assert following.code == 0, following.errors
    assert "crash" not in following.output
    assert stage.resumes(MOVER)
    assert stage.steps_lost(MOVER) == 0
    stage.check_trained(MOVER)


def test_a_run_whose_port_somebody_took_meanwhile_is_gone_on_with(stage: Stage):
    """Nothing runs that would report there, so that any other port will do."""
    running = local(stage)
    running.send(signal.SIGINT)
    assert running.wait(10) == INTERRUPTED
    former = read_address(stage.state)
    assert former is not None
    stage.hurry.touch()
    with socket.create_server(("127.0.0.1", former.port)):
        following = stage.run_specon("local", "jobs.yaml", "--state", "state", "--nodes", "1", "--plain")
    assert following.code == 0, following.errors
    assert stage.resumes(MOVER)
    stage.check_trained(MOVER)


def test_a_second_manager_is_refused(stage: Stage):
    """Two managers never share a directory: the second ends with 2 and names the first."""
    running = local(stage)
    second = stage.run_specon("local", "jobs.yaml", "--state", "state", "--nodes", "1")
    assert second.code == BUSY
    assert f"in use by manager {running.pid} at http://127.0.0.1:" in second.errors
    assert running.code is None
    assert len(stage.pods()) == 3


def explained(stage: Stage) -> str:
    return stage.run_specon("explain", "--state", "state", MOVER).output.lower()
