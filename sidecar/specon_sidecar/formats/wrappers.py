"""Containers of lines: what kubelet, Docker and `kubectl logs --timestamps` make of a log, and documents."""

import re
from collections.abc import Iterable, Iterator
from typing import Final, Protocol

import msgspec

from specon_sidecar.formats.documents import Documents
from specon_sidecar.formats.wall_time import leading_stamp

_STAMP: Final = rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9}+)?(?:Z|[+-]\d\d:\d\d)"
_CRI: Final = re.compile(rb"(" + _STAMP + rb") (stdout|stderr) ([FP])(?: |$)")
_KUBECTL: Final = re.compile(rb"(?:\[pod/[^\]\s]{1,300}+\] )?(" + _STAMP + rb") ")
# So many first lines are looked at; a container is on every line or on none.
_SNIFFED: Final = 20
_BRACKETS: Final = (b"{", b"[")
# A line that never ends is given up; the follower bounds its own lines likewise.
_LONGEST: Final = 65_536

Unwrapped = tuple[bytes, float | None]


class _Wrapper(Protocol):
    def unwrap(self, line: bytes) -> Iterable[Unwrapped]: ...


class _Parts:
    """Lines that come in parts, joined per stream."""

    def __init__(self) -> None:
        self._carried: dict[bytes, bytes | None] = {}

    def add(self, stream: bytes, part: bytes, *, complete: bool) -> bytes | None:
        carried = self._carried.get(stream, b"")
        line = None if carried is None or len(carried) + len(part) > _LONGEST else carried + part
        self._carried[stream] = b"" if complete else line
        return line if complete else None

    def replace(self, stream: bytes, part: bytes) -> bytes:
        """Return the carried text, for a carriage return ended it; what follows is carried now."""
        carried = self._carried.get(stream) or b""
        self._carried[stream] = part
        return carried

    def is_open(self, stream: bytes) -> bool:
        return bool(self._carried.get(stream))


class _Cri:
    """containerd and CRI-O: `2026-11-20T23:00:00.0Z stdout F line`; P marks a part of a line."""

    def __init__(self) -> None:
        self._parts = _Parts()
        self._stream: bytes | None = None

    def unwrap(self, line: bytes) -> Iterator[Unwrapped]:
        found = _CRI.match(line)
        if found is None:
            # What a carriage return inside of a wrapped line cut off.
            if self._stream is not None and self._parts.is_open(self._stream):
                line = self._parts.replace(self._stream, line)
            yield line, None
            return
        stamp, self._stream, mark = found.groups()
        text = self._parts.add(self._stream, line[found.end() :], complete=mark == b"F")
        if text:
            yield text, leading_stamp(stamp)


class _Docker:
    """Docker's json-file: `{"log":"line","stream":"stdout","time":"…"}`; a part has no line end."""

    def __init__(self) -> None:
        self._parts = _Parts()

    def unwrap(self, line: bytes) -> Iterator[Unwrapped]:
        try:
            record = msgspec.json.decode(line, type=_DockerRecord)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            yield line, None
            return
        text = record.log.encode("utf-8", "replace")
        complete = text.endswith((b"\n", b"\r"))
        whole = self._parts.add(record.stream.encode("utf-8", "replace"), text, complete=complete)
        if whole is not None:
            time = leading_stamp(record.time.encode("utf-8", "replace"))
            for one in whole.splitlines():
                if one:
                    yield one, time


class _DockerRecord(msgspec.Struct):
    log: str
    stream: str = ""
    time: str = ""


class _Kubectl:
    """`kubectl logs --timestamps --prefix`: a stamp before each line."""

    def unwrap(self, line: bytes) -> Iterator[Unwrapped]:
        found = _KUBECTL.match(line)
        if found is None:
            yield line, None
        elif found.end() < len(line):
            yield line[found.end() :], leading_stamp(found[1])


class Unwrapping:
    """Finds out whether the lines of a log are wrapped, and takes the wrapping off."""

    def __init__(self) -> None:
        self._wrapper: _Wrapper | None = None
        self._looked = 0
        self._documents: Documents | None = None

    @property
    def needed(self) -> bool:
        """Whether lines must still be passed through `unwrap`: wrapped, or not looked at enough."""
        return self._wrapper is not None or self._looked < _SNIFFED or self._documents is not None

    def finish(self) -> Iterable[Unwrapped]:
        """Return the lines that were held back, for the log has ended."""
        documents, self._documents = self._documents, None
        return [] if documents is None else [(line, None) for line in documents.finish()]

    def unwrap(self, line: bytes) -> Iterable[Unwrapped]:
        """Return the lines that this one completes, each with its time where that is known."""
        if self._wrapper is None:
            self._looked += 1
            self._wrapper = _sniff(line)
            if self._wrapper is None:
                return self._of_document(line)
        return self._wrapper.unwrap(line)

    def _of_document(self, line: bytes) -> Iterable[Unwrapped]:
        """Return the records of a document that the log begins with, or the line as it is."""
        if self._looked == 1 and line[:1] in _BRACKETS:
            self._documents = Documents()
        documents = self._documents
        if documents is None:
            return ((line, None),)
        lines = documents.take(line)
        if documents.is_over:
            self._documents = None
        return [(one, None) for one in lines]


def _sniff(line: bytes) -> _Wrapper | None:
    if _CRI.match(line):
        return _Cri()
    if line.startswith(b'{"log":"'):
        return _Docker()
    return _Kubectl() if _KUBECTL.match(line) else None
