"""A trainer that waits for ever is found, and trains again from its last checkpoint."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from support.local import hanging_trainer

pytestmark = [pytest.mark.processes, pytest.mark.long]

COMMAND = (
    *("{python}", hanging_trainer.__file__, "--checkpoints", "{checkpoint_path}"),
    *("--shared", "{job_directory}", "--rank", "{rank}", "--start", "{start}"),
)
JOBS = {
    "policy": "fifo",
    "tick": 1.0,
    "defaults": {"on_hang": "restart", "requests": {"cpu": 0.3}, "grace_seconds": 20},
    "jobs": [
        {"name": "alone", "command": [*COMMAND]},
        {"name": "gang", "command": [*COMMAND, "--ranks", "2"], "workers": 2},
    ],
}


@pytest.mark.timeout(400)  # a minute of an idle machine
def test_a_deadlock_is_cured_alone_and_in_one_rank_of_two(tmp_path: Path):
    """Neither was told to save: both go on from step 30, ten steps lost, and end by themselves."""
    (tmp_path / "jobs.yaml").write_text(yaml.safe_dump(JOBS))
    command = [sys.executable, "-m", "specon_manager", "local", "jobs.yaml", "--nodes", "2", "--plain"]
    command += ["--json", "out.json"]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    told = json.loads((tmp_path / "out.json").read_text())["runs"][0]
    restarts = {each["job"].partition("/")[2]: each for each in told["changes"] if each["kind"] == "restart"}
    assert sorted(restarts) == ["alone", "gang"], run.stdout
    for job, restart in restarts.items():
        assert restart["state"] == "Succeeded", run.stdout
        assert any(job in line and " hangs: no step for" in line for line in run.stdout.splitlines())
        assert 9 <= restart["steps_lost"] <= 10
