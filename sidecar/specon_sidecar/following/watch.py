"""Wakes the follower of a file when something happens to it: inotify, or polling on network volumes."""

import errno
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, Literal

from watchdog.events import (
    DirCreatedEvent,
    DirDeletedEvent,
    DirMovedEvent,
    FileCreatedEvent,
    FileDeletedEvent,
    FileModifiedEvent,
    FileMovedEvent,
    FileSystemEvent,
    FileSystemEventHandler,
)
from watchdog.observers import Observer
from watchdog.observers.api import BaseObserver, ObservedWatch
from watchdog.observers.polling import PollingObserverVFS

from specon_sidecar.following.volumes import file_system_type, is_network

WatchMode = Literal["auto", "inotify", "polling"]

# Not opened, closed or read: the follower's own reading would wake it for ever.
_EVENTS: Final[list[type[FileSystemEvent]]] = [
    FileCreatedEvent,
    FileModifiedEvent,
    FileMovedEvent,
    FileDeletedEvent,
    DirCreatedEvent,
    DirMovedEvent,
    DirDeletedEvent,
]
# The limits of inotify instances and watches per user, and of files per process.
_NO_INOTIFY: Final = frozenset({errno.ENOSPC, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOSYS})
_JOIN_SECONDS: Final = 5.0


class Watch:
    """Calls `wake`, from a thread of its own, when the file at `path` may have changed.

    It watches the directory of the file, or the nearest directory above it that exists; `arm` moves it
    nearer. It is an accelerator only: its user must also look now and then, for events can
    be lost. Problems go to `on_problem`; none is raised.
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
        # Not resolved: a link may come to point to another file.
        self._path = path.absolute()
        self._poll_interval = poll_interval
        self._on_problem = on_problem
        self._handler = _Handler(os.fspath(self._path), wake)
        self._observer: BaseObserver | None = None
        self._watched: ObservedWatch | None = None
        self._identity: tuple[int, int] | None = None
        self._reported: set[str] = set()
        self._way = {self._path.name, *(parent.name for parent in self._path.parents)}
        self.mode: Literal["inotify", "polling"] = resolve_mode(self._path) if mode == "auto" else mode
        """How it was decided to watch; inotify may still give way to polling."""

    @property
    def armed(self) -> bool:
        """Whether events would wake."""
        return self._watched is not None

    def arm(self) -> bool:
        """Watch the nearest directory that exists. Return whether that is new: then events may be lost."""
        directory, identity = nearest_directory(self._path)
        if self._watched is not None:
            if (
                self._handler.directory == directory
                and self._identity == identity
                and not self._handler.stale
            ):
                return False
            self.disarm()
        self._identity = identity
        self._handler.stale = False
        self._handler.directory = directory
        try:
            if self._observer is None:
                self._observer = self._start()
            self._watched = self._observer.schedule(self._handler, directory, event_filter=_EVENTS)
        except (OSError, RuntimeError) as error:  # RuntimeError: no more threads
            self._note_failure(directory, error)
        return self._watched is not None

    def disarm(self) -> None:
        """Stop watching for now. A busy file costs less when it is looked at now and then."""
        watched, self._watched = self._watched, None
        if watched is not None and self._observer is not None:
            self._observer.unschedule(watched)

    def close(self) -> None:
        """Stop for good, and the threads with it."""
        self._watched = None
        observer, self._observer = self._observer, None
        if observer is not None:
            observer.stop()
            if observer.is_alive():
                observer.join(_JOIN_SECONDS)

    def _start(self) -> BaseObserver:
        if self.mode == "inotify":
            try:
                observer = Observer(timeout=self._poll_interval)
                observer.start()
            except OSError as error:
                self._give_up_inotify(error)
            else:
                return observer
        observer = PollingObserverVFS(os.stat, self._list, polling_interval=self._poll_interval)
        observer.start()
        return observer

    def _note_failure(self, directory: str, error: OSError | RuntimeError) -> None:
        if isinstance(error, FileNotFoundError | NotADirectoryError):
            return  # it went away just now; the next call finds another one
        if self.mode == "inotify" and isinstance(error, OSError) and error.errno in _NO_INOTIFY:
            self.close()
            self._give_up_inotify(error)
        elif directory not in self._reported:
            self._reported.add(directory)
            self._on_problem(f"cannot watch {directory}: {error}; looking now and then instead")

    def _give_up_inotify(self, error: OSError) -> None:
        self.mode = "polling"
        self._on_problem(f"inotify is not available: {error}; polling instead")

    def _list(self, directory: str | None) -> Iterator[os.DirEntry[str]]:
        # Only what lies on the way to the file: a directory of a thousand checkpoints costs no thousand
        # calls.
        with os.scandir(directory or ".") as entries:
            yield from (entry for entry in entries if entry.name in self._way)


class _Handler(FileSystemEventHandler):
    """Runs in the observer's thread; sets plain attributes only."""

    def __init__(self, path: str, wake: Callable[[], None]) -> None:
        self._path = path
        self._wake = wake
        self.directory = ""
        self.stale = False

    def dispatch(self, event: FileSystemEvent) -> None:
        """Wake for what happens to the file, or to a directory on the way to it."""
        touched = [os.fsdecode(path) for path in (event.src_path, event.dest_path) if path]
        if isinstance(event, DirDeletedEvent | DirMovedEvent) and self.directory in touched:
            self.stale = True
        if any(path == self._path or self._path.startswith(path + os.sep) for path in touched):
            self._wake()


def nearest_directory(path: Path) -> tuple[str, tuple[int, int] | None]:
    """Return the lowest directory above `path` that exists, and its device and inode numbers."""
    for parent in path.parents:
        try:
            status = parent.stat()
        except (OSError, ValueError):
            continue
        if stat.S_ISDIR(status.st_mode):
            return os.fspath(parent), (status.st_dev, status.st_ino)
    return os.fspath(path.parent), None


def resolve_mode(path: Path) -> Literal["inotify", "polling"]:
    """Return polling where the path lies on a network file system, else inotify."""
    try:
        mountinfo = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return "inotify"
    resolved = os.path.realpath(path)
    return "polling" if is_network(file_system_type(resolved, mountinfo)) else "inotify"
