"""The authorities that may have signed the manager's certificate, read again when their file changes.

An authority is exchanged for its successor while sidecars run; for a while both are in the file.
"""

import logging
import ssl
from pathlib import Path
from typing import Final

_LOG: Final = logging.getLogger(__name__)


class AuthoritiesFile:
    """A PEM file of certificate authorities.

    Each change gives a new context: connections made with an older one go on until they are closed.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read: tuple[int, int, int] | None = None
        self._context: ssl.SSLContext | None = None
        self._complained = ""

    def context(self) -> ssl.SSLContext | None:
        """Return the context for the file as it is now; where that is unusable, the last one (or None)."""
        try:
            status = self._path.stat()
            signature = (status.st_ino, status.st_mtime_ns, status.st_size)
            if signature == self._read:
                return self._context
            context = ssl.create_default_context(cafile=self._path)
        except OSError as error:  # those of `ssl` included
            self._complain(error.strerror or str(error) or type(error).__name__)
            return self._context
        self._read, self._context, self._complained = signature, context, ""
        return context

    def _complain(self, what: str) -> None:
        if self._complained != what:
            _LOG.warning("file of certificate authorities %s: %s", self._path, what)
            self._complained = what
