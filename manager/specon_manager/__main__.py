"""The command line `specon`, and some of it as `kubectl specon`."""

import os
import select
import sys
from collections.abc import Sequence
from typing import Final

from specon_manager.cli.command_parser import make_parser
from specon_manager.cli.commands import COMMANDS, Command
from specon_manager.usage import UsageError

_USAGE: Final = 2
_INTERRUPTED: Final = 130
_UNREAD: Final = 141  # as of a program that SIGPIPE ended


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; 0 success, 1 failure, 2 a mistake of the user, 130 interrupted, 141 unread."""
    return _run("specon", COMMANDS, arguments, plugin=False)


def kubectl(arguments: Sequence[str] | None = None) -> int:
    """Run a command as `kubectl specon`: those that speak with a cluster, which is the current one."""
    commands = tuple(each for each in COMMANDS if each.of_clusters)
    return _run("kubectl specon", commands, arguments, plugin=True)


def _run(name: str, commands: Sequence[Command], arguments: Sequence[str] | None, *, plugin: bool) -> int:
    try:
        code = _command(name, commands, arguments, plugin=plugin)
        sys.stdout.flush()
    except BrokenPipeError:
        if not _nobody_reads():
            raise
        return _UNREAD
    return code


def _nobody_reads() -> bool:
    """Return whether the reader of the output has left (`| head`); then the rest goes nowhere."""
    streams = select.poll()
    for stream in (sys.stdout, sys.stderr):
        streams.register(stream.fileno(), 0)  # told of errors alone
    left = streams.poll(0)
    for descriptor, _ in left:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, descriptor)
        os.close(nowhere)
    return bool(left)


def _command(name: str, commands: Sequence[Command], arguments: Sequence[str] | None, *, plugin: bool) -> int:
    words = sys.argv[1:] if arguments is None else arguments
    if not words:
        make_parser(name, commands, chosen="").print_help()
        return 0
    # No flag before the command takes a value.
    chosen = next((word for word in words if not word.startswith("-")), "")
    try:
        parser = make_parser(name, commands, chosen=chosen)
        parser.set_defaults(plugin=plugin)
        given = parser.parse_args(words)
        code: int = given.main(given)
    except UsageError as error:
        return _tell(error, _USAGE)
    except KeyboardInterrupt:
        print("specon: interrupted", file=sys.stderr)
        return _INTERRUPTED
    except Exception as error:
        failed = _code_of(error)
        if failed is None:
            raise
        return _tell(error, failed)
    return code


def _code_of(error: Exception) -> int | None:
    """Return the exit code of what a manager's files raise; None of what nobody at the terminal can mend."""
    # Loaded where something was raised, and not for each command.
    from specon_manager.runtime.append_file import DiskFullError, UnwritableError  # noqa: PLC0415
    from specon_manager.runtime.journal import JournalError  # noqa: PLC0415
    from specon_manager.runtime.ownership import NotOursError  # noqa: PLC0415
    from specon_manager.runtime.state_directory import DirectoryBusyError  # noqa: PLC0415

    if isinstance(error, DirectoryBusyError | JournalError | NotOursError):
        return _USAGE
    return 1 if isinstance(error, DiskFullError | UnwritableError) else None


def _tell(error: Exception, code: int) -> int:
    for line in str(error).splitlines():
        print(f"specon: {line}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
