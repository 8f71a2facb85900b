"""`specon reproduce`: the papers' experiments by simulation, their figures beside ours."""

import argparse
import os
import shlex
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from specon_lab.commands import dragon_plot
from specon_lab.commands.reproduction_json import to_json
from specon_lab.commands.reproduction_page import page
from specon_lab.commands.reproduction_plot import plot_reproduction
from specon_lab.commands.reproduction_run import Plan, Reproduced, make_plan, run_plans, tasks_of
from specon_lab.commands.reproduction_table import print_reproduction, print_summary
from specon_lab.commands.simulation_plot import check_picture
from specon_lab.commands.simulation_progress import progress
from specon_lab.reproduction.ours_traces import trace_reproduction
from specon_lab.reproduction.table import NAMES, reproduction_named
from specon_lab.results.statistics import student_quantile
from specon_manager.cli.output import OUTPUTS, console_for_results
from specon_manager.usage import UsageError
from specon_sidecar.counts import format_count

_ALL: Final = "all"
_OURS: Final = "ours"
_TRACES: Final = "traces"
_STDOUT: Final = "-"
_INTERRUPTED: Final = 130
_PAGE, _PICTURE = "{}.md", "{}.png"
_FURTHER: Final = {"dragon": ("dragon-sweep", dragon_plot.plot)}
"""Pictures beside the one that every paper has; quick runs are too few for them."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument(
        "name", choices=(*NAMES, _ALL), metavar="NAME", help=f"one of {', '.join(NAMES)}, or {_ALL}"
    )
    parser.add_argument("--quick", action="store_true", help="few and small runs, for a first look")
    parser.add_argument(
        "--traces",
        type=Path,
        metavar="DIR",
        help=f"with {_OURS}: on published traces too, in folders pollux, philly, alibaba there",
    )
    parser.add_argument("--jobs", type=int, metavar="N", help="processes (default: one per core)")
    parser.add_argument(
        "--json",
        nargs="?",
        const=_STDOUT,
        metavar="FILE",
        help="write JSON there; without FILE as --output json",
    )
    parser.add_argument(
        "--pages", type=Path, metavar="DIR", help="write a page for each paper there, NAME.md"
    )
    parser.add_argument(
        "-o",
        "--output",
        default="text",
        metavar="{text,json}",
        help="text, or json for other programs; a folder is taken as --pages, as it was in 0.2",
    )
    parser.add_argument(
        "--plot", type=Path, metavar="DIR", help="draw a picture for each paper there, NAME.png"
    )


def main(arguments: argparse.Namespace) -> int:
    """Run and show; 0 when every run came to its end, 1 when one broke, 130 after Ctrl-C.

    A figure that was missed is a result, not an error.
    """
    if arguments.output not in OUTPUTS:
        arguments.pages, arguments.output = Path(arguments.output), "text"
    as_json = arguments.output == "json" or arguments.json == _STDOUT
    processes = _check(arguments)
    plans = _plans(arguments)
    tasks = tasks_of(plans)
    console, began = console_for_results(), time.perf_counter()
    with progress([task.label for task in tasks]) as on_progress:
        results, interrupted = run_plans(plans, tasks, processes=processes, on_progress=on_progress)
    wall = time.perf_counter() - began
    if not as_json:
        for each in results:
            if each.runs:
                print_reproduction(each, console)
        print_summary(results, console)
    if as_json or arguments.json is not None:
        content = to_json(results, command=_command(arguments.name, arguments), quick=arguments.quick)
        if as_json:
            sys.stdout.write(content.decode())
        if arguments.json not in {None, _STDOUT}:
            _write("--json", Path(arguments.json), lambda path: path.write_bytes(content))
    _write_files(arguments, results, wall)
    return _conclude(results, interrupted=interrupted)


def _plans(arguments: argparse.Namespace) -> list[Plan]:
    """Return the runs to make."""
    names = NAMES if arguments.name == _ALL else (arguments.name,)
    plans = [make_plan(reproduction_named(name), quick=arguments.quick) for name in names]
    if arguments.traces is None:
        return plans
    if _OURS not in names:
        raise UsageError(f"--traces: {arguments.name} is not about traces, {_OURS} is")
    try:
        return [*plans, make_plan(trace_reproduction(arguments.traces), quick=arguments.quick)]
    except ValueError as error:  # of the files too: their TraceError is one
        raise UsageError("\n".join(f"--traces: {line}" for line in str(error).splitlines())) from error


def _write_files(arguments: argparse.Namespace, results: Sequence[Reproduced], wall: float) -> None:
    """Write pages and pictures; never those of a paper that is not complete."""
    for each in results:
        name = each.reproduction.name
        if not each.complete:
            continue
        if arguments.pages is not None:
            content = page(each, command=_command(name, arguments), wall_seconds=wall).encode()
            _write("--pages", arguments.pages / _PAGE.format(name), partial(Path.write_bytes, data=content))
        if arguments.plot is not None:
            picture = arguments.plot / _PICTURE.format(name)
            _write("--plot", picture, partial(plot_reproduction, reproduced=each))
            if name in _FURTHER and not arguments.quick:
                title, plot = _FURTHER[name]
                _write("--plot", arguments.plot / _PICTURE.format(title), partial(plot, each.measures))


def _check(arguments: argparse.Namespace) -> int:
    """Return the number of processes; everything that can be wrong is found here, before anything runs."""
    if arguments.jobs is not None and arguments.jobs < 1:
        raise UsageError(f"--jobs: {arguments.jobs} is less than 1")
    try:
        student_quantile(1, 0.5)
        if arguments.plot is not None:
            check_picture(arguments.plot / _PICTURE.format("x"))
    except ModuleNotFoundError as error:
        raise UsageError(str(error)) from error
    if arguments.json not in {None, _STDOUT} and not Path(arguments.json).parent.is_dir():
        path = Path(arguments.json)
        raise UsageError(f"--json: {path}: there is no directory {path.parent}")
    for flag in ("pages", "plot"):
        directory = getattr(arguments, flag)
        if directory is not None and not directory.is_dir():
            raise UsageError(f"--{flag}: there is no directory {directory}")
    return len(os.sched_getaffinity(0)) if arguments.jobs is None else int(arguments.jobs)


def _command(name: str, arguments: argparse.Namespace) -> str:
    """Return the command that prints the same, without what changes no figure, and without paths."""
    words = ["specon", "reproduce", _OURS if name == _TRACES else name]
    words += ["--traces", "DIR"] if name == _TRACES else []
    words += ["--quick"] if arguments.quick else []
    return shlex.join(words)


def _write(flag: str, path: Path, write: Callable[[Path], object]) -> None:
    try:
        write(path)
    except (ValueError, OSError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise UsageError(f"{flag}: {path}: {reason}") from error


def _conclude(results: Sequence[Reproduced], *, interrupted: bool) -> int:
    """Name the missing runs on the error stream, and return the exit code."""
    broken = False
    for each in results:
        name = each.reproduction.name
        for failure in each.failures:
            print(f"specon: {name} {failure.key}, seed {failure.seed}: {failure.failure}", file=sys.stderr)
        if each.trouble:
            print(f"specon: {name}: no tables: {each.trouble}", file=sys.stderr)
        broken = broken or bool(each.failures) or bool(each.trouble)
    if interrupted:
        over, asked = sum(len(each.runs) for each in results), sum(each.asked for each in results)
        print(f"specon: interrupted after {over} of {format_count(asked, 'run')}", file=sys.stderr)
        return _INTERRUPTED
    return 1 if broken else 0
