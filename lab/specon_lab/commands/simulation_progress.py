"""How far the simulations are: one bar for all of them, or a line for each where there is no terminal.

On the error stream, so that the output for other programs stays clean.
"""

import contextlib
import sys
from collections.abc import Collection, Iterator, Sequence

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

from specon_lab.process_pool import OnProgress
from specon_manager.views.names import printable
from specon_sidecar.counts import format_count


@contextlib.contextmanager
def progress(labels: Sequence[str]) -> Iterator[OnProgress]:
    """Yield what shows the progress of runs that are called so, until the end of the context."""
    console = Console(stderr=True)
    if not console.is_terminal or console.is_dumb_terminal:
        yield _Lines(labels)
        return
    columns = (
        TextColumn("simulating"),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[over]} of {task.fields[runs]} runs"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        shown = bar.add_task("simulating", total=len(labels), over=0, runs=len(labels))

        def update(fractions: Sequence[float], over: Collection[int]) -> None:
            bar.update(shown, completed=sum(fractions), over=len(over))

        yield update


class _Lines:
    """A line for each run that is over."""

    def __init__(self, labels: Sequence[str]) -> None:
        self._labels = labels
        self._told: set[int] = set()

    def __call__(self, fractions: Sequence[float], over: Collection[int]) -> None:
        del fractions
        if len(over) == len(self._told):
            return
        for number in sorted(set(over) - self._told):
            self._told.add(number)
            label = printable(self._labels[number])
            print(
                f"{len(self._told)} of {format_count(len(self._labels), 'run')}: {label}",
                file=sys.stderr,
                flush=True,
            )
