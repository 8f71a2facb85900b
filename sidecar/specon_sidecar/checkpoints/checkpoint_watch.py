"""Which checkpoints of the trainer are complete: looks at a directory of them, or at the one file.

A checkpoint counts as complete when its declared marker is there, or when a rename made it visible, or when
nothing of it changed for the settle time; one in parts, when all that its index names is there as well.
Nothing here writes or deletes, and no link is followed out of the folder that was named, which may be a link
itself.
"""

import logging
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from specon_sidecar.checkpoints.parts import PartsError, stretches
from specon_sidecar.regular_file import leads_out, open_regular

_LOG: Final = logging.getLogger(__name__)
MAX_ENTRIES: Final = 10_000
"""Files and directories looked at in one scan, and in one checkpoint."""
_QUIET_SCAN_SECONDS: Final = 0.05  # between the two scans that see a renamed checkpoint unchanged
_MAX_DEPTH: Final = 8
_MAX_DECLARATION_BYTES: Final = 65536
_TEMPORARY: Final = (".tmp", ".temp", ".part", ".partial", ".incomplete", ".lock", "~")
_NAMED_STEP: Final = re.compile(r"(?:step|iter(?:ation)?)[s=_-]{0,2}(\d{1,18})(?!\d)", re.IGNORECASE)
_INTEGER: Final = re.compile(r"(?<!\d)(?<!\d\.)(\d{1,18})(?!\d)(?!\.\d)")


class Fingerprint(Struct, frozen=True):
    """What changes whenever the content does."""

    inode: int
    files: int
    size: int
    modified_ns: int


class Candidate(Struct, frozen=True, kw_only=True):
    """A complete checkpoint, not yet verified."""

    path: Path
    step: int | None
    fingerprint: Fingerprint


class TooManyEntriesError(OSError):
    """A checkpoint path with more entries than are looked at."""


class LeadsOutError(OSError):
    """A checkpoint with a link to somewhere else."""


class _Entry(Struct):
    """One name in the checkpoint path and what earlier scans saw of it."""

    fingerprint: Fingerprint
    since: float
    """When a scan first saw this fingerprint."""
    preexisting: bool
    """Whether it was there, unchanged, since the first scan: then it is older than any request."""
    step: int | None
    """The trainer's step when this content was first seen, until the checkpoint's own is known."""
    complete: bool = False
    lacking: str = ""
    """Which part of it is missing, where it has settled without."""


class CheckpointWatch:
    """Scans a checkpoint path; each scan compares with the ones before."""

    def __init__(
        self,
        path: Path,
        *,
        marker: str | None = None,
        settle: float = 0.5,
        ignore: frozenset[Path] = frozenset(),
    ) -> None:
        """Watch `path`; `ignore` names files in it that are no checkpoints, such as a request file."""
        self._path = path
        self._marker = marker
        self.settle = settle
        """Seconds; 0 once nobody is left to change anything."""
        self._ignore = ignore
        self._entries: dict[Path, _Entry] = {}
        self._first_scan = True
        self._told_of_links = False

    def scan(self, now: float, step: int | None = None) -> list[Candidate]:
        """Look once and return the complete checkpoints, oldest first.

        `now` is seconds on a clock that never goes back; `step` is the trainer's last step in its log, the
        step of a checkpoint that does not tell its own. Raises OSError where the path cannot be read,
        TooManyEntriesError beyond the bound.
        """
        seen: dict[Path, _Entry] = {}
        for path in self._paths():
            try:
                status = path.lstat()
                fingerprint, renamed = _fingerprint(path, status)
            except FileNotFoundError:
                continue  # removed between the listing and the look
            except LeadsOutError as error:
                self._tell_of_link(str(error))
                continue
            entry = self._entries.get(path)
            if entry is None or entry.fingerprint != fingerprint:
                entry = _Entry(fingerprint, now, self._first_scan, step)
            if not entry.complete and self._is_complete(path, entry, now - entry.since, renamed=renamed):
                entry.complete = True
                entry.step = self._step(path, entry.step)
            seen[path] = entry
        self._entries = seen
        self._first_scan = False
        return self._complete()

    def known(self) -> dict[Path, Fingerprint]:
        """Return what is older than a request made now: complete, or never changed before our eyes."""
        return {
            path: entry.fingerprint
            for path, entry in self._entries.items()
            if entry.complete or entry.preexisting
        }

    @property
    def lacking(self) -> str:
        """What a new checkpoint lacks that has settled and is not complete, in words; empty for none."""
        return next(
            (new.lacking for new in self._entries.values() if new.lacking and not new.preexisting), ""
        )

    def _complete(self) -> list[Candidate]:
        complete = [
            Candidate(path=path, step=entry.step, fingerprint=entry.fingerprint)
            for path, entry in self._entries.items()
            if entry.complete
        ]
        return sorted(
            complete, key=lambda found: (found.fingerprint.modified_ns, found.step or 0, found.path)
        )

    def _paths(self) -> Iterator[Path]:
        try:
            mode = self._path.stat().st_mode
        except FileNotFoundError:
            return
        if not stat.S_ISDIR(mode):
            if leads_out(self._path, self._path.parent):
                self._tell_of_link(f"{self._path} is a link to somewhere else")
            else:
                yield self._path
            return
        with os.scandir(self._path) as items:
            for count, item in enumerate(items):
                if count >= MAX_ENTRIES:
                    raise TooManyEntriesError(f"{self._path}: more than {MAX_ENTRIES} entries")
                path = Path(item.path)
                if not self._is_aside(path) and not self._is_second_name(item):
                    yield path

    def _is_aside(self, path: Path) -> bool:
        """Return whether this is no checkpoint: hidden, temporary, a marker, or a step's declaration."""
        name = path.name
        if name.startswith(".") or name.endswith(_TEMPORARY) or path in self._ignore or name == self._marker:
            return True
        if self._marker is not None and "{name}" in self._marker:
            before, after = self._marker.split("{name}", 1)
            if name.startswith(before) and name.endswith(after) and len(name) > len(before) + len(after):
                return True
        return name.endswith(".json") and path.with_suffix("").exists()

    def _is_second_name(self, item: os.DirEntry[str]) -> bool:
        """Return whether this is a link to a neighbour (`latest`) or out of here, or no file or directory."""
        if item.is_symlink():
            path = Path(item.path)
            if leads_out(path, self._path):
                self._tell_of_link(f"{path} is a link to somewhere else")
                return True
            if Path(os.path.realpath(path)).parent == Path(os.path.realpath(self._path)):
                return True
        return not (item.is_file() or item.is_dir())

    def _tell_of_link(self, what: str) -> None:
        if not self._told_of_links:
            self._told_of_links = True
            _LOG.warning("no checkpoint: %s", what)

    def _marker_of(self, path: Path) -> Path | None:
        """Return where the marker of a checkpoint is: beside it with its name, in it, or one for all."""
        if self._marker is None:
            return None
        if "{name}" in self._marker:
            return path.parent / self._marker.replace("{name}", path.name)
        return path / self._marker if path.is_dir() else path.parent / self._marker

    def _is_complete(self, path: Path, entry: _Entry, unchanged: float, *, renamed: bool) -> bool:
        marker = self._marker_of(path)
        if marker is not None:
            # An older marker belongs to an earlier content of the same name.
            settled = _modified_ns(marker) >= entry.fingerprint.modified_ns
            return settled and self._is_whole(path, entry)
        declared = _modified_ns(_declaration_of(path))
        if 0 < declared < entry.fingerprint.modified_ns:
            renamed = False  # the declaration may be that of the content before, and about to be replaced
        settled = unchanged >= (min(_QUIET_SCAN_SECONDS, self.settle) if renamed else self.settle)
        return settled and self._is_whole(path, entry)

    def _is_whole(self, path: Path, entry: _Entry) -> bool:
        """Return whether no part is missing; looked at once for each content: it changes where one comes."""
        if not entry.lacking and path.is_dir():
            try:
                stretches({Path(item.path): item.stat().st_size for item in files_of(path)})
            except (PartsError, OSError) as error:
                entry.lacking = str(error)
        return not entry.lacking

    def _step(self, path: Path, otherwise: int | None) -> int | None:
        """Return the step declared beside the checkpoint or in its own marker, else that of its name."""
        marker = self._marker_of(path)
        shared = self._marker is not None and "{name}" not in self._marker and path.parent == self._path
        if shared and not path.is_dir():
            marker = None
        for file in (_declaration_of(path), marker):
            step = None if file is None else _declared_step(file)
            if step is not None:
                return step
        step = step_in_name(path.name)
        return otherwise if step is None else step


def _declaration_of(path: Path) -> Path:
    return path.with_name(path.name + ".json")


def _modified_ns(file: Path) -> int:
    """Return when the file was modified, in nanoseconds since 1970; -1 where there is none."""
    try:
        return file.stat().st_mtime_ns
    except FileNotFoundError:
        return -1


def step_in_name(name: str) -> int | None:
    """Return the step in a name: the number after `step`, else the last whole number of the stem."""
    stem = Path(name).stem
    found = _NAMED_STEP.findall(stem) or _INTEGER.findall(stem) or _INTEGER.findall(name)
    return int(found[-1]) if found else None


def _declared_step(file: Path) -> int | None:
    """Return the step in a JSON object with `step`, or in a text that is a number; None without one."""
    try:
        if leads_out(file, file.parent):
            return None
        with open_regular(file) as opened:
            content = opened.read(_MAX_DECLARATION_BYTES)
        declared = msgspec.json.decode(content)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    step = declared.get("step") if isinstance(declared, dict) else declared
    return step if isinstance(step, int) and not isinstance(step, bool) and 0 <= step < 10**18 else None


def fingerprint(path: Path) -> Fingerprint:
    """Return what `path` holds now, without reading contents; raises OSError."""
    return _fingerprint(path, path.lstat())[0]


def files_of(directory: Path) -> Iterator[os.DirEntry[str]]:
    """Yield the regular files in a directory.

    Raises OSError, TooManyEntriesError beyond the bounds, LeadsOutError for a link out of what it lies in.
    """
    waiting = [(directory, 0)]
    count = 0
    while waiting:
        folder, depth = waiting.pop()
        with os.scandir(folder) as items:
            for item in items:
                count += 1
                if count > MAX_ENTRIES or depth > _MAX_DEPTH:
                    raise TooManyEntriesError(f"{directory}: more than {MAX_ENTRIES} entries, or too deep")
                if item.is_dir(follow_symlinks=False):
                    waiting.append((Path(item.path), depth + 1))
                elif item.is_file():
                    # Those of a checkpoint often are links to a store beside it.
                    if item.is_symlink() and leads_out(Path(item.path), directory.parent):
                        raise LeadsOutError(f"{item.path} is a link to somewhere else")
                    yield item


def _fingerprint(path: Path, status: os.stat_result) -> tuple[Fingerprint, bool]:
    """Return the fingerprint, and whether a rename gave the name: that is newer than all content."""
    renamed = status.st_ctime_ns > status.st_mtime_ns
    if stat.S_ISLNK(status.st_mode):
        status = path.stat()
    if not stat.S_ISDIR(status.st_mode):
        return Fingerprint(status.st_ino, 1, status.st_size, status.st_mtime_ns), renamed
    files, size, modified = 0, 0, status.st_mtime_ns
    for item in files_of(path):
        inside = item.stat()
        files, size, modified = files + 1, size + inside.st_size, max(modified, inside.st_mtime_ns)
    # Files written after the rename are not covered by it.
    return Fingerprint(status.st_ino, files, size, modified), renamed and status.st_ctime_ns > modified
