"""A disk that can be full: a file system of a few megabytes in memory, where we may mount one."""

import contextlib
import errno
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest


class SmallDisk:
    """A mounted file system."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._filling = path / "filling"

    def fill(self) -> None:
        """Take all room that is left."""
        with self._filling.open("ab", buffering=0) as file:
            for size in (1 << 16, 1 << 9, 1):
                with contextlib.suppress(OSError):
                    while True:
                        file.write(b"x" * size)

    def empty(self) -> None:
        """Give the room back."""
        self._filling.unlink()

    @property
    def full(self) -> bool:
        try:
            (self.path / "probe").write_bytes(b"x" * 4096)
        except OSError as error:
            return error.errno == errno.ENOSPC
        finally:
            (self.path / "probe").unlink(missing_ok=True)
        return False


@contextlib.contextmanager
def small_disk(path: Path, megabytes: int = 8) -> Iterator[SmallDisk]:
    """Mount a small disk; skips the test where we may not."""
    path.mkdir(mode=0o700)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m,mode=700", "tmpfs", str(path)]
    try:
        done = subprocess.run(mount, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("there is no mount: install util-linux")
    if done.returncode:
        pytest.skip(
            f"a small disk cannot be mounted, run as root outside of a container: {done.stderr.strip()}"
        )
    try:
        yield SmallDisk(path)
    finally:
        # Lazily: what a failed test left running is ended later.
        subprocess.run(["umount", "--lazy", str(path)], check=True)
