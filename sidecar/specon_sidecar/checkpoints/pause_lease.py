"""A trainer that has saved is kept from training on by a file, as long as somebody renews it.

The file names the request, and its time is renewed every second. A trainer that has saved for that request
waits while the file names it and is younger than `STALE_SECONDS`. So whoever dies keeps nobody waiting.
"""

import logging
import os
import time
from pathlib import Path
from typing import Final

from specon_sidecar.checkpoints.ask import create
from specon_sidecar.parse import CheckpointMode
from specon_sidecar.regular_file import open_regular
from specon_sidecar.trainer.process import CannotAskError

_LOG: Final = logging.getLogger(__name__)
RENEW_SECONDS: Final = 1.0
STALE_SECONDS: Final = 10.0
_LONGEST: Final = 256  # bytes; the id of a request has 128 at most


def lease_file(mode: CheckpointMode, checkpoints: Path | None) -> Path | None:
    """Return where the lease is: beside a request file, hidden in the folder of checkpoints for a signal.

    None where a trainer that is asked in this way cannot be asked to pause.
    """
    if mode.kind == "file":
        return Path(mode.target + ".pause")
    if mode.kind == "signal" and checkpoints is not None:
        return checkpoints.with_name(".pause") if checkpoints.is_file() else checkpoints / ".pause"
    return None


class PauseLease:
    """At most one pause at a time. Its methods touch the disk: run them in a thread."""

    def __init__(self, mode: CheckpointMode, checkpoints: Path | None) -> None:
        """Prepare; nothing is written before somebody asks for a pause."""
        self._mode, self._checkpoints = mode, checkpoints
        self._file: Path | None = None
        self._request = ""
        self._since: float | None = None
        self._until: float | None = None
        self._spell = (0.0, 0.0)

    @property
    def held(self) -> bool:
        """Whether there is a lease to renew."""
        return self._file is not None

    def holds(self, request: str) -> bool:
        """Whether the trainer is to wait for this request."""
        return self._file is not None and self._request == request

    def begin(self, request: str) -> None:
        """Write the lease, before the trainer is asked; where that cannot be there is none."""
        file = lease_file(self._mode, self._checkpoints)
        if file is None:
            return
        try:
            create(file, request)
            _renew(file, request)
        except (CannotAskError, OSError) as error:
            _LOG.warning("the trainer cannot be asked to pause: %s", error)
            return
        self._file, self._request, self._since, self._until = file, request, None, None

    def grant(self, now: float, seconds: float) -> None:
        """Note that the trainer has saved, and pauses for so many seconds from now on."""
        self._since, self._until = now, now + seconds

    def look(self, now: float) -> None:
        """Renew the lease, or end it where its time is over, or the file was taken away."""
        if self._file is None:
            return
        if self._until is not None and now >= self._until:
            self.end(now)
            return
        try:
            _renew(self._file, self._request)
        except OSError as error:
            _LOG.warning("the trainer is not kept waiting any longer: %s", error)
            self._forget(now)

    def end(self, now: float) -> None:
        """Let the trainer train on."""
        file = self._forget(now)
        if file is None:
            return
        try:
            file.unlink(missing_ok=True)
        except OSError as error:
            _LOG.warning("%s: %s; it is obeyed for %g s more", file, error.strerror, STALE_SECONDS)

    def _forget(self, now: float) -> Path | None:
        if self._since is not None:
            self._spell = self._since, now
        file, self._file, self._since = self._file, None, None
        return file

    def paused(self, begin: float, end: float) -> float:
        """Return for how many seconds the trainer paused between two times."""
        since, until = self._spell if self._since is None else (self._since, end)
        return max(0.0, min(end, until) - max(begin, since))


def _renew(file: Path, request: str) -> None:
    with open_regular(file) as opened:
        if opened.read(_LONGEST) != f"{request}\n".encode():
            raise OSError(None, "is not ours any more", str(file))
    now = time.time_ns()  # of this machine, whoever keeps the files: the trainer compares it with its own
    os.utime(file, ns=(now, now), follow_symlinks=False)
