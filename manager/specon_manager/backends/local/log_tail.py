"""The end of the training log of a pod on this machine."""

import os
from pathlib import Path

from specon_manager.views.log_tail import BYTES, LogTail, tail_of
from specon_manager.views.names import cut
from specon_sidecar.following.log_choice import choose_log
from specon_sidecar.regular_file import open_regular


def read_tail(path: Path) -> LogTail:
    """Return the last lines of the log that a path means; what cannot be read is said in words."""
    log = choose_log(path)
    said = cut(str(log.path))
    if log.kind == "events":
        return LogTail(path=said, note="TensorBoard event files have no lines")
    if log.kind == "later":
        return LogTail(path=said, note=log.reason)
    try:
        with open_regular(log.path) as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - BYTES))
            return tail_of(said, file.read(BYTES), whole=size <= BYTES)
    except FileNotFoundError:
        return LogTail(path=said, note="nothing is written yet")
    except OSError as error:
        return LogTail(path=said, note=f"cannot be read: {error.strerror}")
