"""`specon classify PATH`: what a finished or a growing log says about its job, and what would have been done.

It uses the same readers and the same classifier as the sidecar. A finished log has no reliable times, so it
is divided into equal parts, and each part counts as one interval.
"""

import argparse
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from specon_manager.cli.output import add_output
from specon_manager.cli.pattern_proposal import propose
from specon_manager.cli.plain import is_terminal, terminal_width
from specon_manager.cli.study.classification import Classification, head, report, verdict
from specon_manager.cli.study.classify_follow import follow
from specon_manager.cli.study.course import Course, KeptSamples, divide_by_count, divide_by_time
from specon_manager.cli.study.curve_plot import plot_curve
from specon_manager.cli.study.curve_view import draw
from specon_manager.cli.study.likeliest import Names
from specon_manager.cli.study.log_input import open_log, refuse_without_lines
from specon_manager.cli.study.reading import Reading, with_goal
from specon_manager.usage import UsageError
from specon_sidecar import parse
from specon_sidecar.classify import ClassifierSettings
from specon_sidecar.classify.judgement import ASSUMED
from specon_sidecar.event_files.event_reader import EventReader
from specon_sidecar.formats.parser import FormatOptions
from specon_sidecar.formats.reader import Reader
from specon_sidecar.formats.table import make_reader

_HEIGHT: Final = 16
_PLAIN_WIDTH: Final = 100
_LARGE: Final = 16 << 20  # bytes that are worth a progress bar
_INTERVALS: Final = 50


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    defaults = ClassifierSettings()
    parser.add_argument("path", type=Path, help="a log, an event file, or a directory with one")
    parser.add_argument("--format", default="auto", help="format of the log (auto)")
    parser.add_argument("--pattern", help="regular expression with named groups (value, step, epoch, ...)")
    parser.add_argument("--metric", help="name of the metric to judge by")
    parser.add_argument("--goal", choices=("min", "max"), help="whether less or more is better (by its name)")
    parser.add_argument(
        "--classifier",
        choices=("specon", "horizon"),
        default=defaults.classifier,
        help=f"how to judge ({defaults.classifier})",
    )
    parser.add_argument(
        "--alpha",
        type=_make_type(parse.number(1e-9, 0.999)),
        default=defaults.alpha,
        help="specon: gain per interval below which a job is slow (0.01)",
    )
    parser.add_argument(
        "--interval",
        type=_make_type(parse.number(0.05, 86400)),
        help="seconds: divide by the times in the log, or with --follow by wall-clock time (30)",
    )
    parser.add_argument(
        "--intervals",
        type=_make_type(parse.integer(1, 10_000)),
        default=_INTERVALS,
        help=f"divide a finished log into so many parts ({_INTERVALS})",
    )
    parser.add_argument("--follow", action="store_true", help="follow the log as it grows, until Ctrl-C")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw the curve into a file, e.g. out.png")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the answer as JSON into a file")
    add_output(parser)


def main(arguments: argparse.Namespace) -> int:
    """Classify; 0 when the log was recognised, 1 when not; raises UsageError for a file that is no log."""
    reading = begin(arguments)
    settings = ClassifierSettings(
        classifier=arguments.classifier,
        alpha=arguments.alpha,
        interval=arguments.interval or ClassifierSettings().interval,
    )
    if arguments.follow:
        course = follow(reading, settings, goal=arguments.goal, intervals=arguments.intervals)
    else:
        _read(reading)
        if not reading.lines:
            refuse_without_lines(reading.log)
        course = judge(reading, with_goal(settings, reading, arguments.goal), arguments)
    found = conclude(reading, settings, course, arguments.goal)
    if arguments.output == "json":
        sys.stdout.write(report(found).decode())
    else:
        show(found)
    if arguments.json is not None:
        _write(arguments.json, "--json", lambda path: path.write_bytes(report(found)))
    if arguments.plot is not None and course is not None:
        title = f"{arguments.path.name}: {course.judgement.category}"
        metric = found.metric or ""
        _write(arguments.plot, "--plot", lambda path: plot_curve(path, course, title=title, metric=metric))
    return 0 if found.recognised else 1


def begin(arguments: argparse.Namespace) -> Reading:
    """Open the log and make its reader; raises UsageError."""
    options = FormatOptions(metric=arguments.metric, pattern=arguments.pattern, goal=arguments.goal)
    try:
        reader = make_reader(arguments.format, options)
    except ValueError as error:
        raise UsageError(f"--format, --pattern, --metric: {error}") from error
    log = open_log(arguments.path, follow=arguments.follow)
    if log.log.kind == "events":
        reader = EventReader(options)
    return Reading(log, options, reader, KeptSamples(), Names())


def judge(reading: Reading, settings: ClassifierSettings, arguments: argparse.Namespace) -> Course | None:
    """Return the course of a log that was read to its end; None where there is nothing to judge.

    Raises UsageError for an interval, in seconds, in which the log cannot be divided.
    """
    if not reading.kept.count or reading.reader.unclassifiable is not None:
        return None
    samples = reading.kept.all()
    parts = divide_by_count(samples, arguments.intervals)
    if arguments.interval is not None and reading.kept.timed:
        parts = divide_by_time(samples, arguments.interval)
    elif arguments.interval is not None:
        reading.log.notes.append(
            "--interval: the samples have no times, or times that go back; divided evenly instead"
        )
    course = Course(settings, reading.reader.chosen)
    try:
        for part in parts:
            course.close_interval(part)
    except ValueError as error:
        raise UsageError(f"--interval: {error}") from error
    return course


def conclude(
    reading: Reading, settings: ClassifierSettings, course: Course | None, goal: str | None
) -> Classification:
    """Return all that is known."""
    kept, log = reading.kept, reading.log
    named = reading.reader.goal
    goal_from = "as its name says" if named is not None else ASSUMED
    found = Classification(
        path=str(log.log.path),
        why=log.log.reason,
        reader=reading.reader,
        settings=with_goal(settings, reading, goal),
        goal_from="as --goal says" if goal is not None else goal_from,
        metric=None if kept.last is None else kept.last.name,
        lines=reading.lines,
        samples=kept.count,
        oversized=log.oversized,
        first=kept.first,
        last=kept.last,
        total=reading.reader.total,
        course=course,
        notes=log.notes,
    )
    if found.recognised:
        return found
    readings = reading.names.readings(reading.reader.evidence, lambda metric: _choose_reader(reading, metric))
    lines = reading.names.lines
    proposal = None if readings else propose(lines)
    return msgspec.structs.replace(found, readings=readings, proposal=proposal, examples=lines)


def show(found: Classification) -> None:
    """Print it."""
    for line in head(found):
        print(line)
    if found.course is not None:
        width = terminal_width(_PLAIN_WIDTH)
        print()
        for text in draw(found.course.points, width=width - 1, height=_HEIGHT):
            print(text.on(colours=is_terminal()))
        print(f"\njudged    by {found.settings.classifier}")
    for line in verdict(found):
        print(line)


def _choose_reader(reading: Reading, metric: str) -> Reader:
    options = FormatOptions(metric=metric)
    return EventReader(options) if reading.log.log.kind == "events" else make_reader("auto", options)


def _read(reading: Reading) -> None:
    """Read to the end; a large log shows on a terminal how far it is."""
    if reading.log.size < _LARGE or not sys.stderr.isatty() or importlib.util.find_spec("rich") is None:
        for lines in reading.log.read(lambda _: None):
            reading.take(lines)
    else:
        from rich.console import Console  # noqa: PLC0415 - few logs are so large
        from rich.progress import (  # noqa: PLC0415 - few logs are so large
            BarColumn,
            DownloadColumn,
            Progress,
            TimeRemainingColumn,
        )

        console = Console(stderr=True)
        columns = (BarColumn(), DownloadColumn(), TimeRemainingColumn())
        with Progress(*columns, console=console, transient=True) as progress:
            task = progress.add_task("reading", total=reading.log.size)
            for lines in reading.log.read(lambda done: progress.update(task, completed=done)):
                reading.take(lines)
    reading.finish()


def _write(path: Path, flag: str, write: Callable[[Path], object]) -> None:
    try:
        write(path)
    except OSError as error:
        raise UsageError(f"{flag}: {path}: {error.strerror or error}") from error
    except (ValueError, ModuleNotFoundError) as error:
        raise UsageError(f"{flag}: {path}: {error}") from error


def _make_type(read: Callable[[str], object]) -> Callable[[str], object]:
    """Let argparse name the mistake of a value, not only that there is one."""

    def checked(text: str) -> object:
        try:
            return read(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(f"{text!r} {error}") from error

    return checked
