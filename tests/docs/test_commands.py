"""Each command in the documentation is run by a test, or marked with what it needs.

A block of the kind `console` is either preceded by `<!-- needs: cluster -->` or `<!-- needs: minutes -->`, or
each of its commands is in one of the tables here.
"""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from support.packaging.documents import ROOT, Command, commands, pages

ALL = [command for page in pages() for command in commands(page)]
QUICK = {
    "specon classify train.log": 0,
    "specon completion bash": 0,
    "specon classify train.log --classifier specon --alpha 0.01": 0,
    "specon classify train.log --classifier specon --alpha 0.05": 0,
    "specon-sidecar --once --log train.log --remaining-gain 0.01 --confidence 0.9": 0,
    "specon classify --format regular-expression"
    r' --pattern "^it (?P<step>\d+) cost (?P<value>\S+)" odd.log': 0,
    "specon local wrong.yaml": 2,
    "specon policies": 0,
    "specon simulate --workload specon-mixed-20 --policy progress --policy specon --seeds 2": 0,
}
"""Run here, in a folder with the files that they name, by their exit codes."""
TESTED = {
    r"specon local jobs\.yaml( --nodes (2|gpu))?": "tests/e2e/test_commands.py::test_a_submitted_job_is_run",
    r"specon local jobs\.yaml --fresh": (
        "tests/e2e/test_edited_job_file.py::test_an_edited_job_is_named_and_run_anew_when_asked"
    ),
    r"specon init( \S+)?( --out \S+)?": (
        "tests/manager/cli/test_init.py::test_a_folder_becomes_a_job_file_that_its_reader_accepts"
    ),
    r"specon doctor( \w+| --file \S+| --bundle \S+)?": (
        "tests/manager/cli/test_doctor.py::test_doctor_says_what_is_wrong_and_ends_with_1"
    ),
    r"specon report( --since \S+| --directory \S+| -o \w+)*": (
        "tests/manager/cli/test_report.py::test_each_form_says_the_same_and_what_is_not_known"
    ),
    r"specon submit -- .*": "tests/e2e/test_commands.py::test_a_submitted_job_is_run",
    r"specon explain \w+": "tests/e2e/test_commands.py::test_a_run_can_be_explained_and_replayed",
    r"specon replay \S+": "tests/e2e/test_commands.py::test_a_run_can_be_explained_and_replayed",
}
"""Run by other tests: with a running manager, for instance."""
NEEDS = {
    "cluster": r"(helm|kubectl|kind|minikube|mkdir|docker|specon) ",
    "minutes": r"(make|specon|python|\.venv/bin/\w+) ",
}


def _where(command: Command) -> str:
    return f"{command.page}:{command.line}"


@pytest.mark.parametrize("command", ALL, ids=_where)
def test_a_command_is_run_or_says_what_it_needs(command):
    """A command that nobody tries is a command that does not work."""
    if command.needs:
        assert re.match(NEEDS[command.needs], command.text), command
        return
    if command.text in QUICK:
        return
    tests = [test for pattern, test in TESTED.items() if re.fullmatch(pattern, command.text)]
    assert tests, f"{_where(command)}: {command.text!r} is run by no test and not marked with what it needs"
    for test in tests:
        path, _, function = test.partition("::")
        assert f"def {function}(" in (ROOT / path).read_text()


def test_no_command_is_run_for_nothing():
    """What the tables name stands in the documentation."""
    written = {command.text for command in ALL}
    assert QUICK.keys() - {"specon policies"} <= written
    for pattern in TESTED:
        assert any(re.fullmatch(pattern, text) for text in written), pattern


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Make a folder with the files that the documentation takes for granted."""
    made = tmp_path_factory.mktemp("commands")
    losses = [(step, 0.1 + 2.0 / (1 + step / 10)) for step in range(0, 1200, 2)]
    (made / "train.log").write_text("".join(f"step={step}/1200 loss={loss:.5f}\n" for step, loss in losses))
    (made / "odd.log").write_text("".join(f"it {step} cost {loss:.5f}\n" for step, loss in losses))
    (made / "jobs.yaml").write_text("jobs: [{name: a, command: 'true'}]\n")
    (made / "wrong.yaml").write_text("polcy: specon\njobs: [{name: a}]\n")
    return made


@pytest.mark.parametrize(("command", "code"), QUICK.items(), ids=QUICK)
def test_a_quick_command_does_what_it_says(folder, command, code):
    """With the exit code that is promised, and without a trace of Python's."""
    binaries = Path(sys.executable).parent
    done = subprocess.run(
        shlex.split(command),
        cwd=folder,
        env=os.environ | {"PATH": f"{binaries}{os.pathsep}{os.environ['PATH']}", "COLUMNS": "120"},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout or code


@pytest.mark.parametrize("target", sorted({c.text.split()[1] for c in ALL if c.text.startswith("make ")}))
def test_a_target_of_make_is_there(target):
    """Named in the documentation, declared in the Makefile, with its line of help."""
    makefile = (ROOT / "Makefile").read_text()
    assert re.search(rf"^{target}:.*## ", makefile, re.MULTILINE)
    assert re.search(rf"^\.PHONY:.*\b{target}\b", makefile, re.MULTILINE)


def test_what_kubectl_is_told_to_read_is_there():
    """Files of the project that commands for a cluster name."""
    named = [
        (command, word)
        for command in ALL
        for word in command.text.split()
        if re.match(r"(samples/jobs|charts)/", word)
    ]
    assert named
    for command, word in named:
        assert (ROOT / word).exists(), command
