"""`specon changes`: which jobs are being admitted, scaled and preempted, which were, how it ended and why."""

import argparse
import sys
from collections.abc import Sequence
from typing import Final

from msgspec import Struct
from rich.console import Console
from rich.table import Table
from rich.text import Text

from specon_manager.cli import job_label, printable
from specon_manager.cli.job_table import STYLES
from specon_manager.cli.queues import waited_text
from specon_manager.cli.remote.change_rows import change_label
from specon_manager.cli.remote.choice import add_remote_arguments, run_remote
from specon_manager.cli.remote.names import job_named
from specon_manager.cli.remote.remote import ChangeRow, Remote, View, iso, to_json
from specon_manager.cli.run import UsageError, console_for_results
from specon_manager.model.changes import ChangeState

_LINES: Final = 50


class Changes(Struct, frozen=True, kw_only=True):
    """What `specon changes --output json` prints; the changes are in the order in which they began."""

    manager: str
    at: str | None
    caveats: tuple[str, ...]
    changes: tuple[ChangeRow, ...]
    left_out: int
    """How many older ones are not listed."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument("--job", metavar="NAME", help="of this job only, with or without its namespace")
    parser.add_argument("--open", action="store_true", help="only those that have not ended")
    parser.add_argument(
        "--limit", type=int, default=_LINES, metavar="N", help=f"the latest so many ({_LINES})"
    )
    add_remote_arguments(parser)


def main(arguments: argparse.Namespace) -> int:
    """Print the changes; 0."""
    if arguments.limit < 1:
        raise UsageError(f"--limit: {arguments.limit} is less than 1")
    return run_remote(arguments, lambda remote: _list(remote, arguments))


async def _list(remote: Remote, arguments: argparse.Namespace) -> int:
    view = await remote.view()
    job = None if arguments.job is None else job_named(view.state, arguments.job, arguments.namespace)
    rows = chosen(view, job=job, namespace=arguments.namespace, ended=not arguments.open)
    shown = rows[-arguments.limit :]
    left_out = len(rows) - len(shown)
    if arguments.output == "json":
        told = Changes(
            manager=remote.where,
            at=iso(view.now),
            caveats=view.caveats,
            changes=tuple(shown),
            left_out=left_out,
        )
        sys.stdout.write(f"{to_json(told)}\n")
        return 0
    console = console_for_results()
    for caveat in view.caveats:
        console.print(Text(printable(caveat), style="yellow"))
    if not rows:
        console.print(Text(f"no changes of jobs at {printable(remote.where)}"), soft_wrap=True)
        return 0
    if left_out:
        console.print(f"{left_out} older ones are left out: --limit")
    print_changes(console, shown, view.now)
    return 0


def chosen(view: View, *, job: str | None, namespace: str | None, ended: bool) -> list[ChangeRow]:
    """Return the changes of a job, of a namespace, or all; `ended`: also those that have ended."""
    home = None if namespace is None else f"{namespace}/"
    return [
        row
        for row in view.changes
        if (job is None or row.job == job)
        and (home is None or row.job.startswith(home))
        and (ended or not row.ended)
    ]


def sentence(row: ChangeRow) -> str:
    """Return a change on one line."""
    label = change_label(row.kind, row.workers_before, row.workers_after)
    text = f"{row.id} {label}, {row.state}"
    if row.attempt > 1 and not row.ended:
        text += ", going back"
    if row.awaited:
        until = f", until {row.deadline} at most" if row.deadline else ""
        text += f", waits for {row.awaited}{until}"
    facts = [] if row.downtime_seconds is None else [f"{row.downtime_seconds:.1f} s of downtime"]
    facts += [] if row.checkpoint_step is None else [f"checkpoint of step {row.checkpoint_step}"]
    facts += [] if row.beneficiary is None else [f"for {job_label(row.beneficiary)}"]
    text += f" ({', '.join(facts)})" if facts else ""
    text += f": {row.reason}" if row.reason else ""
    return printable(f"{text} [{row.note}]" if row.note else text)


def print_changes(console: Console, rows: Sequence[ChangeRow], now: float) -> None:
    """Print changes as a table."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("CHANGE", "JOB", "WHAT", "STATE"):
        table.add_column(name, no_wrap=name in {"WHAT", "STATE"}, overflow="fold")
    for name in ("AGE", "DOWN"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("WHY", overflow="fold")
    known = {str(state): state for state in ChangeState}
    for row in rows:
        state = known.get(row.state)
        why = f"{row.reason} [{row.note}]" if row.note else row.reason
        table.add_row(
            Text(printable(row.id)),  # text, not str: what stands in brackets is no markup
            Text(job_label(row.job), style="bold"),
            change_label(row.kind, row.workers_before, row.workers_after),
            Text(row.state, style="dim" if state is None else STYLES.get(state, "bold magenta")),
            waited_text(row.proposed_at, now),
            "" if row.downtime_seconds is None else f"{row.downtime_seconds:.1f}s",
            Text(printable(f"waits for {row.awaited}; {why}" if row.awaited else why)),
        )
    console.print(table)
