"""The command line `specon`."""

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from specon_manager import __version__

try:
    from specon_manager.cli import (
        classify,
        demo,
        local,
        owner,
        policies,
        replay,
        reproduce,
        serve,
        simulate,
        what_if,
    )
    from specon_manager.cli.run import UsageError
    from specon_manager.runtime.journal import JournalError
    from specon_manager.runtime.state_directory import DirectoryBusyError
except ModuleNotFoundError as missing:
    # The base distribution is what a sidecar needs; the commands need more.
    sys.exit(f"specon: {missing.name} is not installed: pip install 'specon[manager]'")

_INTERRUPTED: Final = 130


class _Command(NamedTuple):
    name: str
    help: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    main: Callable[[argparse.Namespace], int]


_COMMANDS: Final = (
    _Command(
        "demo", "run twelve real training jobs on this machine and move them", demo.add_arguments, demo.main
    ),
    _Command("local", "run the training commands of a job file", local.add_arguments, local.main),
    _Command("serve", "manage the training jobs of a Kubernetes cluster", serve.add_arguments, serve.main),
    _Command("submit", "add a job to a running manager", owner.add_submit_arguments, owner.submit),
    _Command(
        "explain", "say what was decided about a job, and why", owner.add_explain_arguments, owner.explain
    ),
    _Command(
        "classify", "say what a training log tells about its job", classify.add_arguments, classify.main
    ),
    _Command(
        "simulate",
        "compare policies on a made-up workload or a trace, in virtual time",
        simulate.add_arguments,
        simulate.main,
    ),
    _Command(
        "reproduce",
        "run the papers' experiments by simulation, their figures beside ours",
        reproduce.add_arguments,
        reproduce.main,
    ),
    _Command(
        "what-if",
        "say what other policies would do with a manager's jobs now, and what might come of it",
        what_if.add_arguments,
        what_if.main,
    ),
    _Command("policies", "list the policies and their parameters", policies.add_arguments, policies.main),
    _Command("replay", "run a journal through the decisions again", replay.add_arguments, replay.main),
)


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    parser = argparse.ArgumentParser(prog="specon", description=__doc__)
    parser.add_argument("--version", action="version", version=f"specon {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for command in _COMMANDS:
        subparser = commands.add_parser(command.name, help=command.help, description=command.help)
        command.add_arguments(subparser)
        subparser.set_defaults(main=command.main)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; 0 success, 1 failure, 2 something to mend in what was given, 130 interrupted."""
    given = make_parser().parse_args(arguments)
    try:
        code: int = given.main(given)
    except (UsageError, DirectoryBusyError, JournalError) as error:
        for line in str(error).splitlines():
            print(f"specon: {line}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("specon: interrupted", file=sys.stderr)
        return _INTERRUPTED
    return code


if __name__ == "__main__":
    sys.exit(main())
