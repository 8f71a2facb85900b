"""What the sidecar asks a trainer for: a checkpoint, and perhaps a pause after it, so that nothing is lost.

It asks by SIGUSR1, or by a file that the trainer takes away. It asks for a pause by a second file, beside
that one or hidden among the checkpoints, which it renews every second: a trainer that has saved waits while
that is there and young, until it is told to end. A sidecar that dies keeps no trainer waiting.
"""

import time
from pathlib import Path

from signals import Requests

_STALE_SECONDS = 10.0


class Asked:
    """The requests that are not done yet."""

    def __init__(self, signals: Requests, checkpoints: Path | None, file: Path | None = None) -> None:
        """Look for `file`, if any, beside the signals."""
        self._signals, self._file = signals, file
        self._by_signal = None if checkpoints is None else checkpoints / ".pause"
        self._by_file = None if file is None else file.with_name(f"{file.name}.pause")
        self._lease: Path | None = None

    def take(self) -> bool:
        """Whether a checkpoint was asked for since the last call."""
        asked = self._signals.take_checkpoint()
        if asked:
            self._lease = self._by_signal
        if self._file is not None and self._file.exists():
            self._file.unlink(missing_ok=True)
            asked, self._lease = True, self._by_file
        return asked

    def pausing(self) -> bool:
        """Whether the last request wants the training to wait, now that what it asked for is saved."""
        if self._lease is None or self._signals.exit_code is not None:
            return False
        try:
            age = time.time() - self._lease.stat().st_mtime
        except OSError:
            return False
        return abs(age) < _STALE_SECONDS  # clocks may be set back
