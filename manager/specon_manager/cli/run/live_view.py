"""The live view in a terminal: nodes, jobs, and decisions, in as many lines as there are."""

from collections import Counter
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Final, Self

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.rule import Rule
from rich.segment import SegmentLines
from rich.table import Table
from rich.text import Text

from specon_manager.cli.output import LITERAL
from specon_manager.cli.run.job_table import job_table
from specon_manager.cli.styles import STYLES, style_of_state
from specon_manager.core.state import State
from specon_manager.model.cluster import Phase
from specon_manager.views.latest import latest
from specon_manager.views.names import printable
from specon_manager.views.nodes import NodeRow, node_row
from specon_manager.views.page import CurveOf
from specon_manager.views.words import word_for
from specon_sidecar.counts import format_count

_BAR: Final = 12
_WIDE: Final = 120  # columns, from which on there are curves and totals of categories
_FRAMES: Final = 6  # lines that three panels take, where two rules take 2


def render(
    state: State,
    now: float,
    *,
    title: str,
    width: int | None = None,
    began: float | None = None,
    curve_of: CurveOf | None = None,
) -> RenderableType:
    """Return the whole view; it takes the height that the console offers, and the width unless given.

    From 120 columns on it has a curve for each job, as `curve_of` knows them, and counts the categories.

    Times are shown in seconds since `began` (since the first submission where it is None), on the clock of
    the manager like `now`.
    """
    if began is None:
        began = min((job.submitted_at for job in state.jobs.values()), default=now)
    return _View(state, now, title=title, width=width, began=began, curve_of=curve_of)


class LiveView:
    """The view on the alternate screen of a terminal; the last picture is printed when the context ends."""

    def __init__(
        self,
        title: str,
        *,
        began: float | None = None,
        console: Console | None = None,
        curve_of: CurveOf | None = None,
    ) -> None:
        self._title, self._curve_of = title, curve_of
        self._began = began
        self._console = Console(**LITERAL) if console is None else console
        self._live = Live(console=self._console, screen=True, auto_refresh=False)
        self._last: RenderableType | None = None

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()
        if self._last is not None:
            self._console.print(self._last, end="")

    def update(self, state: State, now: float, trouble: str = "", notices: Sequence[str] = ()) -> None:
        """Show the state, below the manager's trouble and the urgent notices of jobs.

        What cannot be shown is said so in its place: a picture never ends a run.
        """
        try:
            view = render(state, now, title=self._title, began=self._began, curve_of=self._curve_of)
            lines = self._console.render_lines(view, pad=False)
        except Exception as error:  # noqa: BLE001 - the run that is shown matters more than its picture
            words = Text(printable(f"this state cannot be shown: {error!r}"), style="red")
            lines = self._console.render_lines(words, pad=False)
        if trouble:
            told = self._console.render_lines(Text(printable(trouble), style="bold red"), pad=False)
            lines = [*told, *lines]
        if notices:
            most = max(1, self._console.height // 3)
            words = Text("\n".join(map(_steady, notices[-most:])), style="yellow", no_wrap=True)
            told = self._console.render_lines(words, pad=False)
            lines = [*told, *lines][: self._console.height]
        self._last = SegmentLines(lines, new_lines=True)
        self._live.update(self._last, refresh=True)


def _steady(line: str) -> str:
    """Return a line without what steers a terminal, with its indentation."""
    return " " * (len(line) - len(line.lstrip(" "))) + printable(line)


class _View:
    """The parts of the view, cut to the size that is known only when it is printed."""

    def __init__(
        self,
        state: State,
        now: float,
        title: str,
        width: int | None,
        *,
        began: float,
        curve_of: CurveOf | None,
    ) -> None:
        self._state, self._now, self._title, self._width, self._began = state, now, title, width, began
        self._curve_of = curve_of

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        state, height = self._state, options.height or options.max_height
        width = min(self._width or options.max_width, options.max_width)
        jobs = list(state.jobs.values())
        entries = _entries(state, self._began)
        framed = _FRAMES + 1 + len(state.nodes) + max(1, len(jobs)) + max(1, len(entries)) <= height
        inner = width - 4 if framed else width
        room = height - (_FRAMES if framed else 2) - 1
        nodes = _nodes(state, max(1, min(len(state.nodes), room // 3)), inner)
        room -= max(1, nodes.row_count)
        curve_of = self._curve_of if width >= _WIDE else None
        table = job_table(state, jobs, room=max(2, room - 1), width=inner, curve_of=curve_of)
        room -= table.row_count
        heading = _heading(state, self._title, self._now - self._began)
        if width >= _WIDE:
            heading.append_text(_totals(state))
        latest = Group(*entries[: max(1, room)]) if entries else Text("nothing yet", style="dim")
        if framed:
            yield Panel(nodes, title=heading, title_align="left", width=width)
            yield Panel(table, title="jobs", title_align="left", width=width)
            yield Panel(latest, title=_moves_heading(state), title_align="left", width=width)
        else:
            yield from console.render(
                Group(
                    Rule(heading, align="left"),
                    nodes,
                    table,
                    Rule(_moves_heading(state), align="left"),
                    latest,
                ),
                options.update(width=width),
            )


def _heading(state: State, title: str, elapsed: float) -> Text:
    counts = _count(str(replica.phase).lower() for replica in state.replicas.values())
    return Text.assemble(
        (printable(title), "bold"), f" | {elapsed:.1f} s | {counts or 'no jobs'}", no_wrap=True
    )


def _totals(state: State) -> Text:
    """Return the number of running replicas in each category, each in its colour."""
    running = (each for each in state.replicas.values() if each.phase is Phase.RUNNING)
    counts = Counter(word_for(state, replica) for replica in running)
    text = Text()
    for number, (word, count) in enumerate(counts.most_common()):
        text.append(", " if number else " | ").append(f"{count} {word}", STYLES[word])
    return text


def _moves_heading(state: State) -> str:
    flying, waiting = state.transactions.values(), len(state.requests)
    parts = [_count(str(each.state) for each in state.history)]
    parts += [f"{len(flying)} in flight"] if flying else []
    parts += [f"{stuck} stuck"] if (stuck := sum(bool(each.stuck) for each in flying)) else []
    parts += [f"{waiting} queued"] if waiting else []
    return "decisions and moves" + "".join(f" | {part}" for part in parts if part)


def _count(words: Iterable[str]) -> str:
    return ", ".join(f"{count} {word}" for word, count in Counter(words).most_common())


def _nodes(state: State, room: int, width: int) -> Table:
    """Return a line per node: measured CPU usage, and the replicas on it, each in its category's colour."""
    nodes = list(state.nodes.values())
    shown = nodes if len(nodes) <= room else nodes[: room - 1]
    found = [node_row(state, node) for node in shown]
    rows = [_node(row) for row in found]
    grid = Table.grid(padding=(0, 1, 0, 0))
    sizes = [max((cell_len(row[column].plain) for row in rows), default=0) for column in (0, 1)]
    sizes[0] = min(sizes[0], width // 4)
    for size in (sizes[0], _BAR, sizes[1], max(4, width - sum(sizes) - _BAR - 3)):
        grid.add_column(no_wrap=True, overflow="ellipsis", width=size)
    for row, (name, usage, words) in zip(found, rows, strict=True):
        bar = ProgressBar(
            total=1.0,
            completed=min(1.0, row.share),
            width=_BAR,
            complete_style="blue",
            finished_style="blue",
        )
        grid.add_row(name, bar, usage, words)
    if not nodes:
        grid.add_row("", "", "", Text("no nodes yet", style="dim"))
    elif len(shown) < len(nodes):
        grid.add_row(
            "", "", "", Text(f"and {format_count(len(nodes) - len(shown), 'more node')}", style="dim")
        )
    return grid


def _node(row: NodeRow) -> tuple[Text, Text, Text]:
    words = Text(f"{len(row.here)}: ") if row.ready else Text("not ready ", style="bold red")
    for label in row.coming:
        words.append(f"+{label} ", "dim italic")
    for label, word in row.here:
        words.append(label, STYLES[word]).append(" ")
    usage = Text(f"{100 * row.share:3.0f} % of {row.cores:g} CPU")
    if row.accelerator:
        usage.append(f", {row.accelerator}")
    return Text(row.name, style="bold"), usage, words


def _entries(state: State, began: float) -> list[Text]:
    """Return the latest decisions and transactions, newest first, the refusals after all others."""
    found = latest(state)
    longest = max((len(entry.label) for entry in found), default=0)
    lines = []
    for entry in found:
        line = Text(f"{entry.at - began:6.1f}s ", no_wrap=True, overflow="ellipsis")
        style = style_of_state(entry.state) if entry.ended else ""
        line.append(f"{entry.label:<{longest}} ", "bold").append(entry.what, style)
        line.append(f": {entry.why}" if entry.why else "")
        if entry.refused:
            line.stylize("dim not bold")
        lines.append(line)
    return lines
