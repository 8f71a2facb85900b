"""The changes of jobs in a run as a table, and the course of each job's number of workers."""

from rich.console import Console
from rich.table import Table
from rich.text import Text

from specon_manager.cli.run.result import RunResult, format_seconds
from specon_manager.cli.run.transaction_results import TransactionResult, WorkerCount
from specon_manager.model.transactions import Kind, TransactionState
from specon_manager.views.names import job_label, printable

_STYLES = {TransactionState.ROLLED_BACK: "yellow", TransactionState.FAILED: "red"}


def print_changes(result: RunResult, console: Console) -> None:
    """Print the changes, before and after; nothing where jobs were only admitted."""
    table = to_table(result)
    if not table.row_count:
        return
    console.print(table)
    for name, course in result.workers.items():
        console.print(describe_course(name, course), markup=False, highlight=False, soft_wrap=True)


def to_table(result: RunResult) -> Table:
    """Return a line per change, in the order of their begin; without first admissions that succeeded."""
    table = Table(
        title="changes of jobs, times in seconds", title_justify="left", box=None, padding=(0, 2, 0, 0)
    )
    for title in ("at", "job", "change", "workers"):
        table.add_column(title, no_wrap=True, justify="right" if title == "at" else "left")
    for title in ("checkpoint", "first step after", "downtime", "steps lost"):
        table.add_column(title, justify="right")
    table.add_column("why", overflow="fold", ratio=1)
    admitted = set[str]()
    for change in result.changes:
        if change.kind is Kind.ADMIT and change.state is TransactionState.SUCCEEDED:
            again = change.job in admitted
            admitted.add(change.job)
            if not again:
                continue
        over = "" if change.state is TransactionState.SUCCEEDED else f", {change.state}"
        table.add_row(
            f"{change.started_at:.1f}",
            Text(job_label(change.job)),
            f"{change.kind}{over}",
            f"{change.workers_before} -> {change.workers_after}",
            *(_number(step) for step in (change.checkpoint_step, change.first_step_after)),
            format_seconds(change.downtime, "-"),
            _number(change.steps_lost),
            Text(printable(_why(change))),
            style=_STYLES.get(change.state, ""),
        )
    return table


def describe_course(name: str, course: tuple[WorkerCount, ...]) -> str:
    """Return the course of the number of workers of a job in a line."""
    steps = ", ".join(f"{each.workers} at {each.at:.1f} s" for each in course)
    return f"workers of {job_label(name)}: {steps or 'none'}"


def _why(change: TransactionResult) -> str:
    return f"{change.note}; wanted: {change.reason}" if change.note else change.reason


def _number(value: int | None) -> str:
    return "-" if value is None else str(value)
