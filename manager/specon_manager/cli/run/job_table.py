"""The table of jobs of the live view: one line each, fitted to the width and to the lines that there are."""

from collections.abc import Sequence
from typing import Final

from rich.cells import cell_len
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from specon_manager.cli.run.sparkline import sparkline
from specon_manager.cli.styles import STYLES, style_of_state
from specon_manager.core.state import State
from specon_manager.model.cluster import Job
from specon_manager.model.transactions import FINAL_STATES, TransactionState
from specon_manager.views.jobs import JobRow, job_row, lead_of
from specon_manager.views.names import printable
from specon_manager.views.page import CurveOf
from specon_sidecar.classify import Category

_BAR_AT: Final = 5  # the column that the progress bar stands in
_CURVE_AFTER, _CURVE = 2, 16  # the column that the curve stands behind, and its width
_NARROWEST_BAR, _WIDEST_BAR = 6, 24
_GIVE: Final = ((2, 11), (6, 20), (0, 8), (1, 4), (4, 4), (6, 8), (2, 4), (3, 4), (6, 4))
"""Where there is no room: which column gives way first, and down to how many characters."""
_LONGEST_STATE: Final = max(len(state) for state in TransactionState if state not in FINAL_STATES)


def job_table(
    state: State, jobs: Sequence[Job], *, room: int, width: int, curve_of: CurveOf | None = None
) -> Table:
    """Return the heading and at most `room` lines, each with its curve where these are known.

    Where there are more jobs, those that ended and then those submitted last give way to a line that
    counts them.
    """
    shown = sorted(jobs, key=lambda job: job.order)
    if len(jobs) > room:
        important = sorted(shown, key=lambda job: job.ended_at is not None)
        shown = sorted(important[: room - 1], key=lambda job: job.order)
    found = [job_row(state, job) for job in shown]
    metrics = {row.metric for row in found} - {None}
    metric = printable(metrics.pop() or "")[:8] if len(metrics) == 1 else "metric"
    titles = ["job", "node", "state", metric if jobs else "loss", "step", "gain %", "moves"]
    rows = [_cells(row) for row in found]
    left_out = len(jobs) - len(shown)
    note = f"and {left_out} more" if left_out else "" if jobs else "none yet"
    taken = 0 if curve_of is None else _CURVE + 1
    widths, bar = _widths(titles, rows, state, width - taken, note)
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="bold")
    for column, (title, size) in enumerate(zip(titles, widths, strict=True)):
        if bar and column == _BAR_AT:
            table.add_column("", width=bar)
        justify = "right" if title in {titles[3], "step", "gain %"} else "left"
        table.add_column(title, width=size, no_wrap=True, justify=justify)  # type: ignore[arg-type]
        if curve_of is not None and column == _CURVE_AFTER:
            table.add_column("curve", width=_CURVE, no_wrap=True)
    for job, row, texts in zip(shown, found, rows, strict=True):
        cells: list[Text | ProgressBar] = list(texts)
        if bar:
            cells.insert(_BAR_AT, _progress_bar(row.done, bar))
        if curve_of is not None:
            points = curve_of(lead_of(state, job).name, _CURVE)
            cells.insert(_CURVE_AFTER + 1, sparkline(points, _CURVE))
        table.add_row(*cells)
    if note:
        table.add_row(Text(note, style="dim"))
    return table


def _progress_bar(done: float | None, width: int) -> Text | ProgressBar:
    if done is None:
        return Text("")
    style = "green" if done >= 1 else "blue"
    return ProgressBar(total=1.0, completed=done, width=width, complete_style=style, finished_style=style)


def _widths(
    titles: list[str], rows: Sequence[Sequence[Text]], state: State, width: int, note: str
) -> tuple[list[int], int]:
    """Return the width of each column, and of the bar: 0 where there is no room for one."""
    widths = [
        max([cell_len(title), *(cell_len(row[column].plain) for row in rows)])
        for column, title in enumerate(titles)
    ]
    # Room that only some lines need is kept from the start, so that the columns do not jump.
    widths[0] = max(widths[0], len(note))
    widths[2] = max(widths[2], len(Category.PROGRESSING))
    nodes = max((cell_len(name) for name in state.nodes), default=0)
    widths[6] = max(widths[6], len("0 -> ") + nodes + 1 + _LONGEST_STATE)
    spare = width - sum(widths) - (len(widths) - 1)
    for column, least in _GIVE:
        given = max(0, min(-spare, widths[column] - least))
        widths[column] -= given
        spare += given
    bar = min(spare - 1, _WIDEST_BAR)
    return widths, bar if bar >= _NARROWEST_BAR else 0


def _cells(row: JobRow) -> tuple[Text, ...]:
    """Return the row in colours, one text for each column but the bar."""
    return (
        Text(row.label, style="bold"),
        Text(row.nodes),
        Text(str(row.word).lower(), style=STYLES[row.word]),
        Text(row.value),
        Text(row.step),
        Text(row.gain),
        _moves(row),
    )


def _moves(row: JobRow) -> Text:
    """Return the count of moves, then what matters most now: transactions in flight, crashes, the end."""
    text = Text(str(row.moves))
    text.append(row.doing, style_of_state("", stuck=row.stuck))
    if row.crashes:
        text.append(f", {row.crashes} crash" + "es" * (row.crashes > 1), "red")
    if row.took is not None:
        text.append(f", took {row.took:.1f} s", "dim")
    return text
