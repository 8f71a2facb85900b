"""Where a sidecar begins: at the state of the one before it, after the history, or with an empty log.

Reads what an earlier incarnation wrote, once, before the log is followed; of a long log only its two ends.
"""

import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from specon_sidecar.formats.parser import FormatOptions
from specon_sidecar.formats.table import Reader, make_reader
from specon_sidecar.lines import LineSplitter
from specon_sidecar.log_file import MARK_BYTES, Position
from specon_sidecar.observer import Observer
from specon_sidecar.settings import Settings
from specon_sidecar.state import Place, State
from specon_sidecar.state_file import load

_CHUNK: Final = 65536
_HEAD_BYTES: Final = 4 * _CHUNK  # of a history: its first value
_END_BYTES: Final = 16 * _CHUNK  # of a history: its last values
_PRIMER_BYTES: Final = _CHUNK


class Beginning(NamedTuple):
    """An observer that knows what was before, and where in the log it goes on (None at its beginning)."""

    observer: Observer
    start: Position | None


def begin(settings: Settings, now: float) -> Beginning:
    """Return where to begin, by the state file and the log as they are now; unreadable ones count as none."""
    state = None if settings.state_file is None else load(Path(settings.state_file))
    reader = _reader(settings, state)
    observer = Observer(settings.classifier, reader, now, state=state)
    same = state is not None and state.incarnation == settings.incarnation
    if state is not None and same:
        observer.go_on(state, now)
    try:
        file = os.open(settings.log, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return Beginning(observer, None)
    try:
        return Beginning(observer, _start(settings, observer, state, file, now, same=same))
    except OSError:
        return Beginning(observer, None)
    finally:
        os.close(file)


def _start(
    settings: Settings, observer: Observer, state: State | None, file: int, now: float, *, same: bool
) -> Position | None:
    status = os.fstat(file)
    fresh_from = status.st_size if settings.fresh_from is None else settings.fresh_from
    if fresh_from > status.st_size:
        fresh_from = 0  # the log was replaced since
    place = None
    if state is not None and state.place == _place(file, status, state.place.offset):
        place = state.place
        for lines in _lines(file, 0, min(place.offset, _PRIMER_BYTES)):
            observer.prime(lines)
        if same:
            return Position(place.device, place.inode, place.offset, place.check)
        fresh_from = max(fresh_from, place.offset)
    read_from = 0 if place is None else place.offset
    for lines in _ends(file, read_from, fresh_from):
        # With a curve from the state, but not this place, the lines before would be counted twice.
        if state is not None and place is None:
            observer.prime(lines)
        else:
            observer.take_history(lines, now)
    observer.end_history(now)
    begun = _place(file, status, fresh_from)
    return Position(begun.device, begun.inode, begun.offset, begun.check)


def _reader(settings: Settings, state: State | None) -> Reader:
    options = FormatOptions(metric=settings.metric, pattern=settings.pattern)
    if state is not None and settings.format == "auto":
        try:
            return make_reader(state.format, options)
        except ValueError:
            pass  # the state of another version: found out anew
    return make_reader(settings.format, options)


def _place(file: int, status: os.stat_result, offset: int) -> Place:
    length = min(offset, MARK_BYTES)
    check = zlib.crc32(os.pread(file, length, offset - length))
    return Place(status.st_dev, status.st_ino, offset, check)


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
