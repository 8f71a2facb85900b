"""What workers and the parameter server say to each other: raw arrays of float32 behind a small header.

A request is an operation, a step, a loss and the size of what follows; an answer has the same form. Nothing
that is sent is ever run: no pickle.
"""

import asyncio
import json
import os
import socket
import struct
from pathlib import Path

import numpy as np
from digit_table import Floats

PULL, PUSH, STATE = b"L", b"G", b"S"
"""Give me the parameters; here is a gradient; give me all that a checkpoint needs."""
GO_ON, DONE = b"O", b"D"

HEADER = struct.Struct("!cQdI")
"""Operation, step, loss, bytes that follow."""
MOST_BYTES = 1 << 28


class WireError(ConnectionError):
    """The other side said something that is none of this."""


def packed(operation: bytes, array: Floats | None = None, *, step: int = 0, loss: float = 0.0) -> bytes:
    """Return one message."""
    content = b"" if array is None else array.astype("<f4").tobytes()
    return HEADER.pack(operation, step, loss, len(content)) + content


def as_array(content: bytes) -> Floats:
    """Return the numbers; raises WireError for half a number."""
    if len(content) % 4:
        raise WireError(f"{len(content)} bytes are no float32 numbers")
    return np.frombuffer(content, dtype="<f4").astype(np.float32)


async def received(reader: asyncio.StreamReader) -> tuple[bytes, int, float, bytes]:
    """Return operation, step, loss and content; raises IncompleteReadError at the end, WireError."""
    operation, step, loss, size = HEADER.unpack(await reader.readexactly(HEADER.size))
    if size > MOST_BYTES:
        raise WireError(f"{size} bytes are announced, {MOST_BYTES} are the most")
    return operation, step, loss, await reader.readexactly(size)


class Connection:
    """A worker's connection to the parameter server."""

    def __init__(self, host: str, port: int, seconds: float) -> None:
        """Connect; raises OSError. No answer is waited for longer than so many seconds."""
        self._socket = socket.create_connection((host, port), seconds)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def ask(self, message: bytes) -> tuple[bytes, int, Floats]:
        """Send a request; return the answer: whether to go on, the step, an array. Raises OSError."""
        self._socket.sendall(message)
        operation, step, _, size = HEADER.unpack(self._exactly(HEADER.size))
        if size > MOST_BYTES or operation not in {GO_ON, DONE}:
            raise WireError(f"not an answer: {operation!r} with {size} bytes")
        return operation, step, as_array(self._exactly(size))

    def _exactly(self, size: int) -> bytes:
        parts = bytearray()
        while len(parts) < size:
            part = self._socket.recv(size - len(parts))
            if not part:
                raise WireError("the parameter server closed the connection")
            parts += part
        return bytes(parts)

    def close(self) -> None:
        """Hang up."""
        self._socket.close()


def publish(file: Path, port: int) -> None:
    """Write where the parameter server of this machine is; readers see all of it or nothing."""
    temporary = file.with_name(f".{file.name}.tmp")
    temporary.write_text(json.dumps({"port": port, "pid": os.getpid()}))
    temporary.replace(file)


def address(file: Path | None) -> tuple[str, int]:
    """Return where the parameter server is: by the file, else by PS_ADDRESS; raises OSError or ValueError."""
    if file is not None:
        return "127.0.0.1", int(json.loads(file.read_text())["port"])
    host, _, port = os.environ.get("PS_ADDRESS", "").rpartition(":")
    if not host or not port.isdigit():
        raise ValueError(f"PS_ADDRESS must be HOST:PORT, not {os.environ.get('PS_ADDRESS', '')!r}")
    return host, int(port)
