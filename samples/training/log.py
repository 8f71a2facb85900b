"""The training log: one whole line per write, to a file or to standard output."""

import os
import sys
from pathlib import Path


class Log:
    """Appends lines.

    Training outlives its log: a line that cannot be written, as on a full disk, is dropped.
    """

    def __init__(self, path: Path | None) -> None:
        """Open the file, or take standard output when there is none. Raises OSError."""
        self._torn = False
        if path is None:
            self._descriptor = sys.stdout.fileno()
        else:
            self._descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)

    def write(self, line: str) -> None:
        """Append the line at once, so that followers of the log see it as soon as it is true."""
        data = f"{line}\n".encode()
        if self._torn:
            data = b"\n" + data
        try:
            written = os.write(self._descriptor, data)
        except OSError:
            return
        self._torn = written < len(data)
