"""Elastic jobs with real processes: scaled and preempted, also while managers are killed."""

import json
import os
import signal

import pytest

from specon_manager.model.transactions import Kind, Transaction, TransactionState
from support.local.gang_stage import (
    CAPACITY,
    JOB,
    OTHER,
    SETTINGS,
    change_of,
    gang,
    growing,
    preempted,
    shrinking,
    starts,
)
from support.local.stage import Stage, check_succeeded

pytestmark = [pytest.mark.processes, pytest.mark.long]

STATES = [
    TransactionState.CHECKPOINTING,
    TransactionState.LEAVING,
    TransactionState.COMING,
    TransactionState.VERIFYING,
]


def finish(stage: Stage, kind: Kind) -> Transaction:
    """Run a manager to the end; every job succeeds, no step was lost in the state. Return the change."""
    ended = stage.manager(*CAPACITY).end
    check_succeeded(ended)
    stage.check_trained(JOB)
    return change_of(ended, kind)


def check_resumed(stage: Stage, change: Transaction) -> None:
    """See that it succeeded, and that the job went on from the very checkpoint that was verified for it."""
    assert change.state is TransactionState.SUCCEEDED, change.note
    assert change.checkpoint is not None
    assert stage.resumes(JOB) == [change.checkpoint.step]


def worlds(stage: Stage) -> list[tuple[int, int]]:
    """Return rank and number of workers of each start of a worker, those of one number in order of rank."""
    found = [(told["workers"], told["rank"]) for told in starts(stage) if told["role"] == "worker"]
    numbers = list(dict.fromkeys(workers for workers, _ in found))
    return [(workers, rank) for number in numbers for workers, rank in sorted(found) if workers == number]


def test_a_job_that_starts_anew_grows_from_its_checkpoint(stage: Stage):
    """All workers end, three start, each knows its place, and training goes on from the checkpoint."""
    growing(stage)
    check_resumed(stage, finish(stage, Kind.SCALE_OUT))
    assert worlds(stage) == [(1, 0), (3, 0), (3, 1), (3, 2)]
    for told in starts(stage)[1:]:
        assert told["environment"]["WORLD_SIZE"] == "3"
        assert told["gang"] == " ".join(f"default/{JOB}/worker/{index}" for index in range(3))


def test_workers_of_a_live_job_join_while_it_trains(stage: Stage):
    """The first worker and the parameter server never end."""
    growing(stage, resizing="live", ps=1, ps_requests={"cpu": 0.25})
    change = finish(stage, Kind.SCALE_OUT)
    assert (change.state, change.checkpoint is not None) == (TransactionState.SUCCEEDED, True)
    assert stage.resumes(JOB) == []
    assert [told["start"] for told in starts(stage)] == [1, 1, 1, 1]


@pytest.mark.parametrize("resizing", ["restart", "live"])
def test_a_job_gives_a_worker_to_a_heavier_one(stage: Stage, resizing: str):
    """It trains on with two, from its checkpoint where it started anew, and the other one runs."""
    shrinking(stage, resizing=resizing)
    change = finish(stage, Kind.SCALE_IN)
    stage.check_trained(OTHER)
    assert sorted(change.after) == [f"default/{JOB}/worker/0", f"default/{JOB}/worker/1"]
    if resizing == "restart":
        check_resumed(stage, change)
    else:
        assert (change.state, stage.resumes(JOB)) == (TransactionState.SUCCEEDED, [])


def test_a_preempted_job_goes_on_from_its_checkpoint(stage: Stage):
    """A trial gets its room after a verified checkpoint; afterwards the job runs to its end."""
    preempted(stage)
    change = finish(stage, Kind.PREEMPT)
    check_resumed(stage, change)
    assert change.beneficiary == f"default/{OTHER}"


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("state", STATES)
def test_a_manager_killed_while_a_job_grows(stage: Stage, state: TransactionState, when: str):
    """The next one brings the change to its end: no step is lost, nobody lives twice."""
    growing(stage)
    killed = stage.manager(*CAPACITY, "--kill-at", f"scale-out:{state}", "--when", when)
    assert killed.wait() == -signal.SIGKILL
    check_resumed(stage, finish(stage, Kind.SCALE_OUT))
    assert {told["workers"] for told in starts(stage)} == {1, 3}


@pytest.mark.parametrize(
    "state", [TransactionState.CHECKPOINTING, TransactionState.LEAVING, TransactionState.VERIFYING]
)
def test_a_manager_killed_while_a_live_job_shrinks(stage: Stage, state: TransactionState):
    """The worker that goes is gone once, the others train on as if nothing had happened."""
    shrinking(stage, resizing="live")
    assert stage.manager(*CAPACITY, "--kill-at", f"scale-in:{state}", "--when", "after").wait() < 0
    change = finish(stage, Kind.SCALE_IN)
    assert change.state is TransactionState.SUCCEEDED, change.note
    assert stage.resumes(JOB) == []


@pytest.mark.parametrize("state", [TransactionState.CHECKPOINTING, TransactionState.LEAVING])
def test_a_manager_killed_while_a_job_is_preempted(stage: Stage, state: TransactionState):
    """The victim ends, waits, and goes on from its verified checkpoint."""
    preempted(stage)
    assert stage.manager(*CAPACITY, "--kill-at", f"preempt:{state}", "--when", "after").wait() < 0
    check_resumed(stage, finish(stage, Kind.PREEMPT))


def test_a_victim_without_a_checkpoint_stays(stage: Stage):
    """A trainer that ignores the request keeps its place at the end of its grace period: nothing is lost."""
    preempted(stage, "--ignore-checkpoint-requests", grace_seconds=1)
    change = finish(stage, Kind.PREEMPT)
    assert change.state is TransactionState.ROLLED_BACK
    # The sidecar and the manager both watch the clock: the first to speak ends it.
    assert change.note.startswith(
        ("no checkpoint: no new checkpoint within", "no verified checkpoint in time")
    )
    assert stage.resumes(JOB) == []
    assert [told["start"] for told in starts(stage)] == [1, 1]


@pytest.mark.parametrize("resizing", ["restart", "live"])
def test_a_worker_that_crashes_turns_the_change_back(stage: Stage, resizing: str):
    """The job trains on with the workers that it had before."""
    growing(stage, "--crash-index=2", resizing=resizing)
    change = finish(stage, Kind.SCALE_OUT)
    assert change.state is TransactionState.ROLLED_BACK
    assert "worker/2" in change.note
    assert starts(stage)[-1]["workers"] == (1 if resizing == "restart" else 3)
    assert change.checkpoint is not None
    resumed = set(stage.resumes(JOB))
    assert resumed == ({change.checkpoint.step} if resizing == "restart" else set())


@pytest.mark.parametrize("index", [1, 2])
def test_a_worker_that_is_killed_comes_back_with_its_place(stage: Stage, index: int):
    """It starts beside the others with the rank and the number of workers that it had: they wait for it."""
    stage.write_jobs(gang(stage, resizing="none", workers=3), **SETTINGS)
    manager = stage.manager(*CAPACITY)
    stage.eventually(lambda: stage.log(JOB) and len(starts(stage)) == 3)
    records = stage.state.glob(f"replicas/default.{JOB}.worker.{index}/incarnations/0001/pod.json")
    pid = json.loads(next(records).read_text())["trainer"]["pid"]
    os.kill(pid, signal.SIGKILL)
    stage.eventually(lambda: len(starts(stage)) == 4)
    stage.hurry.touch()
    check_succeeded(manager.end)
    stage.check_trained(JOB)
    first, again = [told for told in starts(stage) if told["index"] == index]
    assert (first["start"], again["start"]) == (1, 2)
    assert (first["rank"], first["workers"]) == (again["rank"], again["workers"]) == (index, 3)


def test_ctrl_c_ends_every_replica(stage: Stage):
    """Nothing of a gang is left when its manager has ended."""
    growing(stage, resizing="live", ps=1, ps_requests={"cpu": 0.25})
    manager = stage.manager(*CAPACITY, hurry=False)
    stage.eventually(lambda: manager.told_of(kind="scale-out", state="Succeeded"))
    assert len(stage.pods()) >= 4
    manager.send(signal.SIGINT)
    assert manager.wait() == 0
    assert stage.pods() == []
