"""Checkpoints in parts, as `torch.distributed.checkpoint` writes them: files of each rank, and an index.

The index, `.metadata`, comes last. It is a pickle, which could run anything: it is looked through and never
loaded. What it names are tensors and other objects: each is a stretch of a part.
"""

import io
import re
from array import array
from collections import deque
from collections.abc import Iterator, Mapping
from pathlib import Path
from threading import Event
from typing import Final, TypeAlias

from specon_sidecar.checkpoints.pickles import CalledOffError, values
from specon_sidecar.regular_file import open_regular

_INDEX: Final = ".metadata"
_SUFFIX: Final = ".distcp"
_MAX_INDEX_BYTES: Final = 64 << 20  # some 100,000 tensors on 1,000 ranks
_MAX_PARTS: Final = 10_000
_PART: Final = re.compile(r"__\d{1,9}_\d{1,9}\.distcp")

Stretches: TypeAlias = "array[int]"
"""Where tensors lie in their part: offset and length of each in turn, bytes. There may be a million."""


class PartsError(Exception):
    """A checkpoint in parts that is not whole; the text says what it lacks."""


def stretches(files: Mapping[Path, int], cancelled: Event | None = None) -> Mapping[Path, Stretches]:
    """Return what lies where in the parts among these files, whose sizes are given in bytes.

    All that an index names is there, and long enough. Raises PartsError where something is not, or once it
    was called off by `cancelled`; OSError where an index cannot be read.
    """
    found: dict[Path, Stretches] = {}
    for folder in sorted({path.parent for path in files if path.name == _INDEX or path.suffix == _SUFFIX}):
        parts = {path.name: size for path, size in files.items() if _is_part_of(path, folder)}
        for name, inside in _in_folder(folder, files.get(folder / _INDEX), parts, cancelled).items():
            found[folder / name] = inside
    return found


def _is_part_of(path: Path, folder: Path) -> bool:
    return path.suffix == _SUFFIX and path.parent == folder


def _in_folder(
    folder: Path, index: int | None, parts: Mapping[str, int], cancelled: Event | None
) -> Mapping[str, Stretches]:
    """Return the stretches by name of their part; sizes of the index and of the parts are in bytes."""
    if index is None:
        raise PartsError(f"{folder.name}: has parts and no {_INDEX}, which is written last")
    if index > _MAX_INDEX_BYTES:
        raise PartsError(f"{folder.name}: its {_INDEX} has {index} bytes, more than {_MAX_INDEX_BYTES}")
    with io.BufferedReader(open_regular(folder / _INDEX)) as opened:
        content = opened.read(_MAX_INDEX_BYTES)
    try:
        named = _list_named(content, cancelled or Event())
    except PartsError as error:
        if not parts:
            return {}  # a file of that name means something else to others
        raise PartsError(f"{folder.name}: {error}") from error
    if parts and not named:
        raise PartsError(f"{folder.name}: its {_INDEX} names no part")
    for name, found in sorted(named.items()):
        end = max(offset + length for offset, length in pairs(found))
        if name not in parts:
            raise PartsError(f"{folder.name}: lacks {name}, which its {_INDEX} names")
        if parts[name] < end:
            raise PartsError(f"{folder.name}: {name} has {parts[name]} bytes, its {_INDEX} tells {end}")
    return named


def _list_named(content: bytes, cancelled: Event) -> dict[str, Stretches]:
    """Return the stretches that the index names, by part."""
    found: dict[str, Stretches] = {}
    last: deque[str | int | None] = deque(maxlen=6)
    try:
        for value in values(content, cancelled):
            last.append(value)
            match tuple(last):
                case ("relative_path", str(name), "offset", int(offset), "length", int(length)) if (
                    _PART.fullmatch(name) and offset >= 0 and length >= 0
                ):
                    found.setdefault(name, array("Q")).extend((offset, length))
                    if len(found) > _MAX_PARTS:
                        raise PartsError(f"{_INDEX} names more than {_MAX_PARTS} parts")  # noqa: TRY301
                case _:
                    continue
    except PartsError:
        raise
    except CalledOffError as error:
        raise PartsError("called off") from error
    except Exception as error:  # each operation raises its own errors for damage
        raise PartsError(f"damaged {_INDEX}: {error}"[:300]) from error
    return found


def pairs(stretches: Stretches) -> Iterator[tuple[int, int]]:
    """Yield offset and length of each."""
    numbers = iter(stretches)
    return zip(numbers, numbers, strict=True)


class Window(io.RawIOBase):
    """A stretch of a file as a file of its own."""

    def __init__(self, raw: io.RawIOBase, offset: int, length: int) -> None:
        """Show `length` bytes from `offset` on; the file stays the caller's to close."""
        self._raw, self._offset, self._length, self._at = raw, offset, length, 0

    def readable(self) -> bool:
        """Return whether it can be read."""
        return True

    def seekable(self) -> bool:
        """Return whether one can move about in it."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move, and return where that is."""
        begin = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._length}[whence]
        if begin + offset < 0:
            raise ValueError(f"negative position {begin + offset}")
        self._at = begin + offset
        return self._at

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]  # of any buffer
        """Fill the buffer as far as the stretch goes."""
        self._raw.seek(self._offset + self._at)
        wanted = max(0, min(len(buffer), self._length - self._at))
        read = self._raw.readinto(memoryview(buffer)[:wanted]) or 0
        self._at += read
        return read
