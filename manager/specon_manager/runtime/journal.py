"""The journal: every event with the actions it led to, one line each, on disk before they are done.

It is the manager's only memory. After a crash the state is what `step` makes of the events again, so what
`replay` checks is what recovery relies on. A journal of version 0.1 is read as of its last line
(`journal_v1`), and a new file is begun from that.
"""

import itertools
import logging
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, Protocol, TypeVar

import msgspec
from msgspec import Struct

from specon_manager.core.state import State
from specon_manager.core.step import step
from specon_manager.model.actions import Action
from specon_manager.model.events import Event
from specon_manager.runtime import journal_v1
from specon_manager.runtime.append_file import AppendFile, DiskFullError
from specon_manager.runtime.journal_line import (
    SCHEMA,
    SEAL_BYTES,
    BadLineError,
    Begin,
    Line,
    OtherVersionError,
    StepLine,
    open_line,
    schema_of,
    seal_line,
    seal_of,
)

_log = logging.getLogger(__name__)
NAME: Final = "journal.jsonl"
_ROTATE_BYTES: Final = 64 * 1024 * 1024
_KEPT: Final = 3
_AGAIN_BYTES: Final = 4 * 1024 * 1024
"""After so much more a new file is tried again, where there was no room for one."""


class JournalError(Exception):
    """A journal that cannot be read; the text names the file and the line, and what can be done."""

    def __init__(self, path: Path, line: int, what: str, advice: str = "") -> None:
        super().__init__(f"{path}, line {line}: {what}" + (f"\n{advice}" if advice else ""))
        self.path = path
        self.line = line
        """The first that is not good."""


class Recovered(Struct, frozen=True, kw_only=True):
    """What a journal holds."""

    began_at: float
    last_at: float
    state: State
    steps: int
    schema: int = SCHEMA
    """Of the file: nothing is added to one of another version."""


class ReplayDifference(Struct, frozen=True, kw_only=True):
    """Where `step` does something else today than it did then."""

    line: int
    event: Event
    recorded: tuple[Action, ...]
    replayed: tuple[Action, ...]


Read_co = TypeVar("Read_co", covariant=True)


class _Opener(Protocol[Read_co]):
    def __call__(self, line: bytes, before: int, *, first: bool) -> Read_co: ...


def read(path: Path) -> Iterator[tuple[int, Line]]:
    """Yield the lines of a journal with their numbers.

    A last line that was cut off by a crash is passed over: what it would have ordered was not done.
    Raises JournalError for any other line that cannot be read, OSError where the file cannot.
    """
    return _lines(path, open_line)


def _lines(path: Path, opened: _Opener[Read_co]) -> Iterator[tuple[int, Read_co]]:
    before = 0
    with path.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.endswith(b"\n"):
                return
            try:
                record = opened(line, before, first=number == 1)
            except OtherVersionError as error:
                raise JournalError(path, number, str(error)) from error
            except BadLineError as error:
                raise JournalError(path, number, str(error), _advice(path, number - 1)) from error
            before = seal_of(line)
            yield number, record


def _advice(path: Path, good: int) -> str:
    """Return what the administrator can do with a journal that has only so many good lines."""
    if not good:
        return (
            f"nothing in it can be used; {path.name}.1, where there is one, ends where this one begins; "
            "`specon local --fresh` puts everything aside and starts again"
        )
    return (
        f"the {good} before it are good: `specon replay --cut {path}` keeps those and puts the damaged "
        "journal aside. The next manager continues from there, knows no later decision, and ends "
        "replicas that were started later"
    )


def recover(path: Path) -> Recovered | None:
    """Return what the journal at `path` holds, or None where there is none. Raises JournalError, OSError."""
    recovered = None
    if not path.exists():
        return None
    if _is_v1(path):
        past = journal_v1.Past()
        for _ in _lines(path, past.take):
            pass
        return Recovered(
            began_at=past.began_at,
            last_at=past.last_at,
            state=past.close(),
            steps=past.steps,
            schema=journal_v1.SCHEMA,
        )
    for _, line in read(path):
        if isinstance(line, Begin):
            last_at = line.at if line.last_at is None else line.last_at
            recovered = Recovered(began_at=line.at, last_at=last_at, state=line.state, steps=0)
        elif recovered is not None:
            state, _ = step(recovered.state, line.event, line.now)
            recovered = msgspec.structs.replace(
                recovered, state=state, last_at=line.now, steps=recovered.steps + 1
            )
    return recovered


def _is_v1(path: Path) -> bool:
    """Whether version 0.1 began the journal, and its first line is whole."""
    with path.open("rb") as lines:
        line = lines.readline()
    return line.endswith(b"\n") and schema_of(line) == journal_v1.SCHEMA


def cut(path: Path) -> tuple[int, Path] | None:
    """Keep the good lines of a damaged journal; return how many, and where the damaged one is put.

    None where nothing is damaged. No manager may have it open. Raises JournalError where no line is good,
    DiskFullError, UnwritableError, OSError.
    """
    try:
        for _ in _lines(path, journal_v1.Past().take if _is_v1(path) else open_line):
            pass
    except JournalError as error:
        if error.line == 1:
            raise
        good = error.line - 1
    else:
        return None
    kept = path.with_name(f".{path.name}.cut")
    with path.open("rb") as lines:
        _write_anew(kept, b"".join(itertools.islice(lines, good))).close()
    names = (path.with_name(f"{path.name}.damaged-{number}") for number in itertools.count(1))
    damaged = next(name for name in names if not name.exists())
    os.link(path, damaged)
    kept.replace(path)
    _sync_directory(path)
    return good, damaged


def first_difference(path: Path) -> tuple[int, ReplayDifference | None]:
    """Run a journal through `step`; return how many steps agreed, and the first that did not, if any."""
    state = State()
    agreed = 0
    for number, line in read(path):
        if isinstance(line, Begin):
            state = line.state
            continue
        state, actions = step(state, line.event, line.now)
        replayed = _as_written(actions)
        if replayed != line.actions:
            return agreed, ReplayDifference(
                line=number, event=line.event, recorded=line.actions, replayed=replayed
            )
        agreed += 1
    return agreed, None


def _as_written(actions: Sequence[Action]) -> tuple[Action, ...]:
    """Return the actions as they look after a round through JSON, so that they compare."""
    return msgspec.json.decode(msgspec.json.encode(actions), type=tuple[Action, ...])


class Journal:
    """The open journal of a running manager."""

    def __init__(self, path: Path, *, began_at: float, version: str) -> None:
        """Open for appending; a line that a crash cut off is removed first. Raises OSError."""
        self._path = path
        self._began_at = began_at
        self._version = version
        end, self._seal = _last_line(path)
        self._file = AppendFile(path, end=end)
        self.size = end
        self._rotate_at = _ROTATE_BYTES
        self._last_at: float | None = None

    def begin(self, state: State) -> None:
        """Write the first line. Raises DiskFullError, UnwritableError."""
        self._append(self._begin(state))
        self.sync()
        _sync_directory(self._path)

    def append(self, now: float, event: Event, actions: Sequence[Action]) -> None:
        """Add one step; it is on disk only after `sync`."""
        self._last_at = now
        self._append(StepLine(now=now, event=event, actions=tuple(actions)))

    def flush(self) -> None:
        """Hand the appended lines to the operating system: they survive the manager, not the machine.

        Raises UnwritableError, and DiskFullError where there is no room: it, or `sync`, may be called again.
        """
        self._file.write()

    def sync(self) -> None:
        """Return once everything appended is on disk. Blocks for a disk access. Raises as `flush` does."""
        self._file.sync()

    @property
    def large(self) -> bool:
        """Whether it is time for a new file."""
        return self.size >= self._rotate_at

    def rotate_if_large(self, state: State) -> bool:
        """Begin a new file from `state` when the present one is large; the last few are kept.

        Where that is not possible, for want of room above all, the present file is used on; a few megabytes
        later it is tried again, and False is returned.
        """
        if not self.large:
            return False
        self.sync()
        try:
            self._begin_file(state)
        except (DiskFullError, OSError) as error:
            _log.warning("no new journal file is begun: %s", error)
            self._rotate_at = self.size + _AGAIN_BYTES
            return False
        return True

    def begin_anew(self, state: State, last_at: float) -> None:
        """Begin a new file from `state`, which was read from one of another version; that is kept.

        Raises DiskFullError, UnwritableError, OSError; the present file is as it was then.
        """
        self._last_at = last_at
        self._begin_file(state)

    def _begin_file(self, state: State) -> None:
        """Put a new file in the place of the present one, which is all on disk; the last few are kept."""
        # The next file is complete before it takes the place of this one.
        line, seal = seal_line(self._begin(state), 0)
        path = self._path.with_name(f".{self._path.name}.next")
        try:
            following = _write_anew(path, line)
            for age in range(_KEPT - 1, 0, -1):
                older = self._path.with_name(f"{self._path.name}.{age}")
                if older.exists():
                    older.replace(self._path.with_name(f"{self._path.name}.{age + 1}"))
            former = self._path.with_name(f"{self._path.name}.1")
            former.unlink(missing_ok=True)
            os.link(self._path, former)
            path.replace(self._path)
        except (DiskFullError, OSError):
            path.unlink(missing_ok=True)
            raise
        self._file.close()
        following.path = self._path
        self._file, self._seal, self.size = following, seal, len(line)
        self._rotate_at = self.size + _ROTATE_BYTES  # the state alone may be large
        _sync_directory(self._path)

    def close(self) -> None:
        """Write the rest and close; raises as `flush` does, closed all the same."""
        try:
            self.sync()
        finally:
            self._file.close()

    def _begin(self, state: State) -> Begin:
        return Begin(
            schema=SCHEMA,
            version=self._version,
            at=self._began_at,
            last_at=self._last_at,
            state=state.flatten(),
        )

    def _append(self, record: Line) -> None:
        line, self._seal = seal_line(record, self._seal)
        self._file.add(line)
        self.size += len(line)


def _write_anew(path: Path, content: bytes) -> AppendFile:
    """Return a new file with this content, on disk. Raises OSError, DiskFullError, UnwritableError."""
    path.unlink(missing_ok=True)
    file = AppendFile(path)
    try:
        file.add(content)
        file.sync()
    except BaseException:
        file.close()
        raise
    return file


def _sync_directory(path: Path) -> None:
    """Have the name of the file on disk too: without it, the file is lost with the machine."""
    descriptor = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _last_line(path: Path) -> tuple[int, int]:
    """Return the offset after the last newline of the file, and the checksum of the line that ends there."""
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return 0, 0
    with file:
        end = file.seek(0, os.SEEK_END)
        while end > 0:
            start = max(0, end - 65536)
            file.seek(start)
            found = file.read(end - start).rfind(b"\n")
            if found >= 0:
                end = start + found + 1
                file.seek(max(0, end - SEAL_BYTES))
                return end, seal_of(file.read(end - max(0, end - SEAL_BYTES)))
            end = start
    return 0, 0
