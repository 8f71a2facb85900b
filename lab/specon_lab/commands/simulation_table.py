"""What a simulation came to as a table: a line per figure, a column per policy."""

from collections.abc import Iterator, Sequence
from typing import Final, Literal

from rich.console import Console
from rich.table import Table
from rich.text import Text

from specon_lab.results.figures import FIGURES, Better, Unit
from specon_lab.results.report import PolicySummary, Report
from specon_lab.results.statistics import Interval
from specon_manager.views.names import job_label, printable
from specon_sidecar.counts import format_count

_ALWAYS: Final = frozenset(
    {
        *("completion.mean", "completion.p50", "completion.p95", "completion.p99", "makespan"),
        *("utilisation.allocated", "utilisation.used", "waiting.mean", "jobs.completed"),
    }
)
"""These have a line even where they are 0 under every policy."""
_HIDDEN: Final = frozenset({"decisions"})
_COMPARED: Final = (
    *("completion.mean", "completion.p50", "completion.p95", "completion.p99"),
    *("convergence.mean", "convergence.p95", "makespan"),
    *("slowdown.trial.p95", "slowdown.best-effort.p95", "fairness.p99", "waiting.mean", "utilisation.used"),
)
_MAX_TROUBLES: Final = 10
_UNKNOWN: Final = "-"
_NOTHING: Final = (None, None)

ShownCell = tuple[str, str]
"""Text and style."""
ShownRow = tuple[str, list[ShownCell]]


def print_report(report: Report, console: Console, *, title: str) -> None:
    """Print the tables, as many policies side by side as there is room for, then the jobs left over."""
    console.print(title, style="bold", markup=False, highlight=False, soft_wrap=True)
    rows = [*_figures(report), *_comparison(report)]
    for columns in _blocks(report.policies, rows, console.width):
        console.print(_table(report, rows, columns))
    for line in troubles(report):
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def troubles(report: Report) -> list[str]:
    """Return in words which jobs did not complete and why, no more than a few for each policy."""
    lines = []
    for summary in report.policies:
        few = summary.troubles[:_MAX_TROUBLES]
        count = len(summary.troubles) + summary.troubles_not_listed
        if not count:
            continue
        lines.append(f"{printable(summary.policy)}: {format_count(count, 'job')} did not complete")
        lines += [
            f"  seed {each.seed}, {job_label(each.job)}, {each.state}: "
            + (printable(each.reason) or "no reason known")
            for each in few
        ]
        if count > len(few):
            lines.append(f"  and {count - len(few)} more")
    return lines


def format_mean(interval: Interval | None, unit: Unit | Literal["percent"], *, signed: bool = False) -> str:
    """Return a mean, with half the width of its interval where several runs were made; shares as percent."""
    if interval is None:
        return _UNKNOWN
    factor, suffix = {"share": (100, " %"), "percent": (1, " %")}.get(unit, (1, ""))
    mean, half = factor * interval.mean, factor * (interval.half_width or 0.0)
    places = _places(mean, half, unit)
    sign = "+" if signed else ""
    spread = f" ± {half:,.{places}f}" if half else ""
    return f"{mean:{sign},.{places}f}{spread}{suffix}"


def _places(mean: float, half: float, unit: str) -> int:
    """Return how many places are shown: both numbers have the same."""
    if unit == "ratio":
        return 2
    if unit == "count" and mean == round(mean) and half == round(half):
        return 0
    return 1 if abs(mean) < 1000 else 0  # noqa: PLR2004  (five digits)


def _figures(report: Report) -> Iterator[ShownRow]:
    for key, figure in FIGURES.items():
        intervals = [summary.figures[key] for summary in report.policies]
        seen = any(each is not None and each.mean for each in intervals)
        if key in _HIDDEN or not (seen or key in _ALWAYS):
            continue
        title = figure.title + (" (s)" if figure.unit == "s" else "")
        yield title, [(format_mean(each, figure.unit), "") for each in intervals]
    if any(summary.seconds is not None for summary in report.policies):
        yield (
            "time of the computer (s)",
            [(format_mean(summary.seconds, "s"), "") for summary in report.policies],
        )


def _comparison(report: Report) -> Iterator[ShownRow]:
    against = [summary.against for summary in report.policies]
    if report.baseline is None or not any(against):
        return
    yield f"against {printable(report.baseline)}", [("", "")] * len(against)
    for key in _COMPARED:
        changes = [None if each is None else each.changes[key] for each in against]
        percents = [None if each is None else each.percent for each in changes]
        if any(percents):
            better = FIGURES[key].better
            cells = [(format_mean(each, "percent", signed=True), _style(each, better)) for each in percents]
            yield f"  {FIGURES[key].title}", cells
    margin = f"over {report.hurt_margin_percent:g} %"
    helped = [(each.helped, each.helped_share) if each else _NOTHING for each in against]
    hurt = [(each.hurt, each.hurt_share) if each else _NOTHING for each in against]
    yield f"  jobs helped ({margin})", [(_count(*each), "") for each in helped]
    yield f"  jobs hurt ({margin})", [(_count(*each), "") for each in hurt]
    neither = [each.not_comparable if each else None for each in against]
    if any(each is not None and each.mean for each in neither):
        yield "  jobs completed under neither", [(_count(each, None), "") for each in neither]


def _count(count: Interval | None, share: Interval | None) -> str:
    text = format_mean(count, "count")
    return text if share is None else f"{text} ({100 * share.mean:.1f} %)"


def _style(interval: Interval | None, better: Better) -> str:
    """Return green or red where the interval leaves no doubt on which side of no change the mean is."""
    if interval is None or interval.low is None or interval.high is None or better == "neither":
        return ""
    if interval.low <= 0 <= interval.high:
        return ""
    return "green" if (interval.mean < 0) is (better == "lower") else "red"


def _blocks(policies: Sequence[PolicySummary], rows: Sequence[ShownRow], width: int) -> Iterator[range]:
    """Divide the policies into tables that are no wider than the console; each holds at least one."""
    first, used = 0, 0
    names = max((len(title) for title, _ in rows), default=0) + 2
    for number, summary in enumerate(policies):
        cells = (len(cells[number][0]) for _, cells in rows)
        wide = max(len(printable(summary.policy)), *cells) + 2
        if number > first and names + used + wide > width:
            yield range(first, number)
            first, used = number, 0
        used += wide
    if policies:
        yield range(first, len(policies))


def _table(report: Report, rows: Sequence[ShownRow], columns: range) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("")
    for number in columns:
        policy = report.policies[number].policy
        table.add_column(Text(printable(policy)), justify="right", overflow="fold")
    table.add_row("runs", *(str(len(report.policies[number].seeds)) for number in columns))
    if report.baseline is not None:
        marks = [
            "baseline" if report.policies[number].policy == report.baseline else "" for number in columns
        ]
        table.add_row("", *marks)
    for title, cells in rows:
        table.add_row(Text(title), *(Text(*cells[number]) for number in columns))
    return table
