"""Reads a log to its end as if replayed, its samples divided evenly into intervals."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from specon_sidecar.following.lines import LineSplitter
from specon_sidecar.formats.table import Reader, make_reader
from specon_sidecar.observing.observer import Observer
from specon_sidecar.reporting.console import Narrator, summary
from specon_sidecar.settings import Settings

INTERVALS: Final = 50
_CHUNK: Final = 1 << 18


def read_once(settings: Settings, write: Callable[[str], object]) -> Observer:
    """Read the log, write what changes, and the verdict, and return the observer; raises OSError.

    The log tells no reliable times, so that a hundred samples are a hundred equal steps of time.
    """
    samples = 0
    reader = _reader(settings)
    for lines in _batches(Path(settings.log)):
        samples += len(reader.read(lines))
    samples += len(reader.finish())
    per_interval = max(1, samples // INTERVALS)
    # The second reading is told the format, so that no samples are held back and come all at once.
    observer = Observer(settings.classifier, _reader(settings, reader.chosen), 0.0)
    narrator = Narrator()
    interval = settings.classifier.interval
    now, closed = 0.0, 0
    for lines in _batches(Path(settings.log)):
        for line in lines:
            observer.take([line], now)
            if observer.samples - closed >= per_interval:
                now, closed = now + interval, observer.samples
                observer.tick(now)
                for text in narrator.changes(observer):
                    write(text)
    if observer.samples > closed or not samples:
        observer.tick(now + interval)
    for text in (*narrator.changes(observer), *summary(observer)):
        write(text)
    return observer


def _reader(settings: Settings, chosen: str | None = None) -> Reader:
    return make_reader(chosen or settings.format, settings.format_options)


def _batches(path: Path) -> Iterator[list[bytes]]:
    splitter = LineSplitter()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            lines = splitter.feed(chunk)
            if lines:
                yield lines
    rest = splitter.flush()
    if rest is not None:
        yield [rest]
