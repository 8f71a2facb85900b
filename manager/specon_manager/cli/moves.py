"""`specon moves`: what is being moved, what was, with which outcome, downtime and reason."""

import argparse
import asyncio
import contextlib
import sys
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Final

import msgspec
from msgspec import Struct
from rich.console import Console
from rich.table import Table
from rich.text import Text

from specon_manager.cli import printable, short_name
from specon_manager.cli.amounts import span_text
from specon_manager.cli.job_table import STYLES
from specon_manager.cli.remote.choice import add_remote_arguments, run_remote
from specon_manager.cli.remote.remote import MoveRow, Remote, View, iso, to_json
from specon_manager.cli.run import UsageError, console_for_results
from specon_manager.model.moves import MoveState

_LINES: Final = 50
_INTERVAL: Final = 1.0
_LEAST_INTERVAL: Final = 0.2


class Moves(Struct, frozen=True, kw_only=True):
    """What `specon moves --output json` prints; the moves are in the order in which they began."""

    manager: str
    at: str | None
    caveats: tuple[str, ...]
    moves: tuple[MoveRow, ...]
    left_out: int
    """How many older ones are not listed."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument("--open", action="store_true", help="only those that have not ended")
    parser.add_argument(
        "--limit", type=int, default=_LINES, metavar="N", help=f"the latest so many ({_LINES})"
    )
    parser.add_argument("--watch", action="store_true", help="then go on with a line for each change")
    parser.add_argument(
        "--interval", type=float, default=_INTERVAL, metavar="SECONDS", help="between two looks (1)"
    )
    add_remote_arguments(parser)


def main(arguments: argparse.Namespace) -> int:
    """Print, and with `--watch` go on until Ctrl-C; 0."""
    if not arguments.interval >= _LEAST_INTERVAL:
        raise UsageError(f"--interval: {arguments.interval:g} is less than {_LEAST_INTERVAL:g} seconds")
    if arguments.limit < 1:
        raise UsageError(f"--limit: {arguments.limit} is less than 1")
    if arguments.watch:
        with contextlib.suppress(KeyboardInterrupt):  # that is how one leaves it
            return run_remote(arguments, lambda remote: _watch(remote, arguments))
        return 0
    return run_remote(arguments, lambda remote: _list(remote, arguments))


async def _list(remote: Remote, arguments: argparse.Namespace) -> int:
    _print(await remote.view(), remote, arguments)
    return 0


async def _watch(remote: Remote, arguments: argparse.Namespace) -> int:
    view = await remote.view()
    as_json = arguments.output == "json"
    if not as_json:
        _print(view, remote, arguments)
    known: dict[str, MoveRow] = {} if as_json else {row.id: row for row in view.moves}
    while True:
        for row in changes(known, _chosen(view, arguments)):
            known[row.id] = row
            text = msgspec.json.encode(row).decode() if as_json else sentence(row)
            print(text, flush=True)
        await asyncio.sleep(arguments.interval)
        with contextlib.suppress(UsageError):  # it may answer again
            view = await remote.view()


def changes(known: dict[str, MoveRow], rows: Sequence[MoveRow]) -> Iterator[MoveRow]:
    """Yield the moves that are new, or that are in another state or attempt than is known."""
    for row in rows:
        before = known.get(row.id)
        if before is None or (before.state, before.attempt) != (row.state, row.attempt):
            yield row


def sentence(row: MoveRow) -> str:
    """Return a move on one line."""
    what = f"{row.id} {row.replica}: {row.source or '?'} -> {row.target or '?'}"
    pause = "" if row.downtime_seconds is None else f", {row.downtime_seconds:.1f} s of downtime"
    note = f": {row.note}" if row.note else ""
    return printable(f"{what}, {row.state}{', going back' if row.attempt > 1 else ''}{pause}{note}")


def _chosen(view: View, arguments: argparse.Namespace) -> list[MoveRow]:
    home = None if arguments.namespace is None else f"{arguments.namespace}/"
    return [
        row
        for row in view.moves
        if (home is None or row.replica.startswith(home)) and not (arguments.open and row.ended)
    ]


def _print(view: View, remote: Remote, arguments: argparse.Namespace) -> None:
    rows = _chosen(view, arguments)
    shown = rows[-arguments.limit :]
    left_out = len(rows) - len(shown)
    if arguments.output == "json":
        told = Moves(
            manager=remote.where,
            at=iso(view.now),
            caveats=view.caveats,
            moves=tuple(shown),
            left_out=left_out,
        )
        sys.stdout.write(f"{to_json(told)}\n")
        return
    console = console_for_results()
    for caveat in view.caveats:
        console.print(Text(printable(caveat), style="yellow"))
    if not rows:
        console.print(Text(f"no moves at {printable(remote.where)}"), soft_wrap=True)
        return
    if left_out:
        console.print(f"{left_out} older ones are left out: --limit")
    _table(console, shown, view.now)


def _table(console: Console, rows: Sequence[MoveRow], now: float) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("MOVE", "REPLICA", "FROM", "TO", "STATE"):
        table.add_column(name, no_wrap=name == "STATE", overflow="fold")
    for name in ("AGE", "DOWN", "LOST"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("WHY", overflow="fold")
    for row in rows:
        state = MoveState(row.state) if row.state in {str(one) for one in MoveState} else None
        table.add_row(
            Text(printable(row.id)),  # text, not str: what stands in brackets is no markup
            Text(short_name(row.replica)),
            Text(printable(row.source or "-")),
            Text(printable(row.target or "-")),
            Text(row.state, style=STYLES.get(state, "bold magenta") if state is not None else "dim"),
            span_text(
                None if row.proposed_at is None else now - datetime.fromisoformat(row.proposed_at).timestamp()
            ),
            "" if row.downtime_seconds is None else f"{row.downtime_seconds:.1f}s",
            "" if row.steps_lost is None else str(row.steps_lost),
            Text(printable(f"{row.reason} [{row.note}]" if row.note else row.reason)),
        )
    console.print(table)
