"""What was answered with success survives the manager, be it killed in the next instant."""

import os
import signal

import pytest

from specon_manager.runtime.journal import NAME, recover
from support.local.owner_http import SECONDS, ask, manager_of
from support.local.stage import MOVER, Stage

pytestmark = [pytest.mark.processes, pytest.mark.long]

KILLS = 20


@pytest.mark.timeout(600)
def test_a_job_survives_a_kill_right_after_its_201(stage: Stage):
    """Submitted, killed, started again: the job is there, twenty times of twenty."""
    # Something lasts: a manager without open jobs ends by itself, perhaps before it is asked.
    stage.write_jobs({"name": "first", "command": "sleep 600"})
    names: list[str] = []
    for number in range(KILLS):
        running = stage.manager(hurry=False)
        manager = manager_of(stage, running)
        if names:
            status, state = ask("GET", "/v1/state", manager)
            assert status == 200
            assert names[-1] in state["jobs"]
        job = {"name": f"job-{number}", "command": "true"}
        status, said = ask("POST", "/v1/jobs", manager, job, kill=running.pid)
        assert (status, said) == (201, {"job": f"default/job-{number}"})
        assert running.wait(SECONDS) == -signal.SIGKILL
        names.append(f"default/job-{number}")
    recovered = recover(stage.state / NAME)
    assert recovered is not None
    assert recovered.state.jobs.keys() >= set(names)


@pytest.mark.timeout(300)
def test_a_pause_and_a_move_survive_a_kill_right_after_their_answer(stage: Stage):
    """What the owner was told holds for the next manager too."""
    stage.write_move(settings={"policy": "round-robin", "parameters": {}})
    for number in range(5):
        running = stage.manager(hurry=False)
        manager = manager_of(stage, running)
        path, body = ("/v1/pause", {"reason": f"reason {number}"})
        assert ask("POST", path, manager, body, kill=running.pid)[0] == 200
        assert running.wait(SECONDS) == -signal.SIGKILL
        recovered = recover(stage.state / NAME)
        assert recovered is not None
        assert recovered.state.pause is not None
        assert recovered.state.pause.reason == f"reason {number}"
    running = stage.manager(hurry=False)
    manager = manager_of(stage, running)
    assert ask("DELETE", "/v1/pause", manager)[0] == 200
    stage.eventually(lambda: stage.steps_done(MOVER) > 20, SECONDS)

    def is_heard() -> bool:
        """Whether a resume could be proven: a request waits ten seconds for that."""
        state = ask("GET", "/v1/state", manager)[1]
        return state["replicas"][f"default/{MOVER}/worker/0"]["progress"]["step"] is not None

    stage.eventually(is_heard, SECONDS)
    # Under one id it is asked for once.
    body = {"replica": f"default/{MOVER}/worker/0", "id": "once"}

    def begun() -> str | None:
        status, said = ask("POST", "/v1/moves", manager, body)
        return str(said["move"]) if status == 201 else None

    move = stage.eventually(begun, SECONDS)
    os.kill(running.pid, signal.SIGKILL)
    recovered = recover(stage.state / NAME)
    assert recovered is not None
    found = [*recovered.state.transactions.values(), *recovered.state.history]
    assert move in [each.id for each in found]


def test_submit_returns_when_the_job_is_on_record(stage: Stage):
    """`specon submit`, then a kill: the job is there."""
    stage.write_jobs({"name": "first", "command": "true"}, stage.job(MOVER, "--flat"))
    running = stage.manager(hurry=False)
    manager_of(stage, running)
    submitted = stage.run_specon("submit", "--state", str(stage.state), "--name", "late", "--", "true")
    os.kill(running.pid, signal.SIGKILL)
    assert (submitted.code, submitted.output) == (0, "submitted default/late\n"), submitted.errors
    recovered = recover(stage.state / NAME)
    assert recovered is not None
    assert "default/late" in recovered.state.jobs
