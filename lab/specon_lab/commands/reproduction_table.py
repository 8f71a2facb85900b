"""Reproductions on the screen: a table for each table or figure of the paper, and a line for each paper."""

from collections.abc import Iterator, Sequence
from typing import Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from specon_lab.commands.reproduction_figures import (
    MISSED,
    REPRODUCED,
    counts_of,
    difference,
    error,
    format_figure,
    format_value,
    title,
    verdict,
)
from specon_lab.commands.reproduction_run import Reproduced
from specon_lab.reproduction.experiment import Row, Section
from specon_manager.views.names import printable
from specon_sidecar.counts import format_count

_STYLES: Final = {REPRODUCED: "green", MISSED: "red"}
_HEADINGS: Final = ("paper", "literal", "default", "±", "difference", "error")


def print_reproduction(reproduced: Reproduced, console: Console) -> None:
    """Print the tables of one paper, each with its notes, and the remarks below."""
    reproduction = reproduced.reproduction
    _print(console, reproduction.title, style="bold")
    for section in reproduced.sections:
        console.print()
        _print(console, section.title, style="bold")
        notes = _notes(section)
        if section.rows:
            console.print(_table(section, notes))
        if section.lines:
            console.print(_side_by_side(section))
        for note, number in notes.items():
            _print(console, f"  [{number}] {printable(note)}")
        for remark in section.remarks:
            _print(console, f"  {printable(remark)}")
    if reproduction.remarks:
        console.print()
    for remark in reproduction.remarks:
        _print(console, printable(remark))
    console.print()


def print_summary(results: Sequence[Reproduced], console: Console) -> None:
    """Print a line for each paper."""
    for line in summary(results):
        _print(console, line)


def summary(results: Sequence[Reproduced]) -> Iterator[str]:
    """Yield for each paper how many of its figures were reproduced, and what that took."""
    for each in results:
        verdicts = "".join(counts_of(each.sections, printed=each.reproduction.printed).words)
        runs = (
            format_count(len(each.runs), "run")
            if len(each.runs) == each.asked
            else f"{len(each.runs)} of {format_count(each.asked, 'run')}"
        )
        yield (f"{each.reproduction.name}: {verdicts}; {runs}, {each.cpu_seconds:.1f} s of CPU")


def _notes(section: Section) -> dict[str, int]:
    """Return the notes of the section, numbered; rows may share one."""
    notes: dict[str, int] = {}
    for row in section.rows:
        if row.note:
            notes.setdefault(row.note, len(notes) + 1)
    return notes


def _table(section: Section, notes: dict[str, int]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("", overflow="fold")
    for heading in _HEADINGS:
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    if notes:
        table.add_column("note", no_wrap=True)
    for row in section.rows:
        mark = [f"[{notes[row.note]}]" if row.note else ""] if notes else []
        table.add_row(
            *(Text(text) for text in _cells(row)), Text(verdict(row), _style(row)), *map(Text, mark)
        )
    return table


def _side_by_side(section: Section) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("", overflow="fold")
    for heading in section.columns:
        table.add_column(printable(heading), justify="right")
    for line in section.lines:
        table.add_row(Text(printable(line.what)), *(Text(format_figure(each)) for each in line.figures))
    return table


def _cells(row: Row) -> list[str]:
    numbers = [format_value(each, row) for each in (row.paper, row.literal, row.default, row.spread)]
    return [printable(title(row)), *numbers, difference(row), error(row)]


def _style(row: Row) -> str:
    return _STYLES.get(verdict(row), "")


def _print(console: Console, text: str, style: str = "") -> None:
    console.print(text, style=style, markup=False, highlight=False, soft_wrap=True)
