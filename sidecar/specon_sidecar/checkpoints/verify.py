"""Is a checkpoint whole? What it lacks, whether its containers can be read, and its SHA-256 digest.

All of it is read where that fits the time; of a large one whose format says by itself that it is complete a
sample: headers, indexes, directories, sizes and some blocks, at most one byte in a hundred.
"""

import hashlib
import io
import struct
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from random import Random
from threading import Event
from typing import IO, TYPE_CHECKING, Final, Literal

from msgspec import Struct

from specon_sidecar.checkpoints.checkpoint_watch import UnverifiedCheckpoint, candidate_at
from specon_sidecar.checkpoints.contents import UnreadableError, is_zip
from specon_sidecar.checkpoints.find import fingerprint
from specon_sidecar.checkpoints.parts import Window, pairs
from specon_sidecar.checkpoints.reading_once import CancelledError, OutOfTimeError, ReadOnce
from specon_sidecar.checkpoints.whole import Sizes, examine
from specon_sidecar.regular_file import open_regular

if TYPE_CHECKING:
    from zipfile import ZipInfo  # loaded where an archive is read

__all__ = ["Budget", "CancelledError", "UnreadableError", "Verified", "verify", "verify_path"]

WHOLE_BYTES: Final = 1 << 30
"""Up to this size all of a checkpoint is read where that fits half of the time."""
_SHARE: Final = 100  # of sampled files, one byte in so many is read
_BLOCK: Final = 1 << 16
_SMALL: Final = 1 << 12
_LOOKED_AT: Final = 64  # of what an archive holds
_ZIP: Final = b"PK\x03\x04"
_CHUNK: Final = 1 << 20
_READ_WAYS: Final = frozenset({0, 8})  # stored, and deflated: a small file of another kind takes gigabytes


class Budget(Struct, frozen=True):
    """How much a verification may cost."""

    seconds: float = 10.0
    """Until a sample has to do."""
    whole: bool = False
    """Whether nothing but all of it will do, however long it takes."""


class Verified(Struct, frozen=True):
    """The facts about a checkpoint that can be restored from."""

    digest: str
    """SHA-256 of the bytes read; of a folder over its sorted relative names and contents."""
    read: Literal["whole", "sampled"]
    bytes_read: int


def verify_path(path: Path, budget: Budget, *, cancelled: Event | None = None) -> Verified:
    """Return the checkpoint at a path that a trainer says it has saved to; raises as `verify` does."""
    try:
        candidate = candidate_at(path)
    except OSError as error:
        raise UnreadableError(f"{path.name}: {error.strerror or error}") from error
    return verify(candidate, cancelled or Event(), budget)


def verify(
    candidate: UnverifiedCheckpoint,
    cancelled: Event,
    budget: Budget = Budget(),  # noqa: B008 - frozen
    clock: Callable[[], float] = time.monotonic,
) -> Verified:
    """Return the digest of a checkpoint, and how much of it was read.

    Reads: run it in a thread. Raises UnreadableError, and CancelledError once `cancelled` is set.
    """
    path, began = candidate.path, clock()
    try:
        sizes = examine(path, candidate.declared, marked=candidate.marked, cancelled=cancelled)
        verified = None
        may_sample = not budget.whole and _may_sample(candidate, sizes)
        if not may_sample or sum(sizes.files.values()) <= WHOLE_BYTES:
            until = began + budget.seconds / 2 if may_sample else None
            try:
                verified = _whole(path, sizes, cancelled, lambda: until is not None and clock() > until)
            except OutOfTimeError:
                verified = None
        if verified is None:
            until = began + budget.seconds
            verified = _sample(path, sizes, cancelled, lambda: clock() > until)
        after = fingerprint(path)
    except OSError as error:
        if cancelled.is_set():
            raise CancelledError from error
        raise UnreadableError(f"{path.name}: {error.strerror or error}") from error
    except UnreadableError as error:
        if cancelled.is_set():
            raise CancelledError from error
        raise
    if after != candidate.fingerprint:
        raise UnreadableError(f"{path.name}: changed while it was read")
    return verified


def _may_sample(candidate: UnverifiedCheckpoint, sizes: Sizes) -> bool:
    """Whether something says that it is complete: a marker, or the sizes that it declares itself."""
    if candidate.marked or candidate.declared.marked:
        return True
    return all(name in sizes.told or size <= _BLOCK for name, size in sizes.files.items())


def _file_of(path: Path, name: str) -> Path:
    return path / name if path.is_dir() else path


def _whole(path: Path, sizes: Sizes, cancelled: Event, late: Callable[[], bool]) -> Verified:
    read, digests = 0, []
    for name in sorted(sizes.files):
        file = _file_of(path, name)
        with open_regular(file) as raw:
            once = ReadOnce(raw, cancelled, late)
            label = name if file == path else f"{path.name}/{name}"
            _compare_checksums(label, once, file, sizes)
            digests.append((name, once.finish()))
            read += once.bytes_read
    if not path.is_dir():
        return Verified(digests[0][1], "whole", read)
    total = hashlib.sha256()
    for name, digest in digests:
        encoded = name.encode("utf-8", "surrogateescape")
        total.update(struct.pack(">Q", len(encoded)) + encoded + bytes.fromhex(digest))
    return Verified(total.hexdigest(), "whole", read)


def _compare_checksums(label: str, once: ReadOnce, file: Path, sizes: Sizes) -> None:
    """Read what has checksums in the order in which it lies there, so that all is read once."""
    parts = sizes.parts.get(file)
    if parts is not None:
        for offset, length in sorted(pairs(parts)):
            # Compressed ones are in a format of their user's choice.
            window = Window(once, offset, length)
            once.in_order = False
            if window.read(len(_ZIP)) == _ZIP:
                _read_zip(label, Window(once, offset, length), once)
        return
    once.seek(0)
    start = once.read(4)
    if is_zip(start or b"", file.suffix.lower()):
        _read_zip(label, once, once)


def _read_zip(name: str, raw: io.RawIOBase, once: ReadOnce) -> None:
    # Imported here: a sidecar that is never asked to verify need not hold it.
    import zipfile  # noqa: PLC0415 - see above

    once.in_order = False
    try:
        raw.seek(0)
        with zipfile.ZipFile(io.BufferedReader(raw, _CHUNK)) as archive:
            once.in_order = True
            for member in sorted(archive.infolist(), key=lambda each: each.header_offset):
                # Reading to the end compares the CRC.
                _plain(name, member)
                with archive.open(member) as opened:
                    _read_to_end(opened, once)
    except (UnreadableError, CancelledError, OutOfTimeError, OSError):
        raise
    except Exception as error:  # each way of compressing raises its own errors for damage
        said = str(error) or type(error).__name__
        raise UnreadableError(f"{name}: damaged zip archive: {said}"[:300]) from error
    finally:
        once.in_order = False


def _plain(name: str, member: "ZipInfo") -> None:
    """Raise UnreadableError for a way of compressing that no framework writes: bzip2 unpacks to a million."""
    if member.compress_type not in _READ_WAYS:
        raise UnreadableError(f"{name}: {member.filename[:100]} is compressed in a way that is not read")


def _read_to_end(opened: IO[bytes], once: ReadOnce) -> None:
    while opened.read(_CHUNK):
        once.go_on()


def _sample(path: Path, sizes: Sizes, cancelled: Event, late: Callable[[], bool]) -> Verified:
    """Read the ends of each file, then blocks here and there, as far as bytes and time allow."""
    allowed = max(_BLOCK, sum(sizes.files.values()) // _SHARE)
    digest, read = hashlib.sha256(), 0
    for name in sorted(sizes.files):
        digest.update(f"{name}\0{sizes.files[name]}\0".encode("utf-8", "surrogateescape"))
        if (entries := _entries(path, name, sizes, cancelled)) is not None:
            read += entries
    for name, offset, length in _blocks(sizes.files):
        if cancelled.is_set():
            raise CancelledError
        if read + length > allowed or late():
            break
        with open_regular(_file_of(path, name)) as raw:
            raw.seek(offset)
            found = raw.read(length) or b""
        if len(found) < length:
            raise UnreadableError(f"{path.name}: {name} is shorter than it was")
        digest.update(struct.pack(">Q", offset) + found)
        read += length
    return Verified(digest.hexdigest(), "sampled", read)


def _blocks(files: Mapping[str, int]) -> Iterator[tuple[str, int, int]]:
    """Yield which blocks to read, the most telling first: the end of each file, its begin, and others.

    The same for the same names and sizes, so that the digest of the same content is the same.
    """
    held = sorted((name, size) for name, size in files.items() if size)
    for name, size in held:
        length = min(size, _BLOCK)
        yield name, size - length, length
    for name, size in held:
        if size > _BLOCK:
            yield name, 0, _BLOCK
    large = [(name, size) for name, size in held if size > 2 * _BLOCK]
    chosen = Random(repr(large))  # noqa: S311 - spreads the bytes read, guards nothing
    while large:
        for name, size in large:
            yield name, chosen.randrange(0, size - _BLOCK), _BLOCK


def _entries(path: Path, name: str, sizes: Sizes, cancelled: Event) -> int | None:
    """Look at some of what an archive holds; return how many bytes that took, None for no archive.

    Each has its header where the directory says, and those that are small their checksum.
    """
    file = _file_of(path, name)
    if file in sizes.parts or sizes.files[name] < len(_ZIP):
        return None
    with open_regular(file) as raw:
        if not is_zip(raw.read(len(_ZIP)) or b"", file.suffix.lower()):
            return None
        import zipfile  # noqa: PLC0415 - as above

        once = ReadOnce(raw, cancelled, lambda: False)
        try:
            with zipfile.ZipFile(io.BufferedReader(once, _SMALL)) as archive:
                held = archive.infolist()
                for member in held[:: max(1, len(held) // _LOOKED_AT)]:
                    _plain(path.name, member)
                    with archive.open(member) as opened:
                        if member.file_size <= _SMALL:
                            _read_to_end(opened, once)
        except (UnreadableError, CancelledError, OSError):
            raise
        except Exception as error:  # as above
            said = str(error) or type(error).__name__
            raise UnreadableError(f"{path.name}: damaged zip archive: {said}"[:300]) from error
        return once.bytes_read
