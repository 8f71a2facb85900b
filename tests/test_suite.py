"""What a run of the tests leaves out, says, and lets them hear."""

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.mark.processes
@pytest.mark.parametrize("workers", ["0", "1"])
def test_a_run_says_how_many_long_tests_it_leaves_out(workers):
    """Also where workers know, and not who prints."""
    command = [sys.executable, "-m", "pytest", "-m", "not long", "-n", workers, "benchmarks/test_smallest.py"]
    run = subprocess.run(command, cwd=HERE, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout
    assert re.search(r"^\d\d long tests: `make test-long` runs them$", run.stdout, re.MULTILINE)


def test_what_tests_start_hears_ctrl_c():
    """Also in a run in the background of a shell that is not interactive, where it is ignored."""
    assert signal.getsignal(signal.SIGINT) is not signal.SIG_IGN
