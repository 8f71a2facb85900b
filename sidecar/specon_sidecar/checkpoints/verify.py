"""Is a checkpoint whole? Its SHA-256 digest, and whether its container formats can be read."""

import hashlib
import io
import struct
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from threading import Event
from typing import IO, Final

import msgspec

from specon_sidecar.checkpoints.checkpoint_watch import Candidate, files_of, fingerprint
from specon_sidecar.checkpoints.parts import PartsError, Window, stretches
from specon_sidecar.regular_file import open_regular

_CHUNK: Final = 1 << 20
_MAX_HEADER: Final = 100 << 20  # the format's own limit
_ZIP: Final = b"PK\x03\x04"
_ALWAYS_ZIP: Final = frozenset({".npz", ".keras"})
_TORCH: Final = frozenset({".pt", ".pth"})


class UnreadableError(Exception):
    """A checkpoint that nothing can be restored from; the text says why."""


class CancelledError(Exception):
    """The verification was called off."""


def verify(candidate: Candidate, cancelled: Event) -> str:
    """Return the SHA-256 digest of a checkpoint; of a directory, over its sorted relative names and contents.

    Reads everything: run it in a thread. Raises UnreadableError, and CancelledError once `cancelled` is set.
    """
    try:
        if candidate.path.is_dir():
            digest = _directory_digest(candidate.path, cancelled)
        else:
            _check_structure(candidate.path, cancelled)
            digest = _digest(candidate.path, cancelled)
        after = fingerprint(candidate.path)
    except OSError as error:
        raise UnreadableError(f"{candidate.path.name}: {error.strerror or error}") from error
    if after != candidate.fingerprint:
        raise UnreadableError(f"{candidate.path.name}: changed while it was read")
    return digest


def _directory_digest(directory: Path, cancelled: Event) -> str:
    names = sorted(Path(item.path).relative_to(directory).as_posix() for item in files_of(directory))
    if not names:
        raise UnreadableError(f"{directory.name}: holds no file")
    parts = _check_parts(directory, names, cancelled)
    total = hashlib.sha256()
    for name in names:
        # Some formats have empty files on purpose; what must not be is a directory of nothing else.
        if (directory / name).stat().st_size and directory / name not in parts:
            _check_structure(directory / name, cancelled)
        encoded = name.encode("utf-8", "surrogateescape")
        total.update(struct.pack(">Q", len(encoded)) + encoded)
        total.update(bytes.fromhex(_digest(directory / name, cancelled)))
    if not any((directory / name).stat().st_size for name in names):
        raise UnreadableError(f"{directory.name}: holds only empty files")
    return total.hexdigest()


def _check_parts(directory: Path, names: Iterable[str], cancelled: Event) -> Collection[Path]:
    """Return the parts of a checkpoint that has some, whose contents are all checked by then."""
    try:
        parts = stretches({directory / name: (directory / name).stat().st_size for name in names}, cancelled)
    except PartsError as error:
        if cancelled.is_set():
            raise CancelledError from error
        raise UnreadableError(str(error)) from error
    for part, found in parts.items():
        with open_regular(part) as opened:
            for offset, length in found:
                # Compressed ones are in a format of their user's choice.
                if Window(opened, offset, length).read(len(_ZIP)) == _ZIP:
                    _read_zip(f"{directory.name}/{part.name}", Window(opened, offset, length), cancelled)
    return parts.keys()


def _digest(file: Path, cancelled: Event) -> str:
    digest = hashlib.sha256()
    for chunk in _chunks(file, cancelled):
        digest.update(chunk)
    return digest.hexdigest()


def _chunks(file: Path, cancelled: Event) -> Iterator[bytes]:
    with open_regular(file) as opened:
        while chunk := opened.read(_CHUNK):
            if cancelled.is_set():
                raise CancelledError
            yield chunk


def _check_structure(file: Path, cancelled: Event) -> None:
    """Check what needs no framework to be checked; raises UnreadableError and OSError."""
    with open_regular(file) as opened:
        start = opened.read(len(_ZIP))
    suffix = file.suffix.lower()
    if not start:
        raise UnreadableError(f"{file.name}: is empty")
    if suffix == ".safetensors":
        _check_safetensors(file)
    elif start == _ZIP or suffix in _ALWAYS_ZIP:
        _check_zip(file, cancelled)
    elif suffix in _TORCH and not start.startswith(b"\x80"):
        raise UnreadableError(f"{file.name}: is neither a zip archive nor a pickle")


def _check_zip(file: Path, cancelled: Event) -> None:
    with open_regular(file) as raw:
        _read_zip(file.name, raw, cancelled)


def _read_zip(name: str, raw: io.RawIOBase, cancelled: Event) -> None:
    # Imported here: a sidecar that is never asked to verify need not hold it.
    import zipfile  # noqa: PLC0415 - see above

    try:
        with io.BufferedReader(raw) as buffered, zipfile.ZipFile(buffered) as archive:
            for member in archive.infolist():
                # Reading to the end compares the CRC.
                with archive.open(member) as opened:
                    _read_to_end(opened, cancelled)
    except CancelledError:
        raise
    except Exception as error:  # each way of compressing raises its own errors for damage
        said = str(error) or type(error).__name__
        raise UnreadableError(f"{name}: damaged zip archive: {said}"[:300]) from error


def _read_to_end(opened: IO[bytes], cancelled: Event) -> None:
    while opened.read(_CHUNK):
        if cancelled.is_set():
            raise CancelledError


def _check_safetensors(file: Path) -> None:
    """Check that the size is that of the header and of all tensors it names."""
    size = file.stat().st_size
    with io.BufferedReader(open_regular(file)) as opened:
        prefix = opened.read(8)
        length = int.from_bytes(prefix, "little")
        if len(prefix) < 8 or not 2 <= length <= min(size - 8, _MAX_HEADER):  # noqa: PLR2004 - of the format
            raise UnreadableError(f"{file.name}: {size} bytes do not hold a header of {length}")
        header = opened.read(length)
    try:
        tensors = msgspec.json.decode(header, type=dict[str, msgspec.Raw])
        ends = [
            msgspec.json.decode(raw, type=_Offsets).data_offsets[1]
            for name, raw in tensors.items()
            if name != "__metadata__"
        ]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UnreadableError(f"{file.name}: damaged header: {error}"[:300]) from error
    expected = 8 + length + max(ends, default=0)
    if size != expected:
        raise UnreadableError(f"{file.name}: has {size} bytes, its header tells {expected}")


class _Offsets(msgspec.Struct):
    data_offsets: tuple[int, int]
