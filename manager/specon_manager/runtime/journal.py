"""The journal: every event with the actions it led to, one JSON line each, on disk before they are done.

It is the manager's only memory. After a crash the state is what `step` makes of the events again, so what
`replay` checks is what recovery relies on.
"""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from specon_manager.core.state import State
from specon_manager.core.step import step
from specon_manager.model.actions import Action
from specon_manager.model.events import Event

SCHEMA: Final = 1
NAME: Final = "journal.jsonl"
_ROTATE_BYTES: Final = 64 * 1024 * 1024
_KEPT: Final = 3


class Begin(Struct, frozen=True, kw_only=True, tag="begin"):
    """First line of a journal: the state that its steps start from."""

    schema: int
    version: str
    at: float
    """Begin of the run, seconds on the manager's clock; kept over rotations."""
    last_at: float | None = None
    """Time of the last step before this file; None where there was none."""
    state: State


class Step(Struct, frozen=True, kw_only=True, tag="step"):
    """One call of `step`: its time, its event, and what it ordered."""

    now: float
    event: Event
    actions: tuple[Action, ...] = ()


Line = Begin | Step


class JournalError(Exception):
    """A journal that cannot be read; the text names the file and the line."""


class Recovered(Struct, frozen=True, kw_only=True):
    """What a journal holds."""

    began_at: float
    last_at: float
    state: State
    steps: int


class Difference(Struct, frozen=True, kw_only=True):
    """Where `step` does something else today than it did then."""

    line: int
    event: Event
    recorded: tuple[Action, ...]
    replayed: tuple[Action, ...]


_ENCODER: Final = msgspec.json.Encoder()
_DECODER: Final = msgspec.json.Decoder(Line)


def read(path: Path) -> Iterator[tuple[int, Line]]:
    """Yield the lines of a journal with their numbers.

    A last line that was cut off by a crash is passed over: what it would have ordered was not done.
    Raises JournalError for any other line that cannot be read, OSError where the file cannot.
    """
    with path.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.endswith(b"\n"):
                return
            try:
                record = _DECODER.decode(line)
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                raise JournalError(f"{path}, line {number}: {error}") from error
            if (number == 1) != isinstance(record, Begin):
                raise JournalError(f"{path}, line {number}: a journal has one begin, in its first line")
            if isinstance(record, Begin) and record.schema != SCHEMA:
                raise JournalError(f"{path}, line {number}: schema {record.schema} is not {SCHEMA}")
            yield number, record


def recover(path: Path) -> Recovered | None:
    """Return what the journal at `path` holds, or None where there is none. Raises JournalError."""
    recovered = None
    if not path.exists():
        return None
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


def first_difference(path: Path) -> tuple[int, Difference | None]:
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
            return agreed, Difference(line=number, event=line.event, recorded=line.actions, replayed=replayed)
        agreed += 1
    return agreed, None


def _as_written(actions: Sequence[Action]) -> tuple[Action, ...]:
    """Return the actions as they look after a round through JSON, so that they compare."""
    return msgspec.json.decode(_ENCODER.encode(actions), type=tuple[Action, ...])


class Journal:
    """The open journal of a running manager."""

    def __init__(self, path: Path, *, began_at: float, version: str) -> None:
        """Open for appending; a line that a crash cut off is removed first."""
        self._path = path
        self._began_at = began_at
        self._version = version
        self._file = path.open("ab")
        os.fchmod(self._file.fileno(), 0o600)
        end = _end_of_last_line(path)
        if end != self._file.tell():
            self._file.truncate(end)
            self._file.seek(end)
        self.size = end
        self._rotate_at = _ROTATE_BYTES
        self._last_at: float | None = None

    def begin(self, state: State) -> None:
        """Write the first line."""
        record = Begin(
            schema=SCHEMA,
            version=self._version,
            at=self._began_at,
            last_at=self._last_at,
            state=state.flattened(),
        )
        self._write(record)
        self.sync()
        _sync_directory(self._path)

    def append(self, now: float, event: Event, actions: Sequence[Action]) -> None:
        """Add one step; it is on disk only after `sync`."""
        self._last_at = now
        self._write(Step(now=now, event=event, actions=tuple(actions)))

    def flush(self) -> None:
        """Hand what was appended to the operating system: it survives the manager, not the machine."""
        self._file.flush()

    def sync(self) -> None:
        """Return once everything appended is on disk. Blocks for a disk access."""
        self._file.flush()
        os.fdatasync(self._file.fileno())

    @property
    def large(self) -> bool:
        """Whether it is time for a new file."""
        return self.size >= self._rotate_at

    def rotate_if_large(self, state: State) -> bool:
        """Begin a new file from `state` when the present one is large; the last few are kept."""
        if not self.large:
            return False
        self.sync()
        self._file.close()
        for age in range(_KEPT - 1, 0, -1):
            older = self._path.with_name(f"{self._path.name}.{age}")
            if older.exists():
                older.replace(self._path.with_name(f"{self._path.name}.{age + 1}"))
        # The next file is complete before it takes the place of this one.
        following = self._path.with_name(f".{self._path.name}.next")
        following.unlink(missing_ok=True)
        self._file = following.open("ab")
        os.fchmod(self._file.fileno(), 0o600)
        self.size = 0
        self.begin(state)
        self._rotate_at = self.size + _ROTATE_BYTES  # the state alone may be large
        former = self._path.with_name(f"{self._path.name}.1")
        former.unlink(missing_ok=True)
        os.link(self._path, former)
        following.replace(self._path)
        _sync_directory(self._path)
        return True

    def close(self) -> None:
        """Write what is left and close."""
        self.sync()
        self._file.close()

    def _write(self, record: Line) -> None:
        line = _ENCODER.encode(record) + b"\n"
        self._file.write(line)
        self.size += len(line)


def _sync_directory(path: Path) -> None:
    """Have the name of the file on disk too: without it, what is in the file is lost with the machine."""
    descriptor = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _end_of_last_line(path: Path) -> int:
    """Return the offset after the last newline of the file."""
    with path.open("rb") as file:
        end = file.seek(0, os.SEEK_END)
        while end > 0:
            start = max(0, end - 65536)
            file.seek(start)
            found = file.read(end - start).rfind(b"\n")
            if found >= 0:
                return start + found + 1
            end = start
    return 0
