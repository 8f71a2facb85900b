"""A pickle as the texts and numbers in it: it could run anything when loaded, so it never is."""

from collections.abc import Iterator
from threading import Event
from typing import Final

_TEXTS: Final = frozenset({"SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8", "UNICODE"})
_NUMBERS: Final = frozenset({"BININT1", "BININT2", "BININT", "LONG1", "LONG4", "INT", "LONG"})
_TRUTHS: Final = {"NEWTRUE": True, "NEWFALSE": False}
_PUTS: Final = frozenset({"PUT", "BINPUT", "LONG_BINPUT"})
_GETS: Final = frozenset({"GET", "BINGET", "LONG_BINGET"})
_LOOK_EVERY: Final = 10_000  # operations between two looks whether somebody called it off


class CalledOffError(Exception):
    """Somebody called it off."""


def values(content: bytes, cancelled: Event | None = None) -> Iterator[str | int | None]:
    """Yield the texts, numbers and truths of a pickle in their order, None for each other operation between.

    Raises CalledOffError once `cancelled` is set, and whatever damage makes of each operation.
    """
    # Imported here: a sidecar that never sees such a checkpoint need not hold it.
    from pickletools import genops  # noqa: PLC0415 - see above

    texts: dict[int, str] = {}
    memoised = 0
    value: str | int | None = None
    for count, (operation, argument, _) in enumerate(genops(content)):
        if cancelled is not None and count % _LOOK_EVERY == 0 and cancelled.is_set():
            raise CalledOffError
        name = operation.name
        if name == "FRAME":
            continue  # may stand anywhere, and means nothing
        if name == "MEMOIZE" or name in _PUTS:
            if isinstance(value, str):
                texts[memoised if name == "MEMOIZE" else int(argument or 0)] = value
            memoised += 1
            continue
        if name in _TEXTS or name in _NUMBERS:
            value = argument
        elif name in _TRUTHS:
            value = _TRUTHS[name]
        else:
            value = texts.get(int(argument or 0)) if name in _GETS else None
        yield value
