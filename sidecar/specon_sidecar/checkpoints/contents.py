"""What a file of a known kind tells of its own wholeness: its header, its index, its end. Reads little.

Nothing is unpickled, and nothing that a file says makes more be read than the bounds here.
"""

import io
import struct
from collections.abc import Callable, Iterator
from pathlib import PurePath
from typing import Final

import msgspec

from specon_sidecar.checkpoints.pickles import values
from specon_sidecar.checkpoints.ubjson import Values

MAX_HEADER: Final = 100 << 20
"""Bytes of an index or a header that are read; of a header of safetensors the format's own limit."""
_ZIP: Final = b"PK\x03\x04"
_ENTRY: Final = b"PK\x01\x02"
_END: Final = b"PK\x05\x06"
_END_64: Final = b"PK\x06\x06"
_LOCATOR_64: Final = b"PK\x06\x07"
_SHORT_COMMENT: Final = 512
_LONGEST_COMMENT: Final = 65_535 + 22
_HDF: Final = b"\x89HDF\r\n\x1a\n"
_TAIL: Final = 1 << 20
_MAX_TEXT: Final = 1 << 24
_DECODED: Final = 1 << 22  # bytes of JSON that are decoded: of more only brackets are matched
_PIECE: Final = 1 << 18
_IN_THE_OTHER: Final = 0xFFFFFFFF


class UnreadableError(Exception):
    """A checkpoint that nothing can be restored from; the text says why."""


def check(name: str, raw: io.RawIOBase, size: int) -> bool:
    """Check what needs no framework to be checked; return whether the file declares its own size.

    `name` decides with the first bytes what it is; `size` is in bytes. Raises UnreadableError and OSError.
    """
    suffix = PurePath(name).suffix.lower()
    raw.seek(0)
    start = _read(raw, 16)
    if not start:
        raise UnreadableError(f"{name}: is empty")
    found = next((check for fits, check in _KINDS if fits(start, suffix)), None)
    if found is None:
        if suffix in {".pt", ".pth"} and not start.startswith(b"\x80"):
            raise UnreadableError(f"{name}: is neither a zip archive nor a pickle")
        return False
    try:
        found(name, raw, size)
    except (UnreadableError, OSError):
        raise
    except Exception as error:  # whatever damage makes a reader stumble over
        raise UnreadableError(f"{name}: damaged: {str(error) or type(error).__name__}"[:300]) from error
    return True


def is_zip(start: bytes, suffix: str) -> bool:
    """Whether a file that begins so is, or has to be, a zip archive."""
    return start.startswith(_ZIP) or suffix in {".npz", ".keras"}


def _read(raw: io.RawIOBase, length: int) -> bytes:
    """Read so many bytes, fewer only at the end of the file."""
    found = bytearray()
    while len(found) < length and (chunk := raw.read(length - len(found))):
        found += chunk
    return bytes(found)


def _at(raw: io.RawIOBase, offset: int, length: int) -> bytes:
    raw.seek(offset)
    return _read(raw, length)


def _zip(name: str, raw: io.RawIOBase, size: int) -> None:
    """Check that an archive has its directory, which is written last, where its end says.

    The directory is looked at alone: `zipfile` would hold all of it.
    """
    for length in (_SHORT_COMMENT, _LONGEST_COMMENT):
        begin = max(0, size - length)
        tail = _at(raw, begin, size - begin)
        if (found := tail.rfind(_END)) >= 0:
            break
    if found < 0 or len(tail) - found < 22:  # noqa: PLR2004 - of the format
        raise UnreadableError(f"{name}: damaged zip archive: it has no directory, which is written last")
    end = begin + found
    length, offset = struct.unpack("<II", tail[found + 12 : found + 20])
    if _IN_THE_OTHER in {length, offset} and tail[max(0, found - 20) : found].startswith(_LOCATOR_64):
        end = struct.unpack("<Q", tail[found - 12 : found - 4])[0]
        record = _at(raw, end, 56)
        if not record.startswith(_END_64) or len(record) < 56:  # noqa: PLR2004 - of the format
            raise UnreadableError(f"{name}: damaged zip archive: its end is not where it says")
        length, offset = struct.unpack("<QQ", record[40:56])
    if length > MAX_HEADER:
        raise UnreadableError(f"{name}: damaged zip archive: its directory has {length} bytes")
    if offset + length > end or (length and _at(raw, offset, 4) != _ENTRY):
        raise UnreadableError(f"{name}: damaged zip archive: its directory is not where it says")


def _safetensors(name: str, raw: io.RawIOBase, size: int) -> None:
    """Check that the size is that of the header and of all tensors it names."""
    prefix = _at(raw, 0, 8)
    length = int.from_bytes(prefix, "little")
    if len(prefix) < 8 or not 2 <= length <= min(size - 8, MAX_HEADER):  # noqa: PLR2004 - of the format
        raise UnreadableError(f"{name}: {size} bytes do not hold a header of {length}")
    header = _read(raw, length)
    try:
        tensors = msgspec.json.decode(header, type=dict[str, msgspec.Raw])
        ends = [
            msgspec.json.decode(raw, type=_Offsets).data_offsets[1]
            for key, raw in tensors.items()
            if key != "__metadata__"
        ]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UnreadableError(f"{name}: damaged header: {error}"[:300]) from error
    expected = 8 + length + max(ends, default=0)
    if size != expected:
        raise UnreadableError(f"{name}: has {size} bytes, its header tells {expected}")


class _Offsets(msgspec.Struct):
    data_offsets: tuple[int, int]


def _hdf(name: str, raw: io.RawIOBase, size: int) -> None:
    """Check the end of the file that the superblock tells (HDF5 file format specification, II.A)."""
    block = _at(raw, 0, 96)
    version = block[8]
    width = block[9] if version >= 2 else block[13]  # noqa: PLR2004 - of the format
    at = {0: 24, 1: 28}.get(version, 12)
    if width not in {2, 4, 8} or len(block) < at + 3 * width:
        raise UnreadableError(f"{name}: damaged header")
    base = int.from_bytes(block[at : at + width], "little")
    end = int.from_bytes(block[at + 2 * width : at + 3 * width], "little")
    if base + end != size:
        raise UnreadableError(f"{name}: has {size} bytes, its header tells {base + end}")


def _ubjson(name: str, raw: io.RawIOBase, size: int) -> None:
    """Check that the outermost object of XGBoost's UBJSON is closed at the end; arrays are skipped."""
    buffered = io.BufferedReader(raw)
    try:
        buffered.seek(0)
        at = Values(buffered).skip()
    finally:
        buffered.detach()
    if at != size:
        raise UnreadableError(f"{name}: has {size} bytes, its content tells {at}")


def _json(name: str, raw: io.RawIOBase, size: int) -> None:
    """Check that a JSON object is whole: of a long one that all is closed, of a huge one its last byte."""
    if _DECODED < size <= MAX_HEADER:
        _check_closed(name, raw)
    if size > _DECODED:
        if not _at(raw, size - 64, 64).rstrip().endswith(b"}"):
            raise UnreadableError(f"{name}: its outermost object is not closed")
        return
    try:
        msgspec.json.decode(_at(raw, 0, size), type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UnreadableError(f"{name}: damaged: {error}"[:300]) from error


def _check_closed(name: str, raw: io.RawIOBase) -> None:
    """Check that all is closed that a JSON text opens. Decoded it would take three times its size.

    A backslash at the end of a piece belongs to what follows.
    """
    raw.seek(0)
    depth, in_text, rest = 0, False, b""
    while chunk := raw.read(_PIECE):
        piece = (rest + chunk).replace(rb"\\", b"").replace(rb"\"", b"")
        rest = b"\\" if piece.endswith(b"\\") else b""
        for part in piece.removesuffix(b"\\").split(b'"'):
            if not in_text:
                depth += part.count(b"{") + part.count(b"[") - part.count(b"}") - part.count(b"]")
            in_text = not in_text
        in_text = not in_text  # the last part goes on
    if depth or in_text:
        raise UnreadableError(f"{name}: its outermost object is not closed")


def _trees(name: str, raw: io.RawIOBase, size: int) -> None:
    """Check that a model of LightGBM has its trees, as long as it says, and its end."""
    head = _at(raw, 0, min(size, _MAX_TEXT))
    line = head.find(b"\ntree_sizes=")
    if line < 0:
        raise UnreadableError(f"{name}: tells no `tree_sizes`")
    sizes = head[line + 12 :].split(b"\n", 1)[0].split()
    body = head.find(b"\nTree=0")
    end = (max(body, line) + 1) + sum(map(int, sizes))
    after = _at(raw, end, 64).lstrip() if end <= size else b""
    if not after.startswith(b"end of trees"):
        raise UnreadableError(f"{name}: has {size} bytes, its trees do not end where it says")
    lines = _at(raw, max(0, size - _TAIL), _TAIL).splitlines(keepends=True)
    last = lines[-1] if lines else b""
    if last.strip() != b"end of parameters" and not (
        last.startswith(b"pandas_categorical:") and last.endswith(b"\n")
    ):
        raise UnreadableError(f"{name}: its parameters do not end")


def _pickle(name: str, raw: io.RawIOBase, size: int) -> None:
    if _at(raw, size - 1, 1) != b".":
        raise UnreadableError(f"{name}: has no end, which a pickle has")


_KINDS: Final[tuple[tuple[Callable[[bytes, str], bool], Callable[[str, io.RawIOBase, int], None]], ...]] = (
    (is_zip, _zip),
    (lambda _, suffix: suffix == ".safetensors", _safetensors),
    (lambda start, suffix: start.startswith(_HDF) or suffix in {".h5", ".hdf5"}, _hdf),
    (lambda start, suffix: suffix == ".ubj" or start.startswith(b"{L\0\0\0\0"), _ubjson),
    (lambda start, suffix: suffix == ".json" and start.startswith(b'{"learner"'), _json),
    (lambda start, _: start.startswith((b"tree\n", b"tree\r\n")), _trees),
    (lambda start, suffix: suffix in {".pkl", ".pickle"} and start.startswith(b"\x80"), _pickle),
)


def read_pickled(raw: io.RawIOBase, key: str) -> int | bool | None:
    """Return the number or truth that follows a key in the pickle of a torch archive; None where none does.

    The pickle is looked through, never loaded; the first such key counts. `raw` is the archive, whose
    directory was checked. Raises OSError.
    """
    import zipfile  # noqa: PLC0415 - a sidecar that sees no such checkpoint need not hold it

    buffered = io.BufferedReader(raw)
    try:
        with zipfile.ZipFile(buffered) as archive:
            inside = next(each for each in archive.infolist() if each.filename.endswith("/data.pkl"))
            with archive.open(inside) as opened:
                content = opened.read(_MAX_TEXT)
        return _following(values(content), key)
    except OSError:
        raise
    except Exception:  # noqa: BLE001 - no archive of torch, or a damaged one: it says nothing
        return None
    finally:
        buffered.detach()


def _following(found: Iterator[str | int | None], key: str) -> int | bool | None:
    for value in found:
        if value == key:
            after = next(found, None)
            return after if isinstance(after, int) else None
    return None
