"""`specon top` in a terminal: a heading with what matters of the whole, and a line for each replica."""

from typing import Final

from rich.cells import cell_len
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from specon_manager.cli.styles import STYLES
from specon_manager.model.cluster import Phase
from specon_manager.model.progress import Progress
from specon_manager.views.amounts import gain_text, span_text, steps_text, value_text
from specon_manager.views.names import printable, short_name
from specon_manager.views.replicas import ReplicaRow, Top
from specon_manager.views.words import Trouble
from specon_sidecar.classify import Category
from specon_sidecar.counts import format_count

_FIGURES: Final = ("LOSS", "GAIN %", "STEP", "MOVES", "AGE", "HEARD")
_RIGHT: Final = frozenset({*_FIGURES, "WORKERS"})
_LONGEST: Final = {"REPLICA": 24, "NODE": 16}
"""Characters of a name that stay where not all of the line fits."""
_LEFT_OUT: Final = ("HEARD", "AGE", "GAIN %", "MOVES", "WORKERS")
"""Columns that a narrow terminal does without, the first first."""
_GAP: Final = 2
_DOING: Final = 24
"""Characters that the action on a replica needs, before a figure is left out for it."""


def heading(top: Top, *, sort: str, reverse: bool, trouble: str = "", keys: bool = False) -> list[Text]:
    """Return the lines above the table."""
    counts = ", ".join(f"{count} {name}" for name, count in top.categories.items()) or "nothing runs"
    policy = f"policy {top.policy}, " if top.policy else ""  # first: a narrow terminal cuts the address
    order = f"{sort}{' reversed' if reverse else ''}"
    flying = f"{format_count(top.moves_in_flight, 'move')} in flight"
    flying += f", {format_count(top.changes_in_flight, 'change')} of jobs" if top.changes_in_flight else ""
    flying += f", {top.moves_queued} queued" if top.moves_queued else ""
    flying += f"; {format_count(top.waiting, 'job waits', 'jobs wait')}" if top.waiting else ""
    lines = [
        Text(printable(f"{policy}{top.manager}"), style="bold", overflow="ellipsis", no_wrap=True),
        Text(f"{counts}; {flying}; by {order}", overflow="ellipsis", no_wrap=True),
    ]
    if top.ended and not any(row.phase in top.ended for row in top.replicas):
        over = ", ".join(f"{count} {phase.lower()}" for phase, count in top.ended.items())
        style = "bold red" if str(Phase.FAILED) in top.ended else "dim"
        lines.append(Text(f"ended: {over}; --ended lists them", style=style))
    if top.paused is not None:
        why = f": {top.paused.reason}" if top.paused.reason else ""
        since = f" since {top.paused.since}" if top.paused.since else ""
        lines.append(Text(printable(f"PAUSED{since}{why}; specon resume ends it"), style="bold yellow"))
    if top.stuck:
        words = f"STUCK: {top.stuck} cannot come to an end; specon moves --open, specon changes --open"
        lines.append(Text(words, style="bold red"))
    if top.hung:
        words = (
            f"HUNG: {format_count(top.hung, 'replica trains', 'replicas train')} no more; specon"
            " explain JOB shows the evidence"
        )
        lines.append(Text(words, style="bold red"))
    if top.dry_run:
        lines.append(Text("DRY RUN: nothing is ordered; specon explain says what would be", "bold yellow"))
    lines += [Text(printable(caveat), style="yellow") for caveat in top.caveats]
    if trouble:
        lines.append(Text(printable(trouble), style="bold red"))
    if keys:
        lines.append(
            Text(
                "c category  j name  l loss  g gain  s step  n node  m moves  a age  r reverse  q quit", "dim"
            )
        )
    return lines


def table(top: Top, width: int | None = None) -> RenderableType:
    """Return the lines themselves, and how many there are besides.

    Where they do not fit into the width, columns are left out; the action on a replica is cut, before its
    figures are.
    """
    made = Table(box=None, pad_edge=False, header_style="bold", expand=False)
    gangs = any(_counts(row) for row in top.replicas)  # a cluster of single pods needs no such columns
    queued = any(row.position is not None for row in top.replicas)
    lines = [_cells(row, gangs=gangs, queued=queued) for row in top.replicas]
    names = ["REPLICA", "CATEGORY", *_FIGURES[:3], "NODE", *(["WORKERS"] if gangs else [])]
    names += [*(["POSITION"] if queued else []), *_FIGURES[3:]]
    least = {}
    for name, *cells in zip(names, *lines, strict=False):
        longest = max(cell_len(str(cell)) for cell in (name, *cells))
        least[name] = min(longest, _LONGEST.get(name, longest))
    doing = min(_DOING, max((cell_len(str(line[-1])) for line in lines), default=0))
    shown = _fit(least, doing, width)
    for name in shown:
        made.add_column(
            name,
            justify="right" if name in _RIGHT else "left",
            no_wrap=True,
            overflow="ellipsis",
            min_width=least[name],
        )
    made.add_column("", overflow="ellipsis")  # not without wrapping: such a column is the first to be cut
    for line in lines:
        made.add_row(*(cell for name, cell in zip(names, line, strict=False) if name in shown), line[-1])
    if not top.left_out:
        return made
    return Group(made, Text(f"and {top.left_out} more", style="dim"))


def _fit(least: dict[str, int], doing: int, width: int | None) -> list[str]:
    """Return the columns that fit beside the action, by how wide each is at least."""
    shown = list(least)
    for name in _LEFT_OUT:
        if width is None or sum(least[each] + _GAP for each in shown) + doing <= width:
            break
        if name in shown:
            shown.remove(name)
    return shown


def _counts(row: ReplicaRow) -> bool:
    return row.workers is not None and (row.max_workers or 0) > 1


def _workers(row: ReplicaRow) -> str:
    """Return how many workers the job has, of how few to how many."""
    if not _counts(row):
        return ""
    few, most = row.min_workers, row.max_workers
    return f"{row.workers} of {most}" if few == most else f"{row.workers} of {few}-{most}"


def _position(row: ReplicaRow) -> str:
    if row.position is None:
        return ""
    where = f"{row.position} in {row.queue}" if row.queue else str(row.position)
    return f"{where}, {row.waiting_for}" if row.waiting_for else where


def _cells(row: ReplicaRow, *, gangs: bool, queued: bool) -> tuple[Text | str, ...]:
    runs = row.phase == str(Phase.RUNNING)
    word = Trouble.HUNG if row.hung else Category(row.category) if runs else Phase(row.phase)
    steps, _ = steps_text(Progress(step=row.step, total_steps=row.total_steps))
    return (
        Text(short_name(row.replica), style="bold"),
        Text(str(word).lower(), style=STYLES[word]),
        value_text(row.loss),
        gain_text(row.gain),
        steps,
        Text(printable(row.node or "-")),
        *([_workers(row)] if gangs else []),
        *([Text(printable(_position(row)))] if queued else []),
        str(row.moves),
        span_text(row.age_seconds),
        span_text(row.silent_seconds),
        _doing(row),
    )


def _doing(row: ReplicaRow) -> Text:
    """Return the action on it now, else why it does not run; of one that runs, how often it crashed."""
    if row.move:
        words = f"-> {row.move_to or '?'} {row.move}"
    elif row.change:
        words = f"{row.change} {row.change_state}"
    else:
        crashes = format_count(row.crashes, "crash", "crashes") if row.crashes else ""
        over = row.phase == str(Phase.RUNNING)
        return _cut(": ".join(part for part in (crashes, "" if over else row.note) if part), "dim")
    if row.stuck:
        return _cut(f"{words}, stuck: {row.stuck}", "bold red")
    return _cut(words, "magenta")


def _cut(words: str, style: str) -> Text:
    return Text(printable(words), style=style, overflow="ellipsis", no_wrap=True)
