"""`specon queue`: queues with what they may use and do use, and the jobs that wait, next first."""

import argparse
import sys
from typing import Final

from msgspec import Struct
from rich.console import Console
from rich.table import Table
from rich.text import Text

from specon_manager.cli.output import console_for_results, to_json
from specon_manager.cli.remote.choice import add_remote_arguments, run_remote
from specon_manager.cli.remote.remote import Remote
from specon_manager.usage import UsageError
from specon_manager.views.amounts import resources_text
from specon_manager.views.names import job_label, printable
from specon_manager.views.queues import QueueRow, WaitingRow
from specon_manager.views.starts import start_text
from specon_manager.views.times import iso, since_text
from specon_manager.views.view import View

_LINES: Final = 50
_NO_NAME: Final = "(none)"


class QueueListing(Struct, frozen=True, kw_only=True):
    """What `specon queue --output json` prints."""

    manager: str
    at: str | None
    caveats: tuple[str, ...]
    queues: tuple[QueueRow, ...]
    waiting: tuple[WaitingRow, ...]
    left_out: int
    """How many waiting jobs are not listed."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument("--queue", metavar="NAME", help="of this queue only")
    parser.add_argument(
        "--limit", type=int, default=_LINES, metavar="N", help=f"list so many waiting jobs ({_LINES})"
    )
    add_remote_arguments(parser, bundles=True)


def main(arguments: argparse.Namespace) -> int:
    """Print the queues and who waits in them; 0. Raises UsageError for a limit below 1."""
    if arguments.limit < 1:
        raise UsageError(f"--limit: {arguments.limit} is less than 1")
    return run_remote(arguments, lambda remote: _list(remote, arguments))


async def _list(remote: Remote, arguments: argparse.Namespace) -> int:
    view = await remote.view()
    found = choose_queues(view, remote.where, arguments.queue, arguments.namespace, arguments.limit)
    if arguments.output == "json":
        sys.stdout.write(f"{to_json(found)}\n")
        return 0
    print_queues(found, console_for_results(), view.now)
    return 0


def choose_queues(
    view: View, where: str, queue: str | None, namespace: str | None, most: int
) -> QueueListing:
    """Return the requested queues; raises UsageError where there is no such queue."""
    if queue is not None and all(row.queue != queue for row in view.queues):
        there = ", ".join(row.queue or _NO_NAME for row in view.queues) or "none"
        raise UsageError(f"--queue: there is no queue {queue!r}; there are {there}")
    home = None if namespace is None else f"{namespace}/"
    waiting = [
        row
        for row in view.waiting
        if (queue is None or row.queue == queue) and (home is None or row.job.startswith(home))
    ]
    return QueueListing(
        manager=where,
        at=iso(view.now),
        caveats=view.caveats,
        queues=tuple(row for row in view.queues if queue is None or row.queue == queue),
        waiting=tuple(waiting[:most]),
        left_out=max(0, len(waiting) - most),
    )


def print_queues(found: QueueListing, console: Console, now: float) -> None:
    """Print both tables."""
    for caveat in found.caveats:
        console.print(Text(printable(caveat), style="yellow"))
    if not found.queues:
        console.print(Text(f"no queues at {printable(found.manager)}, and no job waits"), soft_wrap=True)
        return
    console.print(_queues(found.queues))
    console.print()
    if not found.waiting:
        console.print(Text("no job waits"))
        return
    console.print(_make_waiting_table(found.waiting, now))
    if found.left_out:
        console.print(Text(f"and {found.left_out} more: --limit", style="dim"))


def _queues(rows: tuple[QueueRow, ...]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("QUEUE", overflow="fold")
    for name in ("QUOTA", "USED", "BORROWED", "LIMIT"):
        table.add_column(name, overflow="fold")
    turns = any(row.share is not None for row in rows)
    for name in ("RUNNING", "WAITING", *(("SHARE",) if turns else ())):
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(
            Text(printable(row.queue) or _NO_NAME, style="bold"),
            "no quota" if row.quota is None else resources_text(row.quota),
            "not known" if row.used is None else resources_text(row.used),
            _describe_borrowed(row),
            "-" if row.limit is None else resources_text(row.limit),
            str(row.running),
            str(row.waiting),
            *(("-" if row.share is None else f"{row.share:.2f}",) if turns else ()),
        )
    return table


def _describe_borrowed(row: QueueRow) -> str:
    """Return what a queue uses beyond its quota; also of one that may not, as its quota was lowered."""
    borrowed = "-" if row.borrowed is None else resources_text(row.borrowed)
    if row.borrow or row.quota is None:
        return borrowed
    return "may not" if borrowed == "-" else f"{borrowed}, may not"


def _make_waiting_table(rows: tuple[WaitingRow, ...], now: float) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("POSITION", justify="right", no_wrap=True)
    table.add_column("JOB", overflow="fold")
    table.add_column("QUEUE", overflow="fold")
    table.add_column("WAITS", justify="right", no_wrap=True)
    table.add_column("STARTS IN", overflow="fold")
    table.add_column("FOR", no_wrap=True)
    table.add_column("", overflow="fold")
    for row in rows:
        table.add_row(
            str(row.position),
            Text(job_label(row.job), style="bold"),
            Text(printable(row.queue) or _NO_NAME),
            since_text(row.since, now),
            start_text(row.start),
            row.kind,
            Text(printable(row.text)),
        )
    return table
