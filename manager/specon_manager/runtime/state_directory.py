"""A manager's directory on disk: one manager at a time, and where the others find it."""

import errno
import fcntl
import os
from pathlib import Path
from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct

from specon_manager import __version__
from specon_manager.runtime.ownership import check_ours, check_private
from specon_manager.runtime.tokens import OWNER, write_private

_LOCK: Final = "manager.lock"
_ADDRESS: Final = "manager.json"


class Address(Struct, frozen=True, kw_only=True):
    """How the manager of a state directory is reached."""

    url: str
    pid: int
    port: Annotated[int, Meta(ge=0, le=65535)]
    version: str = ""
    """Of the manager; empty of one before 0.2."""


class DirectoryBusyError(Exception):
    """Another manager works in this directory; the text names it."""


def make_ours(path: Path) -> None:
    """Make the directory where it is not there; see to it that it is ours. Raises NotOursError, OSError."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except FileExistsError as error:
        raise NotADirectoryError(errno.ENOTDIR, "it is a file, and no directory", str(path)) from error
    check_ours(path)


class StateDirectory:
    """Held by one manager from its start to its end, be it by kill -9: the kernel lets go of the lock."""

    def __init__(self, path: Path) -> None:
        """Take the directory. Raises DirectoryBusyError naming who has it, NotOursError, OSError."""
        make_ours(path)
        self.path = path
        self._lock = os.open(path / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._lock)
            address = read_address(path)
            who = "another manager" if address is None else f"manager {address.pid} at {address.url}"
            raise DirectoryBusyError(f"{path} is in use by {who}") from None

    def former_port(self) -> int:
        """Return the port of the last manager here, 0 for none: running sidecars report to it."""
        address = read_address(self.path)
        return 0 if address is None else address.port

    def publish(self, host: str, port: int) -> Address:
        """Write down where this manager is reached."""
        address = Address(url=f"http://{host}:{port}", pid=os.getpid(), port=port, version=__version__)
        write_private(self.path / _ADDRESS, msgspec.json.encode(address).decode())
        return address

    def release(self) -> None:
        """Let go of the directory."""
        os.close(self._lock)


def address_and_token(path: Path) -> tuple[Address, str] | None:
    """Return where the manager of a directory is or last was, and its owner's token; None where none was.

    Raises NotOursError: what somebody else wrote could have us talk to them. OSError.
    """
    if not path.is_dir():
        return None
    check_ours(path)
    address = read_address(path)
    if address is None:
        return None
    check_private(path / OWNER)
    return address, (path / OWNER).read_text("ascii", "replace").strip()


def read_address(path: Path) -> Address | None:
    """Return where the manager of a directory is or last was; None when nothing legible says so."""
    try:
        return msgspec.json.decode((path / _ADDRESS).read_bytes(), type=Address)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return None
