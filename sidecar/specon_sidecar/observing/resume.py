"""Where a sidecar begins: at the state of the one before it, after the history, or with an empty log.

Reads what an earlier incarnation wrote, once, before the log is followed; of a long log only its two ends.
"""

import logging
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from specon_sidecar.event_files.event_reader import FORMAT, EventReader
from specon_sidecar.event_files.events import EventFiles
from specon_sidecar.event_files.late_reader import LateReader
from specon_sidecar.following.file_position import FilePosition
from specon_sidecar.following.lines import LineSplitter
from specon_sidecar.following.log_choice import Log, choose_log
from specon_sidecar.following.log_file import position_at
from specon_sidecar.formats.table import Reader, make_reader
from specon_sidecar.observing.observer import Observer
from specon_sidecar.observing.reported import FORMAT as REPORTED
from specon_sidecar.observing.reported import ReportReader
from specon_sidecar.observing.state import State
from specon_sidecar.observing.state_file import load
from specon_sidecar.settings import Settings

_LOG: Final = logging.getLogger(__name__)
_CHUNK: Final = 65536
_HEAD_BYTES: Final = 4 * _CHUNK  # of a history: its first value
_END_BYTES: Final = 16 * _CHUNK  # of a history: its last values
_PRIMER_BYTES: Final = _CHUNK


class Beginning(NamedTuple):
    """An observer that knows the history, and where in the log it goes on (None at its beginning)."""

    observer: Observer
    start: FilePosition | EventFiles | None


def begin(settings: Settings, now: float, log: Log | None = None) -> Beginning:
    """Return where to begin, by the state file and the log as they are now; unreadable ones count as none.

    `log` is what the path in the settings means. Raises EventsError for event files without their package.
    """
    log = choose_log(settings.log) if log is None else log
    state = None if settings.state_file is None else load(Path(settings.state_file))
    reader = _reader(settings, state, log)
    observer = Observer(settings.classifier, reader, now, state=state, options=settings.format_options)
    same = state is not None and state.incarnation == settings.incarnation
    if state is not None and same:
        observer.go_on(state, now)
    return Beginning(observer, _start_at(settings, observer, state, log, now, same=same))


def _start_at(
    settings: Settings, observer: Observer, state: State | None, log: Log, now: float, *, same: bool
) -> FilePosition | EventFiles | None:
    if log.kind == "events":
        return _start_events(settings, observer, state, log, now, same=same)
    try:
        file = os.open(log.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        return _start(settings, observer, state, file, now, same=same)
    except OSError:
        return None
    finally:
        os.close(file)


def _start(
    settings: Settings, observer: Observer, state: State | None, file: int, now: float, *, same: bool
) -> FilePosition | None:
    status = os.fstat(file)
    fresh_from = status.st_size if settings.fresh_from is None else settings.fresh_from
    if fresh_from > status.st_size:
        fresh_from = 0  # the log was replaced since
    place = None
    if state is not None and state.place == position_at(file, status, state.place.offset):
        place = state.place
        for lines in _lines(file, 0, min(place.offset, _PRIMER_BYTES)):
            observer.prime(lines)
        if same:
            return place
        fresh_from = max(fresh_from, place.offset)
    read_from = 0 if place is None else place.offset
    for lines in _ends(file, read_from, fresh_from):
        # With a curve from the state, but not this place, the lines before would be counted twice.
        if state is not None and place is None:
            observer.prime(lines)
        else:
            observer.take_history(lines, now)
    observer.end_history(now)
    # Where it is larger by now, the incarnation of now wrote last.
    written = status.st_mtime if fresh_from >= status.st_size else settings.fresh_since
    if not same and written is not None:
        observer.end_former(now, max(0.0, time.time() - written))
    return position_at(file, status, fresh_from)


def _start_events(
    settings: Settings, observer: Observer, state: State | None, log: Log, now: float, *, same: bool
) -> EventFiles:
    known = {} if state is None else state.event_files
    files = EventFiles(log.path, positions=known, on_problem=_LOG.warning)
    for lines in files.head():
        observer.prime(lines)
    if same and known:
        return files
    for lines in files.history(settings.fresh_from):
        if state is not None and not known:
            observer.prime(lines)
        else:
            observer.take_history(lines, now)
    observer.end_history(now)
    return files


def _reader(settings: Settings, state: State | None, log: Log) -> Reader:
    options = settings.format_options
    if settings.hook is not None and state is not None and state.format == REPORTED:
        return ReportReader(options)
    if log.kind == "events":
        return EventReader(options)
    known = None if state is None or settings.format != "auto" else state.format
    if known is not None and known != FORMAT:
        try:
            return make_reader(known, options)
        except ValueError:
            pass  # the state of another version: found out again
    if log.kind == "later" or not log.path.exists():
        return LateReader(settings.format, options)
    return make_reader(settings.format, options)


def _ends(file: int, start: int, end: int) -> Iterator[list[bytes]]:
    """Yield the lines between two places, of a long stretch only those at its two ends."""
    if end - start <= _HEAD_BYTES + _END_BYTES:
        yield from _lines(file, start, end)
        return
    yield from _lines(file, start, start + _HEAD_BYTES)
    chunk = os.pread(file, _CHUNK, end - _END_BYTES)
    # The first line after the gap is cut.
    yield from _lines(file, end - _END_BYTES + max(chunk.find(b"\n"), chunk.find(b"\r")) + 1, end)


def _lines(file: int, start: int, end: int) -> Iterator[list[bytes]]:
    """Yield the complete lines between two places; a last one without its end is the trace of a crash."""
    splitter = LineSplitter()
    while start < end:
        chunk = os.pread(file, min(_CHUNK, end - start), start)
        if not chunk:
            return
        start += len(chunk)
        lines = splitter.feed(chunk)
        if lines:
            yield lines
