"""Reads TensorBoard event files, one file or all below a directory, as far as they are written."""

import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from specon_sidecar.event_files.event_line import EventLine, encode
from specon_sidecar.following.file_position import FilePosition
from specon_sidecar.following.log_choice import (
    MOST_ENTRIES,
    Entry,
    Log,
    choose_log,
    is_event_name,
    list_files,
)
from specon_sidecar.following.log_file import position_at
from specon_sidecar.formats.name_words import VALIDATION, words

if TYPE_CHECKING:
    from specon_sidecar.event_files.event_records import EventRecords

MOST_FILES: Final = 1000
_BATCH: Final = 500
_MOST_SCALARS: Final = 1000  # of one event
_LONGEST_TAG: Final = 512
_HEAD_BYTES: Final = 16_384  # of the first file of each run: which tags there are
_MOST_HEADS: Final = 64
_HISTORY_BYTES: Final = 1 << 20  # of a history: the files' first and last so many bytes
_BEGUN: Final = re.compile(r"tfevents\.(\d{9,12})")


class EventsError(Exception):
    """Event files cannot be read on this machine; the text names the missing part."""


class EventCounters(msgspec.Struct):
    """Observations so far."""

    files: int = 0
    events: int = 0
    """With at least one scalar."""
    corrupt: int = 0
    """Damaged places, at which at least one record was lost."""
    oversized: int = 0
    """Records passed over because they were too large."""
    replaced: int = 0
    """Files read again from their beginning, for they shrank or hold something else."""


class _File(NamedTuple):
    name: str
    run: str
    size: int
    begun: float


class _Known(NamedTuple):
    position: FilePosition
    size: int
    changed_at: int


class EventFiles:
    """Hands out the events of the file or directory at `path` as lines of `event_line`, in batches.

    Files are read in the order in which they were begun, each to its end, and only as far as their records
    are complete; a later `read` goes on from there. At most `MOST_FILES` files are followed, the last begun.
    Nothing that happens to a file raises; `on_problem` gets a sentence, once. With `latest_run` only the run
    that began last counts, for to join several into one curve would mean nothing.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        positions: Mapping[str, FilePosition] | None = None,
        on_problem: Callable[[str], None] | None = None,
        latest_run: bool = False,
    ) -> None:
        """Go on at `positions`, by file name below the path, where those files are still the same."""
        self._path = Path(path)
        self._latest_run = latest_run
        self._tell = on_problem or (lambda _: None)
        self._told: set[str] = set()
        self._known = {name: _Known(one, -1, -1) for name, one in (positions or {}).items()}
        self.counters = EventCounters()
        self.directories: tuple[str, ...] = ()
        """Where the files of the last `read` are, for a watch."""

    @property
    def positions(self) -> dict[str, FilePosition]:
        """How far each file was read."""
        return {name: known.position for name, known in self._known.items()}

    @property
    def size(self) -> int:
        """Bytes of all files together, now."""
        return sum(file.size for file in self._files())

    def read(self) -> Iterator[list[bytes]]:
        """Yield events written since the last call. Raises EventsError without the package tensorboard."""
        files = self._files()
        known = {file.name for file in files}
        for name in [name for name in self._known if name not in known]:
            del self._known[name]
        self.counters.files = len(files)
        for file in files:
            yield from self._read(file)

    def history(self, until: int | None = None) -> Iterator[list[bytes]]:
        """Yield what lies in the first `until` bytes of the files in their order (None for all there is).

        What comes after is left to `read`. Writers begin a new file, so the files of an earlier incarnation
        are the first ones. Of a long history only its two ends are read.
        """
        files = self._files()
        total = sum(file.size for file in files)
        until = total if until is None else until
        if until > total:
            return  # the files were replaced since
        begin = 0
        for file in files:
            size = min(file.size, until - begin)
            skip = None
            if until > 2 * _HISTORY_BYTES:
                skip = max(0, _HISTORY_BYTES - begin), until - _HISTORY_BYTES - begin
            if size > 0:
                yield from self._read(file, size, skip)
            begin += file.size

    def head(self) -> Iterator[list[bytes]]:
        """Yield the beginnings of the files read already: which runs and tags there are."""
        other = EventFiles(self._path)
        runs: set[str] = set()
        for file in self._files():
            known = self._known.get(file.name)
            if known is not None and file.run not in runs and len(runs) < _MOST_HEADS:
                runs.add(file.run)
                yield from other._read(file, min(known.position.offset, _HEAD_BYTES))

    def _read(
        self, file: _File, until: int | None = None, skip: tuple[int, int] | None = None
    ) -> Iterator[list[bytes]]:
        path = self._path / file.name if file.name else self._path
        known = self._known.get(file.name)
        try:
            opened = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except FileNotFoundError:
            return
        except OSError as error:
            self._problem(f"cannot open {path}: {error.strerror}")
            return
        try:
            status = os.fstat(opened)
            if not stat.S_ISREG(status.st_mode):
                return
            seen = status.st_size, status.st_mtime_ns
            if known is not None and (known.size, known.changed_at) == seen and _same(known, status):
                return
            records = self._begin(opened, status, known)
            size = status.st_size if until is None else min(until, status.st_size)
            yield from self._lines(opened, records, file, size, skip)
            if records.given_up:
                self._problem(f"{path}: no record can be found behind byte {records.offset}")
            if until is None:
                self._known[file.name] = self._known[file.name]._replace(size=seen[0], changed_at=seen[1])
        except OSError as error:
            self._problem(f"cannot read {path}: {error.strerror}")
        finally:
            os.close(opened)

    def _begin(self, opened: int, status: os.stat_result, known: _Known | None) -> "EventRecords":
        try:
            # Only here: most jobs write no event files, and the package takes memory.
            from specon_sidecar.event_files.event_records import EventRecords  # noqa: PLC0415 - see above
        except ImportError as error:
            raise EventsError(
                f"event files need the package tensorboard: pip install 'specon[tensorboard]' ({error})"
            ) from error
        if known is None:
            return EventRecords()
        position = known.position
        if _same(known, status) and position_at(opened, status, position.offset) == position:
            return EventRecords(position.offset)
        self.counters.replaced += 1
        return EventRecords()

    def _lines(
        self, opened: int, records: "EventRecords", file: _File, size: int, skip: tuple[int, int] | None
    ) -> Iterator[list[bytes]]:
        from specon_sidecar.event_files.event_scalars import scalars  # noqa: PLC0415 - see `_begin`

        batch: list[bytes] = []
        for data in self._records(opened, records, size, skip):
            event = scalars(data, most=_MOST_SCALARS, longest=_LONGEST_TAG)
            if event is None:
                self.counters.corrupt += 1
            elif event.values:
                self.counters.events += 1
                batch.append(encode(EventLine(file.run, event.step, event.time, event.values)))
                if len(batch) >= _BATCH:
                    # Before the batch is handed out, so that a state that is saved then counts it once.
                    self._keep(opened, file, records.offset)
                    yield batch
                    batch = []
        self._keep(opened, file, records.offset)
        self.counters.corrupt += records.corrupt
        self.counters.oversized += records.passed_over
        if batch:
            yield batch

    def _keep(self, opened: int, file: _File, offset: int) -> None:
        self._known[file.name] = _Known(position_at(opened, os.fstat(opened), offset), -1, -1)

    @staticmethod
    def _records(
        opened: int, records: "EventRecords", size: int, skip: tuple[int, int] | None
    ) -> Iterator[bytes]:
        if skip is None or not 0 <= skip[0] < skip[1]:
            yield from records.read(opened, size)
            return
        begin, end = skip
        yield from records.read(opened, min(begin, size))
        if end > records.offset:
            records.go_near(opened, min(end, size), size)
        yield from records.read(opened, size)

    def _files(self) -> list[_File]:
        """Return the event files in the order in which they were begun."""
        try:
            status = self._path.stat()
        except (OSError, ValueError) as error:
            if not isinstance(error, FileNotFoundError):
                self._problem(f"cannot look at {self._path}: {getattr(error, 'strerror', None) or error}")
            return []
        if not stat.S_ISDIR(status.st_mode):
            self.directories = (os.fspath(self._path.parent),)
            return [_File("", "", status.st_size, status.st_mtime)]
        entries, whole = list_files(self._path)
        if not whole:
            self._problem(f"{self._path} has more than {MOST_ENTRIES} entries: not all were looked at")
        files = [
            _File(entry.name, entry.name.rpartition("/")[0], entry.status.st_size, _find_begin(entry))
            for entry in entries
            if is_event_name(entry.name)
        ]
        # Of files begun in the same second those of the training first: their tags are the better ones.
        files.sort(key=lambda file: (file.begun, not VALIDATION.isdisjoint(words(file.run)), file.name))
        if len(files) > MOST_FILES:
            self._problem(f"{self._path} has {len(files)} event files: only the last {MOST_FILES} are read")
            files = files[-MOST_FILES:]
        if self._latest_run:
            files = self._of_latest_run(files)
        self.directories = tuple(dict.fromkeys(os.fspath(self._path / file.run) for file in files))
        return files

    def _of_latest_run(self, files: list[_File]) -> list[_File]:
        from specon_sidecar.event_files.event_reader import run_of  # noqa: PLC0415 - only where it is asked for

        begun: dict[str, float] = {}
        for file in files:
            begun.setdefault(run_of(file.run), file.begun)
        if len(begun) > 1:
            latest = max(begun, key=lambda run: begun[run])
            where = self._path / latest
            self._problem(f"{self._path} has {len(begun)} runs: only the last begun is read, {where}")
            return [file for file in files if run_of(file.run) == latest]
        return files

    def _problem(self, sentence: str) -> None:
        if sentence not in self._told:
            self._told.add(sentence)
            self._tell(sentence)


def log_size(path: str | os.PathLike[str]) -> int:
    """Return the bytes at or below `path` now, 0 where there are none: for `--fresh-from`."""
    log = choose_log(path)
    try:
        return EventFiles(log.path).size if log.kind == "events" else _file_size(log)
    except OSError:
        return 0


def _file_size(log: Log) -> int:
    return log.path.stat().st_size if log.kind == "file" else 0


def _find_begin(entry: Entry) -> float:
    """Return when a file was begun: its name tells it, else its last change is the best guess."""
    found = _BEGUN.search(entry.name.rpartition("/")[2])
    return float(found[1]) if found else entry.status.st_mtime


def _same(known: _Known, status: os.stat_result) -> bool:
    position = known.position
    identity = (position.device, position.inode) == (status.st_dev, status.st_ino)
    return identity and position.offset <= status.st_size
