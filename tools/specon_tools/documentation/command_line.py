"""The reference of the command line, from the parser."""

import argparse
from collections.abc import Iterator
from typing import Final

from specon_manager.cli.command_parser import make_parser

_HIDDEN: Final = (argparse.SUPPRESS, None)


def sections() -> str:
    """Return a section in Markdown for each command, with its arguments."""
    lines: list[str] = []
    for name, parser in _commands(make_parser(), "specon"):
        lines += _section(name, parser)
    return "\n".join(lines) + "\n"


def _commands(parser: argparse.ArgumentParser, name: str) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """Yield the commands that have none below them, in the order of their help."""
    groups = [one for one in parser._actions if isinstance(one, argparse._SubParsersAction)]  # noqa: SLF001  (no other way)
    if not groups:
        yield name, parser
    for group in groups:
        for word, below in group.choices.items():
            yield from _commands(below, f"{name} {word}")


def _section(name: str, parser: argparse.ArgumentParser) -> list[str]:
    lines = [f"### {name}", "", f"{_sentence(parser.description or '')}", ""]
    rows = [
        f"| {_show(action)} | {_default(action)} | {_cell(_help(action))} |"
        for action in parser._actions  # noqa: SLF001  (as above)
        if action.help != argparse.SUPPRESS and not isinstance(action, argparse._HelpAction)  # noqa: SLF001  (as above)
    ]
    if rows:
        lines += ["| argument | default | meaning |", "|---|---|---|", *rows, ""]
    return lines


def _show(action: argparse.Action) -> str:
    if action.choices is not None and action.metavar is None:
        value = "|".join(str(one) for one in action.choices)
    else:
        value = str(action.metavar or action.dest).strip("()")
    if not action.option_strings:
        return f"`{_cell(value if action.metavar else value.upper())}`"
    flags = ", ".join(action.option_strings)
    if action.nargs == 0:
        return f"`{flags}`"
    given = value if action.metavar or action.choices else value.upper()
    return f"`{_cell(f'{flags} [{given}]' if action.nargs == '?' else f'{flags} {given}')}`"


def _default(action: argparse.Action) -> str:
    if action.default in _HIDDEN or action.default in (False, [], ()) or not action.option_strings:
        return "" if action.option_strings or action.nargs in {"?", "*"} else "(needed)"
    return f"`{_cell(str(action.default))}`"


def _help(action: argparse.Action) -> str:
    text = action.help or ""
    return text.replace("%(default)s", str(action.default)).replace("%%", "%")


def _sentence(text: str) -> str:
    text = text.strip()
    return text[:1].upper() + text[1:] + ("" if text.endswith(".") or not text else ".")


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
