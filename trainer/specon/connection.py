"""The connection with the sidecar: one JSON object a line over a Unix socket, without a thread.

Nothing here blocks: the socket is read and written when the trainer calls, as far as that goes at once. So
there is no thread that a fork could tear, or that an interpreter has to end.
"""

from __future__ import annotations

import os
import threading
import time
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import socket
    from typing import Any

now = time.monotonic
VERSION = 1
MAX_LINE = 65536
STALE_SECONDS = 10.0
_RETRY_SECONDS = 1.0
_MAX_WAITING = 64
_READ = 65536


class Request(NamedTuple):
    """A checkpoint that the sidecar asks for; `pause` is for how long to wait after it, seconds."""

    id: str
    pause: float


class Resume(NamedTuple):
    """The verified checkpoint to go on from."""

    path: str
    step: int


class Connection:
    """Speaks with the sidecar; survives one that goes and comes again. Made for one process."""

    def __init__(self, path: str, token_file: str) -> None:
        self._path, self._token_file = path, token_file
        self._socket: socket.socket | None = None
        self._identity = (0, 0)
        self._polling = threading.Lock()
        self._retry_at = 0.0
        self._in = b""
        self._out = b""
        self._sending = b""
        self._waiting: list[bytes] = []
        self._report: bytes | None = None
        self._said: dict[str, Any] = {}
        self._said_changed = False
        self._held_at: float | None = None
        self.request: Request | None = None
        """The requests not answered yet."""
        self.welcomed = False
        """Whether a sidecar has answered."""
        self.resume: Resume | None = None

    @property
    def connected(self) -> bool:
        """Whether a sidecar listens, as far as is known."""
        return self._socket is not None

    def present(self, **said: Any) -> None:
        """Say who this is, now and to every later sidecar; only news is sent."""
        if any(self._said.get(key) != value for key, value in said.items()):
            self._said.update(said)
            self._said_changed = True

    def send(self, kind: str, content: dict[str, Any]) -> None:
        """Have a message sent as soon as that goes; of reports only the newest waits."""
        line = _line(kind, content)
        if len(line) > MAX_LINE:
            return  # the sidecar would send us away
        if kind == "report":
            self._report = line
        elif len(self._waiting) < _MAX_WAITING:
            self._waiting.append(line)

    def hold(self, now: float) -> None:
        """Wait from now on for the sidecar's word, as long as that is not stale."""
        self._held_at = now

    def release(self) -> None:
        """Wait no longer."""
        self._held_at = None

    def held(self, now: float) -> bool:
        """Whether the trainer is to wait: the sidecar said so less than `STALE_SECONDS` ago."""
        return self._held_at is not None and now - self._held_at <= STALE_SECONDS

    def poll(self, now: float) -> None:
        """Read and write what goes at once; a sidecar that is gone is looked for again every second.

        Where another thread is about it, or what a signal has interrupted, that goes on, and this does not.
        """
        if not self._polling.acquire(blocking=False):
            return
        try:
            self._poll(now)
        finally:
            self._polling.release()

    def _poll(self, now: float) -> None:
        try:
            if self._socket is not None and not self._is_ours():
                self.close()
            if self._socket is None:
                if now < self._retry_at:
                    return
                self._retry_at = now + _RETRY_SECONDS
                self._connect()
            self._write()
            self._read(now)
            if self._out or self._waiting or self._report or self._said_changed:
                self._write()
        except OSError:
            self.close()

    def close(self) -> None:
        """Let go of the socket; a message not sent in full waits for the next one."""
        if self._socket is not None and self._is_ours():
            self._socket.close()
        elif self._socket is not None:
            self._socket.detach()
        if self._out and self._sending.startswith(b'{"report"'):
            self._report = self._report or self._sending
        elif self._out and not self._sending.startswith(b'{"hello"'):
            self._waiting.insert(0, self._sending)
        self._socket, self._in, self._out = None, b"", b""

    def _is_ours(self) -> bool:
        """Whether the trainer has left the socket open: daemons close all, and open files in its place."""
        assert self._socket is not None
        try:
            return _identity(self._socket.fileno()) == self._identity
        except OSError:
            return False

    def _connect(self) -> None:
        import socket  # noqa: PLC0415 - most processes of a trainer never need it

        with open(self._token_file, "rb") as opened:  # noqa: PTH123 - quicker to import than pathlib
            token = opened.read(4096).decode("ascii", "replace").strip()
        made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            made.setblocking(False)  # noqa: FBT003 - its only argument
            made.connect(self._path)
            self._identity = _identity(made.fileno())
        except BaseException:
            made.close()
            raise
        self._socket = made
        self._said["token"] = token
        self._out = self._sending = self._hello()

    def _hello(self) -> bytes:
        self._said_changed = False
        return _line("hello", dict({"version": VERSION, "pid": os.getpid()}, **self._said))

    def _write(self) -> None:
        assert self._socket is not None
        if self._said_changed:
            self._waiting.insert(0, self._hello())
        while True:
            if not self._out:
                if self._waiting:
                    self._out = self._waiting.pop(0)
                elif self._report is not None:
                    self._out, self._report = self._report, None
                else:
                    return
                self._sending = self._out
            try:
                sent = self._socket.send(self._out)
            except BlockingIOError:
                return
            self._out = self._out[sent:]

    def _read(self, now: float) -> None:
        assert self._socket is not None
        while True:
            try:
                content = self._socket.recv(_READ)
            except BlockingIOError:
                return
            if not content:
                self.close()
                raise ConnectionResetError
            *lines, self._in = (self._in + content).split(b"\n")
            for line in lines:
                self._take(line, now)
            if len(self._in) > MAX_LINE:
                raise ConnectionAbortedError

    def _take(self, line: bytes, now: float) -> None:
        from json import loads  # noqa: PLC0415 - most processes of a trainer never need it

        try:
            message = loads(line)
            for kind, content in message.items():
                if kind == "welcome":
                    self._welcome(content.get("resume"))
                elif kind == "checkpoint":
                    self.request = Request(_text(content["request"]), float(content.get("pause", 0.0)))
                elif kind == "hold":
                    self._held_at = now
                elif kind == "release":
                    self._release(_text(content["request"]))
        except (AttributeError, KeyError, TypeError, ValueError, RecursionError):
            return  # of a later version, or nonsense

    def _welcome(self, resume: Any) -> None:
        if not self.welcomed and resume:
            self.resume = Resume(_text(resume["path"]), int(resume["step"]))
        self.welcomed = True

    def _release(self, request: str) -> None:
        self._held_at = None
        if self.request is not None and self.request.id == request:
            self.request = None  # called off


def _identity(descriptor: int) -> tuple[int, int]:
    """Return what tells one open file from all others; raises OSError where none is open."""
    status = os.fstat(descriptor)
    return status.st_dev, status.st_ino


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _line(kind: str, content: dict[str, Any]) -> bytes:
    from json import dumps  # noqa: PLC0415 - most processes of a trainer never need it

    return dumps({kind: content}).encode() + b"\n"
