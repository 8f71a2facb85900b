"""Where checkpoints lie: looks through a folder and those below it for what has the shape of one.

Nothing here writes or deletes, and no link is followed out of the folder that was named, which may be a link
itself. Entries, depth and lengths of names are bounded.
"""

import os
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from msgspec import Struct

from specon_sidecar.checkpoints.table import (
    OWN_FILE,
    OWN_FOLDER,
    CheckpointFormat,
    file_formats,
    folder_format,
    may_be_own,
)
from specon_sidecar.regular_file import leads_out, open_regular

MAX_ENTRIES: Final = 10_000
"""Names looked at in one folder, and files in one checkpoint."""
_MAX_IN_ALL: Final = 50_000
_MAX_DEPTH: Final = 8
_MAX_BELOW: Final = 5  # folders below the one that was named in which checkpoints are looked for
_MAX_NAME: Final = 255
_MAX_PATH: Final = 4096  # of the protocol
_MOST_TIMES: Final = 2**62
_TEMPORARY: Final = (".tmp", ".temp", ".part", ".partial", ".incomplete", ".lock", "~")
_TEMPORARY_STARTS: Final = (".", "tmp-", "tmp_")
_LOST: Final = "lost+found"  # at the top of a volume, its administrator's alone
_TEMPORARY_IN: Final = ".orbax-checkpoint-tmp"
_SNIFF: Final = 16
_TICK_NS: Final = 2 * 10**9  # clocks of file systems may stand still for so long


class Fingerprint(Struct, frozen=True):
    """What changes whenever the content does."""

    inode: int
    files: int
    size: int
    modified_ns: int
    written_ns: int = 0
    """When the newest of its files was written; unlike `modified_ns` it stays when some are removed."""
    times: int = -1
    """The sum of these times: a clock that goes back leaves the newest as it was. -1: not known."""


class FoundSave(Struct, frozen=True):
    """What has the shape of a checkpoint."""

    path: str
    declared: CheckpointFormat
    fingerprint: Fingerprint
    renamed: bool
    """Whether a rename gave the name: that is newer than all content."""


class TooManyEntriesError(OSError):
    """A folder with more entries than are looked at."""


class TooManyInAllError(TooManyEntriesError):
    """A checkpoint path with more entries than are looked at."""


class LeadsOutError(OSError):
    """A checkpoint with a link to somewhere else."""


class Finder:
    """Looks for checkpoints in one path, again and again; what a name and its content tell is remembered."""

    def __init__(
        self, path: Path, *, marker: str | None, ignore: frozenset[Path], tell: Callable[[str], None]
    ) -> None:
        """`ignore` names files that are no checkpoints; `tell` is told of each path passed over."""
        self._path = path
        self._marker = marker
        self._ignore = frozenset(str(each) for each in ignore)
        self._tell = tell
        self._sniffed: dict[tuple[str, int, int], CheckpointFormat | None] = {}
        self._used: dict[tuple[str, int, int], CheckpointFormat | None] = {}
        self._left = 0
        self.unseen: list[str] = []
        """What could not be looked at the last time; of what lies there nothing is known."""

    def find(self) -> Iterator[FoundSave]:
        """Yield what has the shape of a checkpoint; raises OSError, TooManyEntriesError beyond the bounds.

        What cannot be read in the path does not hinder the rest.
        """
        self.unseen = []
        try:
            status = self._path.stat()
        except FileNotFoundError:
            return
        if not stat.S_ISDIR(status.st_mode):
            if leads_out(self._path, self._path.parent):
                self._tell(f"{self._path} is a link to somewhere else")
            else:
                declared = self._format_of(self._path.name, str(self._path), status) or OWN_FILE
                yield _file(str(self._path), declared, status, self._path.lstat())
            return
        self._left, self._used = _MAX_IN_ALL, {}
        yield from self._in_folder(str(self._path), 0)
        self._sniffed = self._used

    def _in_folder(self, folder: str, depth: int) -> list[FoundSave]:
        """Return the checkpoints in a folder, or the folder itself where it alone is one."""
        items = self._items(folder)
        names = {item.name for item in items}
        folders, files = list[FoundSave](), list[FoundSave]()
        for item in items:
            if self._is_aside(item.name, item.path, names):
                continue
            try:
                (folders if item.is_dir() else files).extend(self._of_item(item, folder, depth))
            except FileNotFoundError:
                continue  # removed between the listing and the look
            except LeadsOutError as error:
                self._tell(str(error))
            except TooManyInAllError:
                raise
            except OSError as error:
                self._pass_over(item.path, error)
        if any(found.declared.kind == "folder" for found in folders):
            # A model that lies beside them is what they end with, unless its name says the step.
            return folders + [each for each in files if each.declared is not OWN_FILE or _says_step(each)]
        try:
            return folders + (self._itself(folder, names, depth) or files)
        except OSError as error:
            self._pass_over(folder, error)
            return folders

    def _pass_over(self, path: str, error: OSError) -> None:
        self.unseen.append(path)
        self._tell(f"{path}: {error.strerror or error}")

    def _of_item(self, item: os.DirEntry[str], folder: str, depth: int) -> list[FoundSave]:
        link = item.is_symlink()
        if link and self._is_second_name(item.path, folder):
            return []
        if item.is_dir():
            return self._of_folder(item, depth, link=link)
        found = self._of_file(item, depth) if item.is_file() else None
        return [] if found is None else [found]

    def _of_folder(self, item: os.DirEntry[str], depth: int, *, link: bool) -> list[FoundSave]:
        declared = self._folder_format(item)
        if declared is not None and declared.named:
            return _folder(item.path, declared)
        return self._in_folder(item.path, depth + 1) if depth < _MAX_BELOW and not link else []

    def _folder_format(self, item: os.DirEntry[str]) -> CheckpointFormat | None:
        if len(item.name) > _MAX_NAME or len(item.path) > _MAX_PATH:
            return None
        changed = item.stat().st_mtime_ns
        found = self._by_names(item.path, changed, lambda: folder_format(item.name, self._names(item.path)))
        if found is None and self._marker is not None and self._is_marked(item.path):
            return OWN_FOLDER  # its owner's word: whatever its name is
        return found

    def _by_names(
        self, folder: str, changed: int, look: Callable[[], CheckpointFormat | None]
    ) -> CheckpointFormat | None:
        """Return what the names in a folder say: looked at again once they have changed, or just now."""
        key = (folder, 0, changed)
        if key in self._sniffed and time.time_ns() - changed > _TICK_NS:
            self._used[key] = self._sniffed[key]
        else:
            self._used[key] = look()
        return self._used[key]

    def _is_marked(self, path: str) -> bool:
        marker = self._marker or ""
        if "{name}" in marker:
            folder, _, name = path.rpartition("/")
            return os.path.lexists(f"{folder}/{marker.replace('{name}', name)}")
        return os.path.lexists(f"{path}/{marker}")

    def _itself(self, folder: str, names: set[str], depth: int) -> list[FoundSave]:
        changed = Path(folder).stat().st_mtime_ns
        declared = self._by_names(f"{folder}/", changed, lambda: folder_format("-", list(names)))
        if declared is None or (not depth and "training_args.bin" in names):
            return []  # the model that a training ends with
        return _folder(folder, declared)

    def _of_file(self, item: os.DirEntry[str], depth: int) -> FoundSave | None:
        if len(item.name) > _MAX_NAME or len(item.path) > _MAX_PATH:
            return None
        status = item.stat()
        declared = self._format_of(item.name, item.path, status)
        if declared is None:
            own = may_be_own(item.name, deep=depth > 0)
            declared = OWN_FILE if own or self._is_declared(item.path) else None
        return (
            None if declared is None else _file(item.path, declared, status, item.stat(follow_symlinks=False))
        )

    def _is_declared(self, path: str) -> bool:
        """Whether an owner says that a file is a checkpoint: by a marker or a step beside it."""
        if self._marker is not None and "{name}" in self._marker and self._is_marked(path):
            return True
        return os.path.lexists(f"{path}.json")

    def _format_of(self, name: str, path: str, status: os.stat_result) -> CheckpointFormat | None:
        """Return the framework's format of a file by its name and, once for each content, its begin."""
        for declared in file_formats(name):
            if not declared.starts:
                return declared
            key = (path, status.st_size, status.st_mtime_ns)
            if key not in self._sniffed:
                self._sniffed[key] = declared if starts(Path(path), declared.starts) else None
            self._used[key] = self._sniffed[key]
            if self._sniffed[key] is not None:
                return self._sniffed[key]
        return None

    def _items(self, folder: str) -> list[os.DirEntry[str]]:
        with os.scandir(folder) as opened:
            items = []
            for item in opened:
                items.append(item)
                self._left -= 1
                if self._left < 0:
                    raise TooManyInAllError(f"{self._path}: more than {_MAX_IN_ALL} entries")
                if len(items) > MAX_ENTRIES:
                    raise TooManyEntriesError(f"{folder}: more than {MAX_ENTRIES} entries")
        return items

    def _names(self, folder: str) -> list[str]:
        try:
            return [item.name for item in self._items(folder)]
        except FileNotFoundError:
            return []

    def _is_aside(self, name: str, path: str, names: set[str]) -> bool:
        """Whether this is no checkpoint: hidden, temporary, a marker, or a step's declaration."""
        if name.startswith(_TEMPORARY_STARTS) or name.endswith(_TEMPORARY) or _TEMPORARY_IN in name:
            return True
        if path in self._ignore or name in {self._marker, _LOST}:
            return True
        if self._marker is not None and "{name}" in self._marker:
            before, after = self._marker.split("{name}", 1)
            if name.startswith(before) and name.endswith(after) and len(name) > len(before) + len(after):
                return True
        return name.endswith(".json") and name.removesuffix(".json") in names

    def _is_second_name(self, path: str, folder: str) -> bool:
        """Whether a link leads to a neighbour (`latest`) or out of here."""
        if leads_out(Path(path), self._path):
            self._tell(f"{path} is a link to somewhere else")
            return True
        return os.path.realpath(path).rpartition("/")[0] == os.path.realpath(folder)


def _says_step(found: FoundSave) -> bool:
    return may_be_own(found.path.rpartition("/")[2], deep=True)


def starts(path: Path, beginnings: tuple[bytes, ...]) -> bool:
    """Whether a file begins in one of these ways; what cannot be read does not."""
    try:
        with open_regular(path) as opened:
            return opened.read(_SNIFF).startswith(beginnings)
    except OSError:
        return False


def _file(path: str, declared: CheckpointFormat, status: os.stat_result, link: os.stat_result) -> FoundSave:
    fingerprint = Fingerprint(status.st_ino, 1, status.st_size, status.st_mtime_ns, status.st_mtime_ns)
    return FoundSave(path, declared, fingerprint, link.st_ctime_ns > link.st_mtime_ns)


def _folder(path: str, declared: CheckpointFormat) -> list[FoundSave]:
    """Return the folder as the checkpoint found; nothing where it holds nothing."""
    found, renamed = _folder_fingerprint(path, Path(path).stat())
    return [FoundSave(path, declared, found, renamed)] if found.files else []


def fingerprint(path: Path) -> Fingerprint:
    """Return what `path` holds now, without reading contents; raises OSError."""
    status = path.stat()
    if not stat.S_ISDIR(status.st_mode):
        return Fingerprint(status.st_ino, 1, status.st_size, status.st_mtime_ns, status.st_mtime_ns)
    return _folder_fingerprint(str(path), status)[0]


def _folder_fingerprint(path: str, status: os.stat_result) -> tuple[Fingerprint, bool]:
    files = size = written = times = 0
    for item in files_of(Path(path)):
        inside = item.stat()
        files, size, written = files + 1, size + inside.st_size, max(written, inside.st_mtime_ns)
        times = (times + inside.st_mtime_ns) % _MOST_TIMES
    modified = max(status.st_mtime_ns, written)
    # Files written after the rename are not covered by it.
    return Fingerprint(status.st_ino, files, size, modified, written, times), status.st_ctime_ns > modified


def files_of(directory: Path) -> Iterator[os.DirEntry[str]]:
    """Yield the regular files in a directory.

    Raises OSError, TooManyEntriesError beyond the bounds, LeadsOutError for a link out of what it lies in.
    """
    waiting = [(str(directory), 0)]
    count = 0
    while waiting:
        folder, depth = waiting.pop()
        with os.scandir(folder) as items:
            for item in items:
                count += 1
                if count > MAX_ENTRIES or depth > _MAX_DEPTH:
                    raise TooManyEntriesError(f"{directory}: more than {MAX_ENTRIES} entries, or too deep")
                if item.name == _LOST:
                    continue
                if item.is_dir(follow_symlinks=False):
                    waiting.append((item.path, depth + 1))
                elif item.is_file():
                    # Those of a checkpoint often are links to a store beside it.
                    if item.is_symlink() and leads_out(Path(item.path), directory.parent):
                        raise LeadsOutError(f"{item.path} is a link to somewhere else")
                    yield item
