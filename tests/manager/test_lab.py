"""The door to the lab: no module of it is loaded before a command needs it, and its absence is reported."""

import importlib.abc
import subprocess
import sys

import pytest

from specon_manager import lab
from specon_manager.__main__ import main
from support.decisions.changed_jobs import NOW, elastic, nodes
from support.decisions.gangs import with_gang

HOW = "pip install 'specon[simulate]'"


class WithoutLab(importlib.abc.MetaPathFinder):
    """Finds what is there but for the lab."""

    def find_spec(self, fullname, path, target=None):
        if fullname == "specon_lab":
            raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)


@pytest.fixture
def absent(monkeypatch):
    """Have Python look for the lab in vain, as where it is not installed."""
    for name in [each for each in sys.modules if each.partition(".")[0] == "specon_lab"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [WithoutLab(), *sys.meta_path])


@pytest.mark.parametrize("arguments", [["--version"], ["--help"], ["policies"], ["explain", "--help"]])
def test_what_is_not_about_the_lab_does_not_load_it(arguments):
    """Neither its modules nor its time is in a manager, or in a command that speaks with one."""
    program = (
        "import atexit, sys; from specon_manager.__main__ import main; "
        "atexit.register(lambda: print('specon_lab' in sys.modules, file=sys.stderr)); "
        "sys.exit(main(sys.argv[1:]))"
    )
    command = [sys.executable, "-c", program, *arguments]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (ran.returncode, ran.stderr) == (0, "False\n")


@pytest.mark.parametrize("command", ["simulate", "reproduce", "what-if"])
@pytest.mark.parametrize("flags", [[], ["--help"], ["--seeds", "2"]])
@pytest.mark.usefixtures("absent")
def test_a_command_of_a_lab_that_is_not_installed_says_how_to_get_it(command, flags, capsys):
    """Whatever its flags; the exit code is that of what a person can mend."""
    assert main([command, *flags]) == 2
    said = capsys.readouterr()
    assert HOW in said.err
    assert said.out == ""


@pytest.mark.usefixtures("absent")
def test_completion_without_the_lab_knows_all_other_commands(capsys):
    """What is not installed has no flags to complete."""
    assert main(["completion", "bash"]) == 0
    script = capsys.readouterr().out
    assert "--dry-run" in script
    assert "--workload" not in script


@pytest.mark.usefixtures("absent")
def test_a_forecast_without_the_lab_is_not_known():
    """The rest of `specon explain` does not depend on it."""
    start = lab.expected_starts(with_gang(nodes(), elastic("w"), {}), NOW, ["default/w"])["default/w"]
    assert start.in_seconds is None
    assert HOW in start.why


def test_a_module_that_the_lab_itself_lacks_is_not_the_lab(monkeypatch):
    """An error in the lab's own imports is not mistaken for its absence."""
    monkeypatch.setitem(sys.modules, "specon_lab.forecasts.start", None)
    monkeypatch.delattr("specon_lab.forecasts.start", raising=False)
    with pytest.raises(ModuleNotFoundError, match="forecasts"):
        lab.expected_starts(with_gang(nodes(), elastic("w"), {}), NOW, ["default/w"])
