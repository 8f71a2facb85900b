"""`specon local` with `instrument: true`: a loop that calls the helper is moved, and no step is lost."""

import json
import re
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.processes
SPECON = str(Path(sys.executable).with_name("specon"))
TRAIN = """
    import json, os, time
    import specon

    step, path = 0, specon.resume_path()
    if path:
        step = json.load(open(path))
        specon.resumed(path, step)
    print("begins at", step, flush=True)
    end = step + 50 if path else 100_000  # it ends once it was moved
    while step < end:
        time.sleep(0.03)
        step += 1
        specon.report(step, loss=5 / (1 + step / 20))
        if specon.checkpoint_requested():
            file = os.path.join(os.environ["SPECON_CHECKPOINTS"], "now.json")
            with open(file + ".tmp", "w") as opened:
                json.dump(step, opened)
            os.replace(file + ".tmp", file)
            specon.saved(file, step)
            print("trains on after", step, flush=True)
"""


def test_a_loop_that_calls_the_helper_is_moved_and_loses_nothing(tmp_path):
    """It saves when asked, waits, ends, and goes on elsewhere from exactly that step; no log is read."""
    (tmp_path / "train.py").write_text(textwrap.dedent(TRAIN))
    job = {
        "name": "loop",
        "command": ["{python}", "train.py"],
        "instrument": True,
        "heartbeat": 0.2,
        "interval": 1,
    }
    (tmp_path / "jobs.yaml").write_text(
        json.dumps({"jobs": [job], "parameters": {}, "tick": 0.5, "deadlines": {"verify": 60}})
    )
    command = [SPECON, "local", "jobs.yaml", "--nodes", "2"]
    local = subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        state = tmp_path / "jobs.specon"
        until(
            lambda: any(
                b'"format":"hook"' in one.read_bytes() for one in state.glob("replicas/*/sidecar.json")
            )
        )
        migrate = [SPECON, "migrate", "loop", "--to", "node-1", "--state", str(state)]
        asked = subprocess.run(migrate, cwd=tmp_path, capture_output=True, text=True, timeout=30, check=False)
        assert asked.returncode == 0, asked.stdout + asked.stderr
        output, _ = local.communicate(timeout=60)
    finally:
        local.kill()
        local.wait()
    assert re.search(r"Succeeded: downtime [\d.]+ s, 0 steps lost", output), output
    (log,) = state.glob("replicas/*/train.log")
    began = [int(found) for found in re.findall(r"begins at (\d+)", log.read_text())]
    assert began == [0, int(re.findall(r"checkpoint of step (\d+)", output)[0])]
    assert "trains on" not in log.read_text()


def until(condition, seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.1)
