"""The one guard around everything that reads objects: anybody may have written them.

Whatever reading an object raises means that it says nothing. That is said once, with its name and the error,
and counted; nobody else's object is read any the worse for it.
"""

import logging
from collections import OrderedDict
from collections.abc import Callable
from types import TracebackType
from typing import Final

_log = logging.getLogger(__name__)
_MOST_TOLD: Final = 1000
_LONGEST: Final = 300


class ReadGuard:
    """Guards readers. One for each process: the same words about an object are not said again."""

    def __init__(self, observer: Callable[[str], None] | None = None) -> None:
        """Guard; `observer` is told the kind of each object that could not be read."""
        self.observer = observer
        self._told: OrderedDict[tuple[str, str], str] = OrderedDict()

    def of(self, kind: str, name: str) -> "_Guard":
        """Return the context in which an object is read: an error raised there ends the context, and no more.

        The fact to be learned there stays as it was before, so set that first.
        """
        return _Guard(self, kind, name)

    def note_failed(self, kind: str, name: str, error: Exception) -> None:
        """Take note that an object could not be read."""
        if self.observer is not None:
            self.observer(kind)
        words = describe_error(error)
        if self._told.get((kind, name)) == words:
            return
        self._told[kind, name] = words
        self._told.move_to_end((kind, name))
        if len(self._told) > _MOST_TOLD:
            self._told.popitem(last=False)
        _log.warning("%s %s cannot be read and says nothing: %s", kind[:_LONGEST], name[:_LONGEST], words)


class _Guard:
    __slots__ = ("_kind", "_name", "_reading")

    def __init__(self, reading: ReadGuard, kind: str, name: str) -> None:
        self._reading, self._kind, self._name = reading, kind, name

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        del kind, trace
        if not isinstance(error, Exception):
            return False
        self._reading.note_failed(self._kind, self._name, error)
        return True


def describe_error(error: Exception) -> str:
    """Return what an error says, bounded, and where it came from: the traceback of a recursion is endless."""
    trace, place = error.__traceback__, ""
    while trace is not None:
        place = f"{trace.tb_frame.f_code.co_filename.rpartition('/')[2]}:{trace.tb_lineno}"
        trace = trace.tb_next
    try:
        said = str(error)
    except Exception:  # noqa: BLE001  (words about what cannot be put into words)
        said = ""
    return f"{type(error).__name__}: {' '.join(said[:_LONGEST].split())} ({place})"
