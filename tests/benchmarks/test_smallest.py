"""Every benchmark comes to its end with all of its figures; whether a bound holds is not asked here."""

import json
import math
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
LEAST = {
    "blocked-worker": 2,
    "checkpoints": 5,
    "cluster": 23,
    "defragment": 6,
    "defragment-cluster": 5,
    "drain-cluster": 2,
    "fair-shares": 6,
    "gang-move": 9,
    "gpu-turns": 12,
    "log-relay": 3,
    "helper-call": 5,
    "manager-memory": 2,
    "move-downtime": 5,
    "plan": 28,
    "report-ingestion": 9,
    "sidecar-lines": 59,
    "sidecar-process": 3,
    "simulated-reports": 4,
    "simulator": 3,
    "starts": 10,
    "time-slices": 5,
    "trainer-slowdown": 8,
    "waiting": 20,
}
"""How many figures each has; a new log format brings one more."""


@pytest.mark.processes
@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", sorted(LEAST))
def test_a_benchmark_in_its_smallest_form_gives_all_of_its_figures(tmp_path, name):
    """Each is a number with a name of its own."""
    file = tmp_path / "figures.json"
    command = [sys.executable, str(BENCHMARKS / "run.py"), "--smallest", "--json", str(file), name]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    figures = json.loads(file.read_text())[name]
    assert len(figures) >= LEAST[name]
    assert len({figure["what"] for figure in figures}) == len(figures)
    assert all(math.isfinite(figure["value"]) for figure in figures)


def test_every_benchmark_is_among_them():
    """A script that can be run by itself is run with the others, and here."""
    scripts = {path.stem for path in BENCHMARKS.glob("*.py") if "figure.main(" in path.read_text()}
    assert {name.replace("-", "_") for name in LEAST} == scripts
    run = (BENCHMARKS / "run.py").read_text()
    assert all(f'"{name}": (' in run for name in LEAST)
