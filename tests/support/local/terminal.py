"""A command in a terminal of its own: what it shows, and keys for it."""

import fcntl
import os
import pty
import select
import struct
import sys
import termios
import time
from collections.abc import Sequence
from pathlib import Path

_SECONDS = 30.0


class Terminal:
    """`specon` with these arguments, in a terminal of 100 columns and 24 lines."""

    def __init__(self, arguments: Sequence[str], folder: Path) -> None:
        self.shown = ""
        self._pid, self._screen = pty.fork()
        if self._pid == 0:
            os.chdir(folder)
            os.environ["TERM"] = "xterm-256color"
            os.execv(sys.executable, [sys.executable, "-m", "specon_manager", *arguments])
        fcntl.ioctl(self._screen, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))

    def see(self, words: str) -> None:
        """Wait until these words are shown that were not shown when the last key was pressed."""
        deadline = time.monotonic() + _SECONDS
        while words not in self.shown:
            assert time.monotonic() < deadline, f"{words!r} is not shown: {self.shown[-2000:]!r}"
            self._read(0.1)

    def press(self, key: str) -> None:
        self.shown = ""
        os.write(self._screen, key.encode())

    def end(self) -> int:
        """Wait for the end and return the exit status."""
        deadline = time.monotonic() + _SECONDS
        while True:
            self._read(0.05)
            done, status = os.waitpid(self._pid, os.WNOHANG)
            if done:
                os.close(self._screen)
                return os.waitstatus_to_exitcode(status)
            assert time.monotonic() < deadline, f"it does not end: {self.shown[-2000:]!r}"

    def _read(self, seconds: float) -> None:
        ready, _, _ = select.select([self._screen], [], [], seconds)
        if ready:
            try:
                self.shown += os.read(self._screen, 65536).decode(errors="replace")
            except OSError:  # the other side is closed
                time.sleep(seconds)
