"""`specon moves` and `specon changes`: those in flight, and how former ones ended and why; filtered.

Moves are those that people and policies ask for; changes are admissions, scalings and preemptions.
"""

import argparse
import asyncio
import contextlib
import sys
from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec import Struct
from rich.console import Console
from rich.table import Table
from rich.text import Text

from specon_manager.cli.output import console_for_results, to_json
from specon_manager.cli.remote.choice import add_remote_arguments, run_remote
from specon_manager.cli.remote.names import find_job
from specon_manager.cli.remote.remote import Remote
from specon_manager.cli.styles import style_of_state
from specon_manager.usage import UsageError
from specon_manager.views.names import printable
from specon_manager.views.times import iso, since_text
from specon_manager.views.transaction_words import sentence, why
from specon_manager.views.transactions import TransactionRow, choose_rows, news
from specon_manager.views.view import View
from specon_sidecar.counts import format_count

_LINES: Final = 50
_INTERVAL: Final = 1.0
_LEAST_INTERVAL: Final = 0.2


class Moves(Struct, frozen=True, kw_only=True):
    """What `specon moves --output json` prints; in the order in which they were proposed."""

    manager: str
    at: str | None
    caveats: tuple[str, ...]
    moves: tuple[TransactionRow, ...]
    left_out: int
    """How many older ones are not listed."""


class Changes(Struct, frozen=True, kw_only=True):
    """What `specon changes --output json` prints; in the order in which they were proposed."""

    manager: str
    at: str | None
    caveats: tuple[str, ...]
    changes: tuple[TransactionRow, ...]
    left_out: int
    """How many older ones are not listed."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of both."""
    parser.add_argument("--job", metavar="NAME", help="of this job only, with or without its namespace")
    parser.add_argument("--open", action="store_true", help="only those that have not ended")
    parser.add_argument(
        "--limit", type=int, default=_LINES, metavar="N", help=f"the latest so many ({_LINES})"
    )
    parser.add_argument("--watch", action="store_true", help="then print a line for each change of state")
    parser.add_argument(
        "--interval", type=float, default=_INTERVAL, metavar="SECONDS", help="between two looks (1)"
    )
    add_remote_arguments(parser, bundles=True)


def moves(arguments: argparse.Namespace) -> int:
    """Print the moves, and with `--watch` go on until Ctrl-C; 0."""
    return _main(arguments, moves=True)


def changes(arguments: argparse.Namespace) -> int:
    """Print the changes that are no moves, and with `--watch` go on until Ctrl-C; 0."""
    return _main(arguments, moves=False)


def _main(arguments: argparse.Namespace, *, moves: bool) -> int:
    if not arguments.interval >= _LEAST_INTERVAL:
        raise UsageError(f"--interval: {arguments.interval:g} is less than {_LEAST_INTERVAL:g} seconds")
    if arguments.limit < 1:
        raise UsageError(f"--limit: {arguments.limit} is less than 1")
    if arguments.watch:
        with contextlib.suppress(KeyboardInterrupt):  # that is how one leaves it
            return run_remote(arguments, lambda remote: _watch(remote, arguments, moves=moves))
        return 0
    return run_remote(arguments, lambda remote: _list(remote, arguments, moves=moves))


async def _list(remote: Remote, arguments: argparse.Namespace, *, moves: bool) -> int:
    _print(await remote.view(), remote, arguments, moves=moves)
    return 0


async def _watch(remote: Remote, arguments: argparse.Namespace, *, moves: bool) -> int:
    view = await remote.view()
    as_json = arguments.output == "json"
    if not as_json:
        _print(view, remote, arguments, moves=moves)
    known = {} if as_json else {row.id: row for row in view.transactions}
    while True:
        for row in news(known, _choose(view, arguments, moves=moves)):
            known[row.id] = row
            print(msgspec.json.encode(row).decode() if as_json else sentence(row), flush=True)
        await asyncio.sleep(arguments.interval)
        with contextlib.suppress(UsageError):  # it may answer again
            view = await remote.view()


def _choose(view: View, arguments: argparse.Namespace, *, moves: bool) -> list[TransactionRow]:
    space = arguments.namespace
    job = None if arguments.job is None else find_job(view.state, arguments.job, space)
    return choose_rows(view.transactions, moves=moves, job=job, namespace=space, ended=not arguments.open)


def _print(view: View, remote: Remote, arguments: argparse.Namespace, *, moves: bool) -> None:
    rows = _choose(view, arguments, moves=moves)
    shown = tuple(rows[-arguments.limit :])
    left_out = len(rows) - len(shown)
    at, manager, caveats = iso(view.now), remote.where, view.caveats
    if arguments.output == "json":
        told = (
            Moves(manager=manager, at=at, caveats=caveats, moves=shown, left_out=left_out)
            if moves
            else Changes(manager=manager, at=at, caveats=caveats, changes=shown, left_out=left_out)
        )
        sys.stdout.write(f"{to_json(told)}\n")
        return
    console = console_for_results()
    for caveat in caveats:
        console.print(Text(printable(caveat), style="yellow"))
    if not rows:
        none = "no moves" if moves else "no changes of jobs"
        console.print(Text(f"{none} at {printable(manager)}"), soft_wrap=True)
        return
    if left_out:
        console.print(f"{format_count(left_out, 'older one is', 'older ones are')} left out: --limit")
    print_rows(console, shown, view.now)


def print_rows(console: Console, rows: Sequence[TransactionRow], now: float) -> None:
    """Print transactions as a table."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("ID", "OF", "WHAT", "STATE"):
        table.add_column(name, no_wrap=name == "STATE", overflow="fold")
    for name in ("AGE", "DOWN", "LOST"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("WHY", overflow="fold")
    for row in rows:
        table.add_row(
            Text(printable(row.id)),  # text, not str: what stands in brackets is no markup
            Text(row.label, style="bold"),
            Text(printable(row.what)),
            Text(row.state, style=style_of_state(row.state, stuck=bool(row.stuck))),
            since_text(row.proposed_at, now),
            "" if row.downtime_seconds is None else f"{row.downtime_seconds:.1f}s",
            "" if row.steps_lost is None else str(row.steps_lost),
            Text(why(row)),
        )
    console.print(table)
