"""Jobs share nodes in turns: what a killed manager, a move and an end find when half are stopped."""

import signal
import time
from collections.abc import Mapping

import pytest

from specon_manager.__main__ import main
from specon_manager.backends.local.share_files import STOPPED_FILE
from specon_manager.backends.local.supervise import read_stat
from specon_manager.model.cluster import Replica
from specon_manager.model.transactions import TransactionState
from specon_manager.runtime.journal import NAME, recover
from support.local.stage import Stage

pytestmark = pytest.mark.processes

JOBS = ("one", "two", "three", "four")
BOUND = 5.0
"""Seconds after the end of a manager within which everything runs."""


def stopped(stage: Stage) -> list[str]:
    """Return the jobs whose trainer is stopped now."""
    return [job for job in JOBS if read_stat(stage.pod(job, "trainer"))[0] == "T"]


def replicas(stage: Stage) -> Mapping[str, Replica]:
    """Return what is on disk about them."""
    recovered = recover(stage.state / NAME)
    assert recovered is not None
    return recovered.state.replicas


@pytest.fixture
def shared(stage: Stage) -> Stage:
    """Start four jobs on two nodes; at nearly any time half of the jobs are stopped."""
    long = ("--flat", "--steps", "1000000", "--step-seconds", "0.02")
    stage.write_jobs(
        *(stage.job(job, *long) for job in JOBS), policy="progress", parameters={"probe_seconds": 1.0}
    )
    return stage


def begin(shared: Stage):
    manager = shared.manager("--capacity", "1", hurry=False)
    shared.eventually(
        lambda: all(list(shared.directory(job).glob("incarnations/*/pod.json")) for job in JOBS)
    )
    shared.eventually(lambda: all(shared.steps_done(job) for job in JOBS))
    shared.eventually(lambda: len(stopped(shared)) >= 2)
    return manager


def test_a_killed_manager_leaves_nothing_stopped(shared: Stage):
    """Half of the jobs are stopped: all run within 5 s of kill -9, are not stopped again, and train on."""
    manager = begin(shared)
    manager.send(signal.SIGKILL)
    manager.wait()
    time.sleep(BOUND)
    before = {job: shared.steps_done(job) for job in JOBS}
    quiet = time.monotonic() + 1.5
    while time.monotonic() < quiet:
        assert not stopped(shared)
        time.sleep(0.01)
    assert all(shared.steps_done(job) > before[job] for job in JOBS)


def test_the_next_manager_shares_again(shared: Stage):
    """It knows the weights from its journal and takes the pods up; its end in order lets all run."""
    begin(shared).send(signal.SIGKILL)
    shared.eventually(lambda: not stopped(shared), BOUND)
    manager = shared.manager("--capacity", "1", hurry=False)
    shared.eventually(lambda: len(stopped(shared)) >= 2)
    manager.send(signal.SIGKILL)
    assert sorted(each.weight for each in replicas(shared).values()) == [0.02, 0.02, 1.0, 1.0]


def test_a_stopped_job_is_moved_as_if_it_ran(shared: Stage, capsys):
    """The request for a checkpoint and the end find it running, and the move is proven in no time."""
    begin(shared)
    shared.eventually(lambda: all(each.progress.step for each in replicas(shared).values()))
    job = shared.eventually(lambda: stopped(shared))[0]
    node = replicas(shared)[f"default/{job}/worker/0"].node
    target = "node-1" if node == "node-0" else "node-0"
    asked = time.monotonic()
    assert (
        main(["migrate", f"default/{job}/worker/0", "--to", target, "--wait", "--state", str(shared.state)])
        == 0
    )
    assert time.monotonic() - asked < BOUND, capsys.readouterr()
    recovered = recover(shared.state / NAME)
    assert recovered is not None
    assert [each.state for each in recovered.state.history][-1] is TransactionState.SUCCEEDED


def test_stopped_jobs_end_in_order(shared: Stage):
    """Ctrl-C ends all of them at once, each by SIGTERM, and nothing is left."""
    manager = begin(shared)
    manager.send(signal.SIGINT)
    asked = time.monotonic()
    manager.wait()
    assert time.monotonic() - asked < BOUND
    assert not shared.pods()
    assert all("stopped at step" in shared.log(job) for job in JOBS)


def test_a_sidecar_counts_what_its_trainer_was_stopped(shared: Stage):
    """The account of the supervisor reaches the manager's record."""
    begin(shared)
    time.sleep(2)
    accounts = list(shared.state.glob(f"replicas/*/incarnations/*/{STOPPED_FILE}"))
    assert len(accounts) >= 2
    assert sum(each.progress.stopped > 0.5 for each in replicas(shared).values()) >= 2


def test_a_job_file_may_forbid_stops(stage: Stage):
    """With `reweight: false` nobody is ever stopped."""
    long = ("--flat", "--steps", "1000000")
    stage.write_jobs(
        *(stage.job(job, *long) for job in JOBS), policy="progress", parameters={}, reweight=False
    )
    stage.manager("--capacity", "1", hurry=False)
    stage.eventually(lambda: all(stage.steps_done(job) > 50 for job in JOBS if stage.directory(job).exists()))
    assert not list(stage.state.glob(f"replicas/*/incarnations/*/{STOPPED_FILE}"))
