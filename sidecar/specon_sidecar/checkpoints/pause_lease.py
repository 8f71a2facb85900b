"""A trainer that has saved is kept from training on by a file, as long as somebody renews it.

The file names the request, and its time is renewed every second. A trainer that has saved for that request
waits while the file names it and is younger than `STALE_SECONDS`. So a sidecar that dies keeps no trainer
waiting. Its helper is told the same over its socket in place of the file.
"""

import logging
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, Protocol

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


def file_keeper(mode: CheckpointMode, checkpoints: Path | None) -> "LeaseFile | None":
    """Return what keeps a trainer waiting that is asked in this way, by a file; None where nothing does."""
    file = lease_file(mode, checkpoints)
    return None if file is None else LeaseFile(file)


class Keeper(Protocol):
    """How a trainer is kept waiting."""

    def hold(self, request: str) -> None:
        """Have it wait, or wait on, for the next `STALE_SECONDS`; raises OSError, CannotAskError."""

    def release(self, request: str) -> None:
        """Let it train on; raises OSError."""


class LeaseFile:
    """A file that names the request."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._request = ""

    def hold(self, request: str) -> None:
        """Create the file, or renew it; raises OSError where somebody took it away."""
        if request != self._request:
            create(self._file, request)
            self._request = request
        _renew(self._file, request)

    def release(self, request: str) -> None:  # noqa: ARG002 - there is one file for all
        """Take the file away."""
        self._request = ""
        self._file.unlink(missing_ok=True)


class PauseLease:
    """At most one pause at a time. Its methods may touch the disk: run them in a thread."""

    def __init__(self, keeper: Callable[[], Keeper | None]) -> None:
        """Prepare; where there is no keeper at the time of a pause, the trainer cannot be asked for one."""
        self._keeper_of_now = keeper
        self._keeper: Keeper | None = None
        self._request = ""
        self._since: float | None = None
        self._until: float | None = None
        self._spell = (0.0, 0.0)

    @property
    def held(self) -> bool:
        """Whether there is a lease to renew."""
        return self._keeper is not None

    def holds(self, request: str) -> bool:
        """Whether the trainer is to wait for this request."""
        return self._keeper is not None and self._request == request

    def begin(self, request: str) -> None:
        """Have the trainer wait once it has saved, before it is asked; where that cannot be it will not."""
        keeper = self._keeper_of_now()
        if keeper is None:
            return
        try:
            keeper.hold(request)
        except (CannotAskError, OSError) as error:
            _LOG.warning("the trainer cannot be asked to pause: %s", error)
            return
        self._keeper, self._request, self._since, self._until = keeper, request, None, None

    def grant(self, now: float, seconds: float) -> None:
        """Note that the trainer has saved, and pauses for so many seconds from now on."""
        self._since, self._until = now, now + seconds

    def look(self, now: float) -> None:
        """Have the trainer wait on, or end that where its time is over, or the file was taken away."""
        if self._keeper is None:
            return
        if self._until is not None and now >= self._until:
            self.end(now)
            return
        try:
            self._keeper.hold(self._request)
        except (CannotAskError, OSError) as error:
            _LOG.warning("the trainer is not kept waiting any longer: %s", error)
            self._forget(now)

    def end(self, now: float) -> None:
        """Let the trainer train on."""
        keeper = self._forget(now)
        if keeper is None:
            return
        try:
            keeper.release(self._request)
        except OSError as error:
            _LOG.warning("the pause cannot be ended: %s; it is over in %g s", error, STALE_SECONDS)

    def _forget(self, now: float) -> Keeper | None:
        if self._since is not None:
            self._spell = self._since, now
        keeper, self._keeper, self._since = self._keeper, None, None
        return keeper

    def paused(self, begin: float, end: float) -> float:
        """Return for how many seconds the trainer paused between two times."""
        since, until = self._spell if self._since is None else (self._since, end)
        return max(0.0, min(end, until) - max(begin, since))


def _renew(file: Path, request: str) -> None:
    with open_regular(file) as opened:
        if opened.read(_LONGEST) != f"{request}\n".encode():
            raise OSError(None, "is not ours any more", str(file))
    now = time.time_ns()  # of this machine, and not of the file server: the trainer compares it with its own
    os.utime(file, ns=(now, now), follow_symlinks=False)
