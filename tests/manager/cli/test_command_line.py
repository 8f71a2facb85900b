"""`specon` as a whole: commands in groups, the word that was meant, and nothing loaded before its time."""

import argparse
import os
import subprocess
import sys

import pytest

from specon_manager.__main__ import kubectl, main
from specon_manager.cli.commands import COMMANDS, GROUPS

LOADED = (
    "import atexit, sys; from specon_manager.__main__ import main; "
    "atexit.register(lambda: print(*sys.modules, file=sys.stderr)); sys.exit(main(sys.argv[1:]))"
)


def refused(run, arguments, capsys):
    with pytest.raises(SystemExit) as ended:
        run(arguments)
    assert ended.value.code == 2
    return capsys.readouterr().err


@pytest.mark.parametrize("arguments", [[], ["--help"]])
def test_without_a_command_specon_tells_what_it_can_do(arguments, capsys):
    """Each group with its commands, and exit code 0: nobody did anything wrong."""
    if arguments:
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        assert ended.value.code == 0
    else:
        assert main(arguments) == 0
    said = capsys.readouterr().out
    for group, words in GROUPS.items():
        assert f"{group}: {words}" in said
    for command in COMMANDS:
        assert f"  {command.name} " in said
        assert command.help in said


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_each_command_is_where_the_table_says(command, capsys):
    """A command that cannot be loaded is found here and not by a user."""
    with pytest.raises(SystemExit) as ended:
        main([command.name, "--help"])
    assert ended.value.code == 0
    assert command.help.split()[0] in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["clasify", "x"], "'clasify' is no command; did you mean classify?"),
        (["explian"], "did you mean explain?"),
        (["zzz"], "'zzz' is no command; specon --help lists them"),
        (["drain", "node-1", "--dryrun"], "usage: specon drain"),
        (["drain", "node-1", "--dryrun"], "unrecognized arguments: --dryrun; did you mean --dry-run?"),
        (["policies", "--zzz"], "unrecognized arguments: --zzz\n"),
    ],
)
def test_a_word_that_is_not_known_names_the_one_that_was_meant(arguments, words, capsys):
    """Commands and flags alike; where nothing is like it, nothing is guessed."""
    assert words in refused(main, arguments, capsys)


def test_the_plugin_names_its_own_commands_alone(capsys):
    """What a cluster does not answer is not proposed there."""
    assert "did you mean drain?" in refused(kubectl, ["drian"], capsys)
    assert "did you mean" not in refused(kubectl, ["simulat"], capsys)


def test_version_and_help_load_no_package():
    """They answer at once, also in an installation that lacks what other commands need."""
    for word in ("--version", "--help"):
        command = [sys.executable, "-c", LOADED, word]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert ran.returncode == 0
        loaded = {name.partition(".")[0] for name in ran.stderr.split()}
        assert loaded.isdisjoint({"aiohttp", "kubernetes", "msgspec", "psutil", "rich", "yaml", "specon_lab"})


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("length", [1, 99_999])
def test_a_reader_that_leaves_is_no_error(length, unbuffered):
    """`specon ... | head` ends quietly, whether the words were waiting to be written or just written."""
    script = (
        "import sys, specon_manager.__main__ as it\n"
        f"it._command = lambda *_, **__: print('x' * {length}) or 0\n"
        "sys.exit(it.main(['top']))"
    )
    environment = os.environ | {"PYTHONUNBUFFERED": unbuffered}
    command = [sys.executable, "-c", script]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, env=environment, stdout=pipe, stderr=pipe, text=True) as running:
        running.stdout.close()
        said = running.stderr.read()
    assert said == ""
    assert running.returncode == 141


SAYS_NO_DATA = {"serve", "completion"}
"""A server, and a script for shells."""


@pytest.mark.parametrize(
    "command", [each for each in COMMANDS if each.name not in SAYS_NO_DATA], ids=lambda command: command.name
)
def test_each_command_that_prints_data_has_one_way_to_json(command):
    """`-o json`, the same everywhere; what it was called before is an alias."""
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    flags = parser._option_string_actions
    assert flags["-o"] is flags["--output"]
    assert flags["-o"].choices is None or "json" in flags["-o"].choices
    assert flags["-o"].default == "text"
    if "--json" in flags:
        assert flags["--json"].const in {None, "json", "-"}
