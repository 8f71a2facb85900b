"""`specon policies`: which policies there are, what they are after, and what can be set.

With `--json` an array of objects: `name`, `summary`, `source`, `clairvoyant`, `parameters` (an array of
`name`, `type`, `default`, `meaning`).
"""

import argparse
import sys
from typing import Any

import msgspec
from msgspec import Struct
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from specon_manager.cli.output import console_for_results
from specon_manager.cli.study.policy_parameters import Parameter, parameters_of
from specon_manager.policies.table import POLICIES, Policy, policy_named
from specon_manager.usage import UsageError


class Description(Struct, frozen=True, kw_only=True):
    """What is told about a policy."""

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
    parser.add_argument("--json", action="store_true", help="print JSON for other programs")


def main(arguments: argparse.Namespace) -> int:
    """Print; 0, or UsageError for a name that is not known."""
    try:
        chosen = [policy_named(arguments.name)] if arguments.name else list(POLICIES.values())
    except ValueError as error:
        raise UsageError(str(error)) from error
    descriptions = [describe(policy) for policy in chosen]
    if arguments.json:
        content = msgspec.json.format(msgspec.json.encode(descriptions), indent=2)
        sys.stdout.write(content.decode() + "\n")
        return 0
    console = console_for_results()
    for description in descriptions:
        _print(description, console)
    return 0


def describe(policy: Policy) -> Description:
    """Return what is told about a policy."""
    return Description(
        name=policy.name,
        summary=policy.summary,
        source=policy.source,
        clairvoyant=policy.clairvoyant,
        parameters=parameters_of(policy.settings),
    )


def _print(description: Description, console: Console) -> None:
    line = Text.assemble((description.name, "bold"), "  ", description.summary)
    console.print(line)
    hint = "; told how long each job takes: a bound, for simulations only" if description.clairvoyant else ""
    console.print(Padding(Text(f"{description.source}{hint}", style="dim"), (0, 0, 0, 2)))
    if not description.parameters:
        console.print(Text("  no parameters\n"))
        return
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("  parameter", no_wrap=True)
    table.add_column("default", overflow="fold")
    table.add_column("values", overflow="fold", max_width=34)
    table.add_column("meaning", overflow="fold")
    for each in description.parameters:
        table.add_row(Text(f"  {each.name}"), Text(_shown(each.default)), Text(each.type), Text(each.meaning))
    console.print(table)
    console.print()


def _shown(default: Any) -> str:
    return msgspec.json.encode(default).decode()
