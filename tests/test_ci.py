"""`.ci/run`: a browser is fetched where that is possible, and its lack fails nothing."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

RUN = Path(__file__).parents[1] / ".ci" / "run"


def program(folder, name, text):
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


@pytest.mark.parametrize("apt", ["exit 100", "exit 0", None], ids=["fails", "works", "is not there"])
@pytest.mark.parametrize("user", [0, 1000])
def test_checks_and_tests_are_run_whether_or_not_a_browser_can_be_had(tmp_path, apt, user):
    """Only root asks for one; the exit status is that of the checks and the tests."""
    told = tmp_path / "told"
    for name in ("bash", "dirname", "timeout", "env"):
        found = shutil.which(name)
        assert found is not None
        (tmp_path / name).symlink_to(found)
    program(tmp_path, "id", f"echo {user}")
    program(tmp_path, "make", f'echo "make $*" >> {told}')
    if apt is not None:
        program(tmp_path, "apt-get", f'echo "apt-get $1" >> {told}; {apt}')
    done = subprocess.run(
        [tmp_path / "bash", RUN],
        env={**os.environ, "PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    asked = {"exit 100": ["apt-get update"], "exit 0": ["apt-get update", "apt-get install"], None: []}[apt]
    made = ["make check", "make test", "make test-long"]
    assert told.read_text().splitlines() == [*(asked if user == 0 else []), *made]
    assert ("those tests are skipped" in done.stdout) is (user == 0 and apt == "exit 100")


def test_a_failure_of_the_checks_is_the_result(tmp_path):
    """Nothing is swallowed."""
    (tmp_path / "bash").symlink_to(str(shutil.which("bash")))
    (tmp_path / "dirname").symlink_to(str(shutil.which("dirname")))
    program(tmp_path, "id", "echo 1000")
    program(tmp_path, "make", "exit 7")
    done = subprocess.run([tmp_path / "bash", RUN], env={"PATH": str(tmp_path)}, timeout=60, check=False)
    assert done.returncode == 7
