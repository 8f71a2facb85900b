"""`specon report`: what a manager did for its jobs in the last days, as text, Markdown, JSON or a page."""

import argparse
import asyncio
import contextlib
import re
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import msgspec

from specon_manager.cli.look.report_journal import Told, read_journal
from specon_manager.cli.output import to_json
from specon_manager.cli.remote.choice import add_remote_arguments, run_remote
from specon_manager.cli.remote.remote import Remote
from specon_manager.runtime.journal import JournalError, Recovered, recover
from specon_manager.views.names import printable
from specon_manager.views.report import Report, figures, report_of
from specon_manager.views.report_page import page
from specon_manager.views.times import iso

_SPAN: Final = re.compile(r"([0-9]{1,6}(?:\.[0-9]{1,3})?)([smhdw])")
_SECONDS: Final = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_WEEK: Final = "7d"
_QUIET: Final = 1.0  # seconds


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument(
        "--since", type=_span, default=_WEEK, metavar="SPAN", help=f"how far back: 90m, 12h, 7d ({_WEEK})"
    )
    parser.add_argument(
        "--directory",
        dest="state",
        type=Path,
        metavar="DIR",
        help="as --state: of a manager that has ended, too",
    )
    add_remote_arguments(parser, outputs=("text", "markdown", "json", "html"), bundles=True)


def main(arguments: argparse.Namespace) -> int:
    """Print; 0."""
    return run_remote(arguments, lambda remote: _report(remote, arguments))


async def _report(remote: Remote, arguments: argparse.Namespace) -> int:
    past = _Past(arguments.since)
    view = await remote.view(past.recover)
    since = view.now - arguments.since
    if remote.journal is not None and not past.read:
        await asyncio.to_thread(past.take, remote.journal, view.now)
    told, trouble = past.told, past.trouble
    if told is not None and not told.whole:
        trouble = ("nothing before the oldest journal file is counted",)
    space = arguments.namespace
    known = {row.id: row for row in (() if told is None else told.rows)}
    rows = [
        row
        for row in {**known, **{row.id: row for row in view.transactions}}.values()
        if space is None or row.job.startswith(f"{space}/")
    ]
    found = report_of(
        msgspec.structs.replace(view, caveats=(*view.caveats, *trouble)),
        rows,
        None if told is None else told.forecasts,
        where=remote.where,
        since=since,
    )
    sys.stdout.write(_write(found, arguments.output))
    return 0


class _Past:
    """What the journal tells of so many seconds before now. Only the first question reads it."""

    def __init__(self, span: float) -> None:
        self._span = span
        self.read = False
        self.told: Told | None = None
        self.trouble: tuple[str, ...] = ()

    def take(self, path: Path, now: float | None) -> None:
        """Read it, up to `now` or its last line; trouble is remembered in words."""
        self.read = True
        try:
            with _telling() as tell:
                self.told = read_journal(path, self._span, now, tell)
        except (JournalError, OSError) as error:
            self.trouble = (f"the journal is not read, only what the manager remembers: {error}",)

    def recover(self, path: Path) -> Recovered | None:
        """Return what the journal of a manager that has ended holds. Raises JournalError, OSError."""
        self.take(path, None)
        return recover(path) if self.told is None else self.told.recovered


@contextlib.contextmanager
def _telling() -> Iterator[Callable[[float], None]]:
    """Yield what shows, on a terminal and after a second, up to which time a journal was read."""
    begun = time.monotonic()
    shown = False

    def tell(at: float) -> None:
        nonlocal shown
        if sys.stderr.isatty() and time.monotonic() - begun > _QUIET:
            shown = True
            sys.stderr.write(f"\rreading the journal: {iso(at)}")
            sys.stderr.flush()

    try:
        yield tell
    finally:
        if shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


def _write(report: Report, output: str) -> str:
    if output == "json":
        return f"{to_json(report)}\n"
    if output == "html":
        return page(report)
    head = f"{report.manager}, {report.since} to {report.until}"
    rows = [(printable(name), printable(value)) for name, value in figures(report)]
    notes = [printable(each) for each in report.unknown]
    if output == "markdown":
        lines = ["# What specon did", "", _cell(head), "", "| figure | value |", "|---|---|"]
        lines += [f"| {_cell(name)} | {_cell(value)} |" for name, value in rows]
        lines += ["", *(f"- {_cell(note)}" for note in notes)] if notes else []
        return "\n".join([*lines, ""])
    width = max(len(name) for name, _ in rows)
    lines = [printable(head), *(f"  {name:<{width}}  {value}" for name, value in rows)]
    return "\n".join([*lines, *(f"but: {note}" for note in notes), ""])


def _cell(text: str) -> str:
    """Return a text that Markdown takes as it is."""
    return re.sub(r"([\\`*_{}\[\]<>|#~])", r"\\\1", text)


def _span(text: str) -> float:
    found = _SPAN.fullmatch(text)
    if found is None or not float(found[1]):
        raise argparse.ArgumentTypeError(f"{text!r} is no span such as 90m, 12h or 7d")
    return float(found[1]) * _SECONDS[found[2]]
