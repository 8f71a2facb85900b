"""Finds the complete checkpoints of the trainer: compares the present files with those seen before.

A checkpoint counts as complete when its declared marker is there, or when a rename made it visible, or when
it has not changed for the settle time. In each case it must also have everything that its format asks for.
This module checks that for the newest ones; older ones are checked when they are verified.
"""

import logging
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from specon_sidecar.checkpoints.contents import UnreadableError
from specon_sidecar.checkpoints.find import Finder, Fingerprint, FoundSave, fingerprint, starts
from specon_sidecar.checkpoints.table import (
    OWN_FILE,
    OWN_FOLDER,
    CheckpointFormat,
    file_formats,
    folder_format,
)
from specon_sidecar.checkpoints.whole import examine, is_tracked, read_step
from specon_sidecar.regular_file import leads_out, open_regular

_LOG: Final = logging.getLogger(__name__)
_QUIET_SCAN_SECONDS: Final = 0.05  # between the two scans that see a renamed checkpoint unchanged
_MAX_TOLD: Final = 16
_MAX_DECLARATION_BYTES: Final = 65536


class UnverifiedCheckpoint(Struct, frozen=True, kw_only=True):
    """A complete checkpoint, not yet verified."""

    path: Path
    step: int | None
    told: bool = False
    """Whether the checkpoint tells its step itself; else that is the log's when it was first seen."""
    fingerprint: Fingerprint
    declared: CheckpointFormat = OWN_FILE
    marked: bool = False
    """Whether its owner's own marker says that it is complete."""


class _Entry(Struct):
    """One checkpoint in the path and what earlier scans saw of it."""

    fingerprint: Fingerprint
    declared: CheckpointFormat
    since: float
    """When a scan first saw this fingerprint."""
    preexisting: bool
    """Whether it was there, unchanged, since the first scan: then it is older than any request."""
    step: int | None
    """The trainer's step when this content was first seen."""
    own: int | None = None
    """The step that the checkpoint tells itself."""
    complete: bool = False
    whole: bool = False
    """Whether it was looked at, and lacks nothing."""
    lacking: str = ""
    """What it lacks, where it has settled without."""


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
        self._finder = Finder(path, marker=marker, ignore=ignore, tell=self._tell)
        self._entries: dict[str, _Entry] = {}
        self._first_scan = True
        self._told: set[str] = set()
        self.passed_over = ""
        """The last path passed over because it cannot be looked at, in words; empty for none."""

    def scan(
        self, now: float, step: int | None = None, *, by_epochs: bool = False
    ) -> list[UnverifiedCheckpoint]:
        """Look once and return the complete checkpoints, oldest first; the newest of them lacks nothing.

        `now` is seconds on a clock that never goes back; `step` is the trainer's last step in its log, the
        step of a checkpoint that does not tell its own. `by_epochs`: the log counts epochs alone, so
        the steps that checkpoints tell are no places in it. Raises OSError where the path cannot be read,
        TooManyEntriesError beyond the bound.
        """
        seen: dict[str, _Entry] = {}
        self.passed_over = ""
        for found in self._finder.find():
            entry = self._entries.get(found.path)
            if entry is None or entry.fingerprint != found.fingerprint:
                entry = _Entry(found.fingerprint, found.declared, now, self._first_scan, step)
            if not entry.complete and self._is_complete(found, now - entry.since):
                entry.complete = True
                entry.own = self._step(Path(found.path), entry.declared)
            seen[found.path] = entry
        for path, entry in self._entries.items():
            if any(path == unseen or path.startswith(f"{unseen}/") for unseen in self._finder.unseen):
                seen.setdefault(path, entry)  # it may be as it was
        self._entries = seen
        self._first_scan = False
        return self._complete(by_epochs=by_epochs)

    def known(self) -> dict[Path, Fingerprint]:
        """Return those that are older than a request made now: complete, or never changed before our eyes."""
        return {
            Path(path): entry.fingerprint
            for path, entry in self._entries.items()
            if (entry.complete and not entry.lacking) or entry.preexisting
        }

    @property
    def lacking(self) -> str:
        """What a new checkpoint lacks that has settled and is not complete, in words; empty for none."""
        return next(
            (new.lacking for new in self._entries.values() if new.lacking and not new.preexisting), ""
        )

    def _complete(self, *, by_epochs: bool) -> list[UnverifiedCheckpoint]:
        order = sorted(
            (
                (entry.fingerprint.written_ns, (entry.step if entry.own is None else entry.own) or 0, path)
                for path, entry in self._entries.items()
                if entry.complete and not entry.lacking
            ),
        )
        for _, _, path in reversed(order):
            if self._is_whole(path, self._entries[path]):
                break
        complete = []
        for _, _, path in order:
            entry = self._entries[path]
            told = entry.own is not None and not by_epochs
            if not entry.lacking:
                complete.append(
                    UnverifiedCheckpoint(
                        path=Path(path),
                        step=entry.own if told else entry.step,
                        told=told,
                        fingerprint=entry.fingerprint,
                        declared=entry.declared,
                        marked=self._marker is not None,
                    )
                )
        return complete

    def _is_whole(self, path: str, entry: _Entry) -> bool:
        """Return whether it lacks nothing; looked at once for each content, and its step with it."""
        if not entry.whole and not entry.lacking:
            try:
                examine(Path(path), entry.declared, marked=self._marker is not None)
            except (UnreadableError, OSError) as error:
                entry.lacking = str(error)
            else:
                entry.whole = True
        return entry.whole

    def _tell(self, what: str) -> None:
        self.passed_over = what
        if what not in self._told and len(self._told) < _MAX_TOLD:
            self._told.add(what)
            _LOG.warning("no checkpoint: %s", what)

    def _marker_of(self, path: Path) -> Path | None:
        """Return where the marker of a checkpoint is: beside it with its name, in it, or one for all."""
        if self._marker is None:
            return None
        if "{name}" in self._marker:
            return path.parent / self._marker.replace("{name}", path.name)
        return path / self._marker if path.is_dir() else path.parent / self._marker

    def _is_complete(self, found: FoundSave, unchanged: float) -> bool:
        path, renamed = Path(found.path), found.renamed
        if found.declared.tracker and not is_tracked(path, found.declared.tracker):
            return False
        marker = self._marker_of(path)
        if marker is not None:
            # An older marker belongs to an earlier content of the same name.
            return _read_modified(marker) >= found.fingerprint.modified_ns
        declared = _read_modified(_declaration_of(path))
        if 0 < declared < found.fingerprint.modified_ns:
            renamed = False  # the declaration may be that of the content before, and about to be replaced
        return unchanged >= (min(_QUIET_SCAN_SECONDS, self.settle) if renamed else self.settle)

    def _step(self, path: Path, declared: CheckpointFormat) -> int | None:
        """Return the step declared beside the checkpoint or in its own marker, else what its format tells."""
        marker = self._marker_of(path)
        shared = self._marker is not None and "{name}" not in self._marker and path.parent == self._path
        if shared and not path.is_dir():
            marker = None
        for file in (_declaration_of(path), marker):
            step = None if file is None else _read_declared(file)
            if step is not None:
                return step
        return read_step(path, declared.steps)


def _declaration_of(path: Path) -> Path:
    return path.with_name(path.name + ".json")


def _read_modified(file: Path) -> int:
    """Return when the file was modified, in nanoseconds since 1970; -1 where none can be seen."""
    try:
        return file.stat().st_mtime_ns
    except OSError:
        return -1


def candidate_at(path: Path, *, step: int | None = None) -> UnverifiedCheckpoint:
    """Return what lies at a path that somebody names as a checkpoint, whatever its name is.

    `step` is what they say of it, else its own is taken. Raises OSError.
    """
    if path.is_dir():
        names = sorted(each.name for each in path.iterdir())
        declared = folder_format(path.name, names) or folder_format("-", names) or OWN_FOLDER
    else:
        declared = next(
            (each for each in file_formats(path.name) if not each.starts or starts(path, each.starts)),
            OWN_FILE,
        )
    told = read_step(path, declared.steps) if step is None else step
    return UnverifiedCheckpoint(
        path=path, step=told, told=told is not None, fingerprint=fingerprint(path), declared=declared
    )


def _read_declared(file: Path) -> int | None:
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
