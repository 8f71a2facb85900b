"""The table of jobs of the live view: one line each, fitted to the width and to the lines that there are."""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct
from rich.cells import cell_len
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from specon_manager.cli import job_label, printable
from specon_manager.cli.amounts import gain_text, steps_text, value_text
from specon_manager.cli.remote.change_rows import change_label, workers_in
from specon_manager.core.state import State
from specon_manager.model.cluster import Job, Phase, Replica
from specon_manager.model.moves import MoveState
from specon_sidecar.classify import Category

STYLES: Final = {
    Category.PROGRESSING: "green",
    Category.WATCHING: "yellow",
    Category.CONVERGED: "cyan",
    Category.STALLED: "red",
    Category.DIVERGING: "red",
    Category.UNKNOWN: "dim",
    Category.NOT_CLASSIFIABLE: "dim",
    Phase.PENDING: "dim italic",
    Phase.AWAITED: "dim italic",
    Phase.STARTING: "italic",
    Phase.RUNNING: "default",
    Phase.SUCCEEDED: "bold green",
    Phase.FAILED: "bold red",
    MoveState.SUCCEEDED: "green",
    MoveState.ROLLED_BACK: "yellow",
    MoveState.FAILED: "red",
}
"""The colour of a word wherever it appears."""

_BAR_AT: Final = 5  # the column that the progress bar stands in
_NARROWEST_BAR, _WIDEST_BAR = 6, 24
_GIVE: Final = ((2, 11), (6, 20), (0, 8), (1, 4), (4, 4), (6, 8), (2, 4), (3, 4), (6, 4))
"""Where there is no room: which column gives way first, and down to how many characters."""
_LONGEST_STATE: Final = max(len(state) for state in MoveState if state not in STYLES)


class _Row(Struct, frozen=True):
    """A job in words, one for each column but the bar."""

    cells: tuple[Text, ...]
    done: float | None
    """Share of the steps, None where the total is not known."""


def job_table(state: State, jobs: Sequence[Job], *, room: int, width: int) -> Table:
    """Return the heading and at most `room` lines.

    Where there are more jobs, those that ended and then those submitted last give way to a line that
    counts them.
    """
    shown = sorted(jobs, key=lambda job: job.order)
    if len(jobs) > room:
        important = sorted(shown, key=lambda job: job.ended_at is not None)
        shown = sorted(important[: room - 1], key=lambda job: job.order)
    metrics = {_lead(state, job).progress.metric for job in shown} - {None}
    metric = printable(metrics.pop() or "")[:8] if len(metrics) == 1 else "metric"
    titles = ["job", "node", "state", metric if jobs else "loss", "step", "gain %", "moves"]
    rows = [_row(state, job) for job in shown]
    left_out = len(jobs) - len(shown)
    note = f"and {left_out} more" if left_out else "" if jobs else "none yet"
    widths, bar = _widths(titles, rows, state, width, note)
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="bold")
    for column, (title, size) in enumerate(zip(titles, widths, strict=True)):
        if bar and column == _BAR_AT:
            table.add_column("", width=bar)
        justify = "right" if title in {titles[3], "step", "gain %"} else "left"
        table.add_column(title, width=size, no_wrap=True, justify=justify)  # type: ignore[arg-type]
    for row in rows:
        cells: list[Text | ProgressBar] = list(row.cells)
        if bar:
            cells.insert(_BAR_AT, _progress_bar(row.done, bar))
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
    titles: list[str], rows: list[_Row], state: State, width: int, note: str
) -> tuple[list[int], int]:
    """Return the width of each column, and of the bar: 0 where there is no room for one."""
    widths = [
        max([cell_len(title), *(cell_len(row.cells[column].plain) for row in rows)])
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


def _lead(state: State, job: Job) -> Replica:
    """Return the replica that stands for its job: the first that is being moved, runs, or is there at all."""
    replicas = [state.replicas[name] for name in job.spec.replicas if name in state.replicas]
    replicas.sort(key=lambda replica: (replica.name not in state.moves, not replica.active))
    return replicas[0] if replicas else Replica(name=job.name, job=job.name)


def _row(state: State, job: Job) -> _Row:
    lead = _lead(state, job)
    replicas = [state.replicas[name] for name in job.spec.replicas if name in state.replicas]
    nodes = dict.fromkeys(replica.node for replica in replicas if replica.active and replica.node)
    word = word_for(lead)
    step, done = steps_text(lead.progress)
    return _Row(
        cells=(
            Text(job_label(job.name), style="bold"),
            Text(printable(",".join(nodes)) or "-"),
            Text(str(word).lower(), style=STYLES[word]),
            Text(value_text(lead.progress.value)),
            Text(step),
            Text(gain_text(lead.progress.gain)),
            _moves(state, job, replicas),
        ),
        done=done,
    )


def word_for(replica: Replica) -> Category | Phase:
    """Return the word that says most about the replica: its category while it runs, else its phase."""
    return replica.progress.category if replica.phase is Phase.RUNNING else replica.phase


def _moves(state: State, job: Job, replicas: list[Replica]) -> Text:
    """Return the count of moves, then what matters most now: a move in flight, crashes, the end."""
    text = Text(str(sum(replica.moves for replica in replicas)))
    flying = [state.moves[replica.name] for replica in replicas if replica.name in state.moves]
    crashes = sum(replica.crashes for replica in replicas)
    for move in flying[:1]:
        text.append(f" -> {printable(move.destination)} {move.state}", "bold magenta")
    change = state.changes.get(job.name)
    if change is not None and not flying:
        label = change_label(str(change.kind), workers_in(change.before), workers_in(change.after))
        text.append(f", {label} {change.state}", "bold magenta")
    if crashes:
        text.append(f", {crashes} crash" + "es" * (crashes > 1), "red")
    if job.ended_at is not None:
        text.append(f", took {job.ended_at - job.submitted_at:.1f} s", "dim")
    return text
