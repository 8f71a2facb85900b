"""Wakes the follower of event files when something happens in their directories."""

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, Literal

from watchdog.events import (
    DirCreatedEvent,
    FileCreatedEvent,
    FileModifiedEvent,
    FileMovedEvent,
    FileSystemEvent,
    FileSystemEventHandler,
)
from watchdog.observers import Observer
from watchdog.observers.api import BaseObserver, ObservedWatch
from watchdog.observers.polling import PollingObserverVFS

from specon_sidecar.following.log_choice import is_event_name
from specon_sidecar.following.watch import WatchMode, resolve_mode

MOST_DIRECTORIES: Final = 32
_EVENTS: Final[list[type[FileSystemEvent]]] = [
    FileCreatedEvent,
    FileModifiedEvent,
    FileMovedEvent,
    DirCreatedEvent,
]
_JOIN_SECONDS: Final = 5.0


class EventWatch:
    """Calls `wake`, from a thread of its own, when an event file in a watched directory may have changed.

    An accelerator only, as `watch.Watch` is: its user must also look now and then. At most
    `MOST_DIRECTORIES` are watched, the last ones named. Problems go to `on_problem`; none is raised.
    """

    def __init__(
        self,
        path: Path,
        wake: Callable[[], None],
        *,
        mode: WatchMode,
        poll_interval: float,
        on_problem: Callable[[str], None],
    ) -> None:
        self._handler = _Handler(wake)
        self._poll_interval = poll_interval
        self._tell = on_problem
        self._observer: BaseObserver | None = None
        self._watched: dict[str, ObservedWatch] = {}
        self._refused: set[str] = set()
        self.mode: Literal["inotify", "polling"] = resolve_mode(path) if mode == "auto" else mode

    def watch(self, directories: Sequence[str]) -> bool:
        """Watch these directories and no others. Return whether one is new: then events may be lost."""
        wanted = [one for one in directories if one not in self._refused][-MOST_DIRECTORIES:]
        for gone in set(self._watched) - set(wanted):
            watched = self._watched.pop(gone)
            if self._observer is not None:
                self._observer.unschedule(watched)
        new = False
        for directory in wanted:
            if directory not in self._watched:
                new |= self._add(directory)
        return new

    def close(self) -> None:
        """Stop for good, and the threads with it."""
        observer, self._observer = self._observer, None
        self._watched.clear()
        if observer is not None:
            observer.stop()
            if observer.is_alive():
                observer.join(_JOIN_SECONDS)

    def _add(self, directory: str) -> bool:
        try:
            if self._observer is None:
                self._observer = self._start()
            self._watched[directory] = self._observer.schedule(self._handler, directory, event_filter=_EVENTS)
        except FileNotFoundError:
            return False
        except (OSError, RuntimeError) as error:  # RuntimeError: no more threads
            self._refused.add(directory)
            self._tell(f"cannot watch {directory}: {error}; looking now and then instead")
            return False
        return True

    def _start(self) -> BaseObserver:
        observer: BaseObserver = (
            Observer(timeout=self._poll_interval)
            if self.mode == "inotify"
            else PollingObserverVFS(os.stat, _list, polling_interval=self._poll_interval)
        )
        observer.start()
        return observer


class _Handler(FileSystemEventHandler):
    """Runs in the observer's thread."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake

    def dispatch(self, event: FileSystemEvent) -> None:
        """Wake for event files, and for new directories, which may get some."""
        touched = (os.fsdecode(path) for path in (event.src_path, event.dest_path) if path)
        if event.is_directory or any(is_event_name(path) for path in touched):
            self._wake()


def _list(directory: str | None) -> Iterator[os.DirEntry[str]]:
    with os.scandir(directory or ".") as entries:
        yield from (entry for entry in entries if is_event_name(entry.name))
