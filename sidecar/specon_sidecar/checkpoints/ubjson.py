"""Where a value of UBJSON ends (ubjson.org, draft 12), as XGBoost writes its models; arrays are skipped."""

import os
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from io import BufferedReader, RawIOBase

_WIDTHS: Final = {
    **dict.fromkeys((b"i", b"U", b"C", b"B"), 1),
    **dict.fromkeys((b"I", b"u", b"h"), 2),
    **dict.fromkeys((b"l", b"m", b"d"), 4),
    **dict.fromkeys((b"L", b"M", b"D"), 8),
}
"""Bytes of a number by its type."""
_LENGTHS: Final = frozenset((b"i", b"U", b"I", b"l", b"L"))
_EMPTY: Final = frozenset((b"Z", b"N", b"T", b"F"))
_OPENS: Final = {b"{": b"}", b"[": b"]"}
_MAX_TEXT: Final = 1 << 24
_MAX_VALUES: Final = 2_000_000
_DEEPEST: Final = 64


class Values:
    """Skips values of a file, one after the other."""

    def __init__(self, opened: "BufferedReader[RawIOBase]") -> None:
        """Read in `opened`, from where it is."""
        self._opened = opened
        self._left = _MAX_VALUES

    def skip(self) -> int:
        """Return where the next value ends; raises ValueError where it does not, or is none."""
        inside: list[_Open] = []
        while True:
            self._left -= 1
            if self._left < 0:
                raise ValueError(f"more than {_MAX_VALUES} values")
            if not (inside and self._closes(inside[-1])):
                if inside and inside[-1].keys:
                    self._forward(self._length())
                if inside:
                    inside[-1].left -= 1
                if (opened := self._value()) is not None:
                    inside.append(opened)
                    if len(inside) > _DEEPEST:
                        raise ValueError("it is nested too deep")
                    continue
            else:
                inside.pop()
            if not inside:
                return self._opened.tell()

    def _closes(self, last: "_Open") -> bool:
        """Whether nothing more is in the last one that is open; what closes it is then read."""
        if last.counted:
            return last.left == 0
        if self._opened.peek(1)[:1] != last.end:
            return False
        self._read(1)
        return True

    def _value(self) -> "_Open | None":
        """Skip one value; return it where others lie in it, and it is only open now."""
        kind = self._read(1)
        if kind in _OPENS:
            return self._open_by(kind)
        if kind in {b"S", b"H"}:
            self._forward(self._length())
        elif kind in _WIDTHS:
            self._forward(_WIDTHS[kind])
        elif kind not in _EMPTY:
            raise ValueError(f"no value: {kind!r}")
        return None

    def _open_by(self, kind: bytes) -> "_Open | None":
        following = self._opened.peek(1)[:1]
        if following == b"$" and kind == b"[":
            self._read(1)
            width = _WIDTHS.get(self._read(1), 0)
            if self._read(1) != b"#" or not width:
                raise ValueError("an array of an unknown type")
            self._forward(self._length(_MAX_TEXT << 20) * width)
            return None
        opened = _Open(kind)
        if following == b"#":
            self._read(1)
            opened.counted, opened.left = True, self._length(_MAX_TEXT << 20)
        return opened

    def _length(self, most: int = _MAX_TEXT) -> int:
        kind = self._read(1)
        if kind not in _LENGTHS:
            raise ValueError(f"no length: {kind!r}")
        length = int.from_bytes(self._read(_WIDTHS[kind]), "big", signed=kind != b"U")
        if not 0 <= length <= most:
            raise ValueError(f"a length of {length}")
        return length

    def _forward(self, length: int) -> None:
        self._opened.seek(length, os.SEEK_CUR)

    def _read(self, length: int) -> bytes:
        found = self._opened.read(length)
        if len(found) != length:
            raise ValueError("it ends before its content does")
        return found


class _Open:
    """An array or an object that is not closed yet."""

    def __init__(self, kind: bytes) -> None:
        self.end, self.keys = _OPENS[kind], kind == b"{"
        self.counted, self.left = False, 0
