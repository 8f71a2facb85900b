"""`specon classify --follow`: judges a log while it grows, by the clock."""

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from specon_manager.cli.output import LITERAL
from specon_manager.cli.plain import is_terminal
from specon_manager.cli.study.course import Course, KeptSamples, divide_by_count, place
from specon_manager.cli.study.curve_view import draw
from specon_manager.cli.study.reading import Reading, with_goal

if TYPE_CHECKING:
    from specon_sidecar.classify import ClassifierSettings

_LOOK_SECONDS: Final = 0.2
_HEIGHT: Final = 16
_MOST_SAMPLES: Final = 1024  # of one interval; more are merged


def follow(
    reading: Reading, settings: "ClassifierSettings", *, goal: str | None, intervals: int
) -> Course | None:
    """Follow until Ctrl-C and return the course.

    What the log holds at first is divided evenly into `intervals`; from then on each `settings.interval`
    seconds are one.
    """
    course: Course | None = None
    waiting = KeptSamples(_MOST_SAMPLES)
    with contextlib.suppress(KeyboardInterrupt), _show() as tell:
        due = time.monotonic() + settings.interval
        while reading.reader.unclassifiable is None:
            for lines in reading.log.read(lambda _: None):
                waiting.extend(reading.take(lines))
            if course is None and reading.kept.count:
                course = Course(with_goal(settings, reading, goal), reading.reader.chosen)
                for part in divide_by_count(reading.kept.all(), intervals):
                    course.close_interval(part)
                waiting = KeptSamples(_MOST_SAMPLES)
                tell(course)
            if time.monotonic() >= due:
                due = max(due + settings.interval, time.monotonic())
                if course is not None:
                    course.close_interval(waiting.all())
                    waiting = KeptSamples(_MOST_SAMPLES)
                    tell(course)
            time.sleep(_LOOK_SECONDS)
    reading.finish()
    return course


@contextlib.contextmanager
def _show() -> Iterator[Callable[[Course], None]]:
    """Show the course: drawn again on a terminal, else a line for each interval."""
    if not is_terminal():
        yield lambda course: print(_line(course), flush=True)
        return
    # Only here: a finished log, or one on a pipe, needs none of it.
    from rich.console import Console, Group  # noqa: PLC0415 - see above
    from rich.live import Live  # noqa: PLC0415 - see above
    from rich.text import Text  # noqa: PLC0415 - see above

    console = Console(**LITERAL)
    with Live(console=console, auto_refresh=False, transient=True) as live:

        def tell(course: Course) -> None:
            drawn = draw(course.points, width=console.width - 1, height=_HEIGHT)
            lines = [Text.assemble(*line.pieces) for line in drawn]
            live.update(Group(*lines, Text(_line(course))), refresh=True)

        yield tell


def _line(course: Course) -> str:
    judgement, last = course.judgement, course.last
    where = "no sample" if last is None else place(last)
    value = "-" if judgement.value is None else f"{judgement.value:.5g}"
    gain = "-" if judgement.gain is None else f"{judgement.gain:.3g}"
    return f"{where}  value {value}  gain {gain}  {judgement.category}"
