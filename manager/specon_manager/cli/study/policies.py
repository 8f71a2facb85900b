"""`specon policies`: which policies there are, what they are after, and what can be set.

With `--output json` an array of objects: `name`, `summary`, `source`, `clairvoyant`, `parameters` (an array
of `name`, `type`, `default`, `meaning`).
"""

import argparse
import sys
from typing import Any, Final

import msgspec
from msgspec import Struct

from specon_manager.cli.output import add_output
from specon_manager.cli.plain import fold_columns, terminal_width
from specon_manager.cli.study.policy_parameters import Parameter, parameters_of
from specon_manager.policies.table import POLICIES, Policy, policy_named
from specon_manager.usage import UsageError

_WIDTHS: Final = (24, 24, 34)


class Description(Struct, frozen=True, kw_only=True):
    """The facts about a policy."""

    name: str
    summary: str
    source: str
    """Where it was published."""
    clairvoyant: bool
    """Whether it is told how long every job takes: a bound for simulations, of no use elsewhere."""
    parameters: tuple[Parameter, ...]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument("name", nargs="?", help="only this one (default: all)")
    parser.add_argument("--json", action="store_const", const="json", dest="output", help="as --output json")
    add_output(parser)


def main(arguments: argparse.Namespace) -> int:
    """Print; 0, or UsageError for a name that is not known."""
    try:
        chosen = [policy_named(arguments.name)] if arguments.name else list(POLICIES.values())
    except ValueError as error:
        raise UsageError(str(error)) from error
    descriptions = [describe(policy) for policy in chosen]
    if arguments.output == "json":
        content = msgspec.json.format(msgspec.json.encode(descriptions), indent=2)
        sys.stdout.write(content.decode() + "\n")
        return 0
    for description in descriptions:
        _print(description)
    return 0


def describe(policy: Policy) -> Description:
    """Return the facts about a policy."""
    return Description(
        name=policy.name,
        summary=policy.summary,
        source=policy.source,
        clairvoyant=policy.clairvoyant,
        parameters=parameters_of(policy.settings),
    )


def _print(description: Description) -> None:
    print(f"{description.name}  {description.summary}")
    hint = "; told how long each job takes: a bound, for simulations only" if description.clairvoyant else ""
    print(f"  {description.source}{hint}")
    rows = [(each.name, _show(each.default), each.type, each.meaning) for each in description.parameters]
    heading = ("parameter", "default", "values", "meaning")
    for line in (
        fold_columns([heading, *rows], _WIDTHS, width=terminal_width() - 2) if rows else ["no parameters"]
    ):
        print(f"  {line}")
    print()


def _show(default: Any) -> str:
    return msgspec.json.encode(default).decode()
