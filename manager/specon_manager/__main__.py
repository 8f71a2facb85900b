"""The command line `specon`, and some of it as `kubectl specon`."""

import argparse
import contextlib
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, NamedTuple

from specon_manager import __version__, lab
from specon_manager.lab import LabMissingError

try:
    from specon_manager.cli import completion
    from specon_manager.cli.act import drain, migrate, pause, submit
    from specon_manager.cli.look import bundle, explain, queue, top, transactions
    from specon_manager.cli.run import demo, local, serve
    from specon_manager.cli.study import classify, policies, replay
    from specon_manager.runtime.append_file import DiskFullError, UnwritableError
    from specon_manager.runtime.journal import JournalError
    from specon_manager.runtime.ownership import NotOursError
    from specon_manager.runtime.state_directory import DirectoryBusyError
    from specon_manager.usage import UsageError
except ModuleNotFoundError as missing:
    # The base distribution is what a sidecar needs; the commands need more.
    sys.exit(f"specon: {missing.name} is not installed: pip install 'specon[manager]'")

_USAGE: Final = 2
_INTERRUPTED: Final = 130


class _Command(NamedTuple):
    name: str
    help: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    main: Callable[[argparse.Namespace], int]


def _of_the_lab(name: str, words: str) -> _Command:
    """Return a command whose module is loaded when it is asked for; the rest does not wait for it."""

    def add_arguments(parser: argparse.ArgumentParser) -> None:
        lab.command(name).add_arguments(parser)

    def main(arguments: argparse.Namespace) -> int:
        return int(lab.command(name).main(arguments))

    return _Command(name.replace("_", "-"), words, add_arguments, main)


_COMMANDS: Final = (
    _Command(
        "demo", "run twelve real training jobs on this machine and move them", demo.add_arguments, demo.main
    ),
    _Command("local", "run the training commands of a job file", local.add_arguments, local.main),
    _Command("serve", "manage the training jobs of a Kubernetes cluster", serve.add_arguments, serve.main),
    _Command("submit", "add a job to a running manager", submit.add_arguments, submit.main),
    _Command("top", "show who trains where and how it goes, live", top.add_arguments, top.main),
    _Command("explain", "say what was decided about a job, and why", explain.add_arguments, explain.main),
    _Command(
        "moves",
        "list the moves, with their outcomes and reasons",
        transactions.add_arguments,
        transactions.moves,
    ),
    _Command(
        "changes",
        "list admissions, scalings and preemptions of jobs, with their outcomes and reasons",
        transactions.add_arguments,
        transactions.changes,
    ),
    _Command(
        "queue",
        "show queues with their quotas and use, and the jobs that wait, next first",
        queue.add_arguments,
        queue.main,
    ),
    _Command("migrate", "move a replica to another node", migrate.add_arguments, migrate.main),
    _Command("drain", "move everything that can be moved off a node", drain.add_arguments, drain.main),
    _Command(
        "pause",
        "order nothing new; moves in flight finish",
        pause.add_pause_arguments,
        pause.pause,
    ),
    _Command("resume", "end a pause", pause.add_resume_arguments, pause.resume),
    _Command(
        "support-bundle",
        "write what somebody who helps needs to know into a file, without secrets",
        bundle.add_arguments,
        bundle.main,
    ),
    _Command(
        "classify", "say what a training log tells about its job", classify.add_arguments, classify.main
    ),
    _of_the_lab("simulate", "compare policies on a made-up workload or a trace, in virtual time"),
    _of_the_lab("reproduce", "run the papers' experiments by simulation, their figures beside ours"),
    _of_the_lab(
        "what_if", "say what other policies would do with a manager's jobs now, and what might come of it"
    ),
    _Command("policies", "list the policies and their parameters", policies.add_arguments, policies.main),
    _Command("replay", "run a journal through the decisions again", replay.add_arguments, replay.main),
    _Command(
        "completion", "print what a shell needs to complete this", completion.add_arguments, completion.main
    ),
)
_OF_CLUSTERS: Final = (
    "top",
    "explain",
    "moves",
    "changes",
    "queue",
    "migrate",
    "drain",
    "pause",
    "resume",
    "support-bundle",
)


def make_parser(
    name: str = "specon", commands: Sequence[_Command] = _COMMANDS, *, chosen: str | None = None
) -> argparse.ArgumentParser:
    """Return the parser of commands, under a name; with `chosen`, that command alone gets its flags.

    Without it those get theirs that are installed; a chosen one that is not raises LabMissingError.
    """
    parser = argparse.ArgumentParser(prog=name, description=__doc__)
    parser.add_argument("--version", action="version", version=f"specon {__version__}")
    parser.set_defaults(make_parser=partial(make_parser, name, commands), plugin=False)
    subparsers = parser.add_subparsers(required=True, metavar="COMMAND")
    for command in commands:
        subparser = subparsers.add_parser(command.name, help=command.help, description=command.help)
        subparser.set_defaults(main=command.main)
        if chosen is None:
            with contextlib.suppress(LabMissingError):
                command.add_arguments(subparser)
        elif chosen == command.name:
            command.add_arguments(subparser)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; 0 success, 1 failure, 2 something to mend in what was given, 130 interrupted."""
    return _run("specon", _COMMANDS, arguments, plugin=False)


def kubectl(arguments: Sequence[str] | None = None) -> int:
    """Run a command as `kubectl specon`: those that speak with a cluster, which is the current one."""
    commands = tuple(each for each in _COMMANDS if each.name in _OF_CLUSTERS)
    return _run("kubectl specon", commands, arguments, plugin=True)


def _run(name: str, commands: Sequence[_Command], arguments: Sequence[str] | None, *, plugin: bool) -> int:
    words = sys.argv[1:] if arguments is None else arguments
    # No flag before the command takes a value.
    chosen = next((word for word in words if not word.startswith("-")), "")
    try:
        parser = make_parser(name, commands, chosen=chosen)
        parser.set_defaults(plugin=plugin)
        given = parser.parse_args(words)
        code: int = given.main(given)
    except (UsageError, LabMissingError, DirectoryBusyError, JournalError, NotOursError) as error:
        return _told(error, _USAGE)
    except (DiskFullError, UnwritableError) as error:
        return _told(error, 1)
    except KeyboardInterrupt:
        print("specon: interrupted", file=sys.stderr)
        return _INTERRUPTED
    return code


def _told(error: Exception, code: int) -> int:
    for line in str(error).splitlines():
        print(f"specon: {line}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
