"""`specon top` in a terminal: a heading with what matters of the whole, and a line for each replica."""

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from specon_manager.cli import printable, short_name
from specon_manager.cli.amounts import gain_text, span_text, steps_text, value_text
from specon_manager.cli.job_table import STYLES
from specon_manager.cli.top_rows import ReplicaRow, Top
from specon_manager.model.cluster import Phase, Progress
from specon_sidecar.classify import Category


def heading(top: Top, *, sort: str, reverse: bool, trouble: str = "", keys: bool = False) -> list[Text]:
    """Return the lines above the table."""
    counts = ", ".join(f"{count} {name}" for name, count in top.categories.items()) or "nothing runs"
    policy = f", policy {top.policy}" if top.policy else ""
    order = f"{sort}{' reversed' if reverse else ''}"
    lines = [
        Text(printable(f"{top.manager}{policy}"), style="bold", overflow="ellipsis", no_wrap=True),
        Text(
            f"{counts}; {top.moves_in_flight} moves in flight; by {order}", overflow="ellipsis", no_wrap=True
        ),
    ]
    if top.paused is not None:
        why = f": {top.paused.reason}" if top.paused.reason else ""
        since = f" since {top.paused.since}" if top.paused.since else ""
        lines.append(Text(printable(f"PAUSED{since}{why}; specon resume ends it"), style="bold yellow"))
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


def table(top: Top) -> RenderableType:
    """Return the lines themselves, and how many there are besides."""
    made = Table(box=None, pad_edge=False, header_style="bold", expand=False)
    made.add_column("REPLICA", no_wrap=True, overflow="ellipsis", min_width=8)
    made.add_column("CATEGORY", no_wrap=True)
    for name in ("LOSS", "GAIN %", "STEP"):
        made.add_column(name, justify="right", no_wrap=True)
    made.add_column("NODE", no_wrap=True, overflow="ellipsis", min_width=4)
    for name in ("MOVES", "AGE", "HEARD"):
        made.add_column(name, justify="right", no_wrap=True)
    made.add_column("", overflow="ellipsis", no_wrap=True)
    for row in top.replicas:
        made.add_row(*_cells(row))
    if not top.left_out:
        return made
    return Group(made, Text(f"and {top.left_out} more", style="dim"))


def _cells(row: ReplicaRow) -> tuple[Text | str, ...]:
    runs = row.phase == str(Phase.RUNNING)
    word = Category(row.category) if runs else Phase(row.phase)
    steps, _ = steps_text(Progress(step=row.step, total_steps=row.total_steps))
    now = f"-> {row.move_to} {row.move}" if row.move else row.note
    if row.crashes and not row.move:
        now = f"{row.crashes} crash{'es' * (row.crashes > 1)}{f': {row.note}' if row.note else ''}"
    return (
        Text(short_name(row.replica), style="bold"),
        Text(str(word).lower(), style=STYLES[word]),
        value_text(row.loss),
        gain_text(row.gain),
        steps,
        Text(printable(row.node or "-")),
        str(row.moves),
        span_text(row.age_seconds),
        span_text(row.silent_seconds),
        Text(printable(now), style="magenta" if row.move else "dim"),
    )
