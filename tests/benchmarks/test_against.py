"""A benchmark of this tree beside that of another revision: each has its own packages."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.processes
@pytest.mark.timeout(300)
@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="a checkout with its history runs it")
def test_two_trees_take_turns_and_every_figure_of_both_is_told(tmp_path):
    """The revision is the last commit here, whose figures have the same names."""
    file = tmp_path / "figures.json"
    script = str(ROOT / "benchmarks" / "against.py")
    flags = ["--smallest", "--pairs", "2", "--revision", "HEAD", "--json", str(file)]
    done = subprocess.run(
        [sys.executable, script, "plan", *flags], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    figures = json.loads(file.read_text())["plan"]
    assert len(figures) >= 28
    assert all(len(figure["ratios"]) == 2 for figure in figures if figure["former"])
