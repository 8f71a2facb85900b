"""A manager of today comes after one of version 0.1, whose journal is all that it left beside what runs."""

import json
import signal

import msgspec
import pytest

from specon_manager.model.transactions import TransactionState
from specon_manager.runtime.journal import NAME, recover
from specon_manager.runtime.journal_line import SCHEMA
from support.local.gang_stage import CAPACITY, JOB, growing
from support.local.stage import MOVER, NEIGHBOUR, Stage, check_succeeded

pytestmark = pytest.mark.processes


def as_of_version_0_1(stage: Stage) -> None:
    """Let the journal be as version 0.1 wrote it: another schema, and no checksums."""
    path = stage.state / NAME
    lines = [json.loads(line) for line in path.read_bytes().splitlines()]
    for line in lines:
        del line["crc"]
    lines[0] |= {"schema": 1, "version": "0.1.0"}
    path.write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))


def check_new_journal(stage: Stage) -> None:
    """See that the journal is of today and replays; the former one is kept, and says what it is."""
    recovered = recover(stage.state / NAME)
    assert recovered is not None
    assert recovered.schema == SCHEMA
    replayed = stage.run_specon("replay", str(stage.state))
    assert (replayed.code, replayed.errors) == (0, "")
    former = stage.run_specon("replay", str(stage.state / f"{NAME}.1"))
    assert former.code == 2
    assert "a manager of version 0.1" in former.errors


@pytest.mark.parametrize(
    "state",
    [
        TransactionState.CHECKPOINTING,
        TransactionState.LEAVING,
        TransactionState.COMING,
        TransactionState.VERIFYING,
    ],
)
def test_jobs_of_yesterday_go_on_whatever_was_in_flight(stage: Stage, state: TransactionState):
    """What runs is taken over or goes on from its checkpoint; no step is lost, and nothing lives twice."""
    stage.write_move("--forget-on-sigterm")
    assert stage.manager("--kill-at", state, "--when", "after").wait() == -signal.SIGKILL
    as_of_version_0_1(stage)
    stage.hurry.touch()
    ended = stage.manager().end
    check_succeeded(ended)
    stage.check_trained(MOVER, NEIGHBOUR)
    assert stage.resumes(NEIGHBOUR) == []
    assert stage.steps_lost(NEIGHBOUR) == 0
    check_new_journal(stage)


def test_what_only_runs_is_taken_over_without_a_step_lost(stage: Stage):
    """No process of it is ended or started again."""
    stage.write_jobs(stage.job(MOVER), stage.job(NEIGHBOUR, "--flat"), policy="round-robin", parameters={})
    manager = stage.manager(hurry=False)
    stage.eventually(lambda: min(map(stage.steps_done, (MOVER, NEIGHBOUR))) > 20)
    manager.send(signal.SIGKILL)
    manager.wait()
    as_of_version_0_1(stage)
    stage.hurry.touch()
    ended = stage.manager().end
    check_succeeded(ended)
    assert [replica.starts for replica in ended.replicas.values()] == [1, 1]
    stage.check_trained(MOVER, NEIGHBOUR)
    check_new_journal(stage)


@pytest.mark.parametrize(
    "state", [TransactionState.LEAVING, TransactionState.COMING, TransactionState.VERIFYING]
)
def test_a_gang_of_yesterday_goes_on_whatever_was_in_flight(stage: Stage, state: TransactionState):
    """A gang that was about to start anew with more workers trains on from its checkpoint, as one."""
    growing(stage)
    killed = stage.manager(*CAPACITY, "--kill-at", f"scale-out:{state}", "--when", "after")
    assert killed.wait() == -signal.SIGKILL
    as_of_version_0_1(stage)
    stage.hurry.touch()
    check_succeeded(stage.manager(*CAPACITY).end)
    stage.check_trained(JOB)
    check_new_journal(stage)
