"""Opening what a trainer may have put there: a regular file, or nothing."""

import io
import os
import stat
from pathlib import Path


def open_regular(path: Path) -> io.FileIO:
    """Open a file for reading, unbuffered.

    Raises OSError, also for a path that is no regular file: a pipe without a writer would never open, and a
    device never end.
    """
    opened = io.FileIO(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC))
    if not stat.S_ISREG(os.fstat(opened.fileno()).st_mode):
        opened.close()
        raise OSError(None, "is no regular file", str(path))
    return opened


def leads_out(path: Path, folder: Path) -> bool:
    """Whether `path`, with every link in it followed, lies outside of `folder`, or nowhere."""
    try:
        found = Path(os.path.realpath(path, strict=True))
    except OSError:  # nothing there, or a circle
        return True
    return not found.is_relative_to(os.path.realpath(folder))
