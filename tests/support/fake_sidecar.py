"""A sidecar as the helper sees it: a socket that a test reads from and writes to."""

import json
import socket
import time
from contextlib import suppress
from pathlib import Path

from specon import helper


class FakeSidecar:
    def __init__(self, folder: Path) -> None:
        self.path, self.token_file = folder / "s", folder / "token"
        self.token_file.write_text("secret\n")
        self.peer: socket.socket | None = None
        self.others: list[socket.socket] = []
        self.buffer = b""
        self.listen()

    def listen(self) -> None:
        self.path.unlink(missing_ok=True)
        self.server = socket.socket(socket.AF_UNIX)
        self.server.bind(str(self.path))
        self.server.listen()
        self.server.settimeout(5)

    def accept(self) -> None:
        self.peer, _ = self.server.accept()
        self.peer.settimeout(5)
        self.buffer = b""

    def hear(self) -> dict:
        """Return the next message."""
        if self.peer is None:
            self.accept()
        while b"\n" not in self.buffer:
            content = self.peer.recv(65536)
            if not content:
                raise EOFError
            self.buffer += content
        line, self.buffer = self.buffer.split(b"\n", 1)
        return json.loads(line)

    def say(self, kind: str, **content: object) -> None:
        self.peer.sendall(json.dumps({kind: content}).encode() + b"\n")

    def die(self) -> None:
        for one in (self.server, self.peer, *self.others):
            with suppress(OSError, AttributeError):
                one.close()
        self.peer = None


def fresh(monkeypatch) -> None:
    """Begin as a process does that has just started."""
    if helper._helper.connection is not None:
        helper._helper.connection.close()
    monkeypatch.setattr(helper, "_helper", helper._Helper())
    monkeypatch.setattr("specon.said._said", False)


def soon(call, seconds: float = 5.0):
    """Return what the call returns once that is true."""
    end = time.monotonic() + seconds
    while not (found := call()):
        assert time.monotonic() < end, "it never came"
        time.sleep(0.01)
    return found
