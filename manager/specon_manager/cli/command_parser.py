"""The parser of `specon`: commands in groups, and the word that was probably meant."""

import argparse
import contextlib
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final, NoReturn

from specon_manager import __version__
from specon_manager.cli.commands import COMMANDS, GROUPS, Command
from specon_manager.model.spelling import suggest_word
from specon_manager.usage import UsageError

_COLUMN: Final = 18


class CommandParser(argparse.ArgumentParser):
    """Names commands and flags that are like one that is not there."""

    def _check_value(self, action: argparse.Action, value: object) -> None:
        if isinstance(action, argparse._SubParsersAction) and value not in action.choices:  # noqa: SLF001  (no other way)
            meant = suggest_word(str(value), action.choices) or f"; {self.prog} --help lists them"
            raise argparse.ArgumentError(None, f"{str(value)[:80]!r} is no command{meant}")
        super()._check_value(action, value)

    def error(self, message: str) -> NoReturn:
        """Print usage and message, with the flags that were probably meant, and end with exit code 2."""
        unknown = message.partition("unrecognized arguments: ")[2].split()
        chosen = [below for below in self._below() if below.prog in self._used]
        flags = [flag for parser in chosen for flag in parser._option_string_actions]  # noqa: SLF001  (as above)
        for word in unknown:
            flag = word.partition("=")[0]
            if flag.startswith("--") and (meant := suggest_word(flag, flags)):
                message += meant
        if unknown and chosen:  # the usage of the command, not of all
            chosen[0].error(message)
        super().error(message)

    _used: tuple[str, ...] = ()

    def use(self, prog: str) -> None:
        """Note which command was given, for the flags that it has."""
        self._used = (prog,)

    def _below(self) -> Iterator[argparse.ArgumentParser]:
        for action in self._actions:
            if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001  (as above)
                yield from action.choices.values()


class _Grouped(argparse.HelpFormatter):
    def _format_action(self, action: argparse.Action) -> str:
        if not isinstance(action, argparse._SubParsersAction):  # noqa: SLF001  (no other way)
            return super()._format_action(action)
        known = {command.name: command for command in COMMANDS}
        lines: list[str] = []
        for group, words in GROUPS.items():
            named = [known[name] for name in action.choices if known[name].group == group]
            if named:
                shown = [f"  {command.name:<{_COLUMN}}{command.help}" for command in named]
                lines += [f"\n{group}: {words}", *shown]
        return "\n".join((*lines, ""))


def make_parser(
    name: str = "specon", commands: Sequence[Command] = COMMANDS, *, chosen: str | None = None
) -> CommandParser:
    """Return the parser of commands, under a name; with `chosen`, that command alone gets its flags.

    Without it those get theirs that are installed; a chosen one that is not raises UsageError.
    """
    parser = CommandParser(
        prog=name,
        description="Moves converged training jobs away from the nodes that growing jobs need.",
        epilog=f"{name} COMMAND --help tells more. Try: {name} {'top' if ' ' in name else 'demo'}",
        formatter_class=_Grouped,
    )
    parser.add_argument("--version", action="version", version=f"specon {__version__}")
    parser.set_defaults(make_parser=partial(make_parser, name, commands), plugin=False)
    subparsers = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for command in commands:
        subparser = subparsers.add_parser(
            command.name,
            help=command.help,
            description=command.help,
            formatter_class=argparse.HelpFormatter,
        )
        subparser.set_defaults(main=command.main)
        if chosen is None:
            with contextlib.suppress(UsageError):
                command.add_arguments(subparser)
        elif chosen == command.name:
            command.add_arguments(subparser)
            parser.use(subparser.prog)
    return parser
