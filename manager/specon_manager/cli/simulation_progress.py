"""How far the simulations are: one bar for all of them, or a line for each where there is no terminal.

On the error stream, so that what is printed for other programs stays clean.
"""

import contextlib
import sys
from collections.abc import Collection, Iterator, Sequence

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

from specon_manager.cli import printable
from specon_manager.cli.simulation_run import OnProgress, Task


@contextlib.contextmanager
def progress(tasks: Sequence[Task]) -> Iterator[OnProgress]:
    """Yield what shows the progress, until the end of the context."""
    console = Console(stderr=True)
    if not console.is_terminal or console.is_dumb_terminal:
        yield _Lines(tasks)
        return
    columns = (
        TextColumn("simulating"),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[over]} of {task.fields[runs]} runs"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        shown = bar.add_task("simulating", total=len(tasks), over=0, runs=len(tasks))

        def update(fractions: Sequence[float], over: Collection[int]) -> None:
            bar.update(shown, completed=sum(fractions), over=len(over))

        yield update


class _Lines:
    """A line for each run that is over."""

    def __init__(self, tasks: Sequence[Task]) -> None:
        self._tasks = tasks
        self._told: set[int] = set()

    def __call__(self, fractions: Sequence[float], over: Collection[int]) -> None:
        del fractions
        if len(over) == len(self._told):
            return
        for number in sorted(set(over) - self._told):
            self._told.add(number)
            task = self._tasks[number]
            label = f"{printable(task.policy.label)}, seed {task.seed}"
            print(f"{len(self._told)} of {len(self._tasks)} runs: {label}", file=sys.stderr, flush=True)
