"""The bearer token that is shown to the manager, read again when its file changes.

Projected tokens rotate, about once an hour.
"""

import logging
import re
from pathlib import Path
from typing import Final

_LOG = logging.getLogger(__name__)
_MAX_BYTES: Final = 65536
_TOKEN: Final = re.compile(rb"[!-~]+")


class TokenFile:
    """A file with one bearer token; the token itself is never logged."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read: tuple[int, int, int] | None = None
        self._token: str | None = None
        self._complained = False

    def read(self) -> str | None:
        """Return the token as the file has it now; where that cannot be read, the last one that could."""
        try:
            status = self._path.stat()
            signature = (status.st_ino, status.st_mtime_ns, status.st_size)
            if signature == self._read:
                return self._token
            with self._path.open("rb") as file:
                token = file.read(_MAX_BYTES).strip()
        except OSError as error:
            self._complain(error.strerror or "cannot be read")
            return self._token
        if not _TOKEN.fullmatch(token):
            self._complain("is not one line of printable characters")
            return self._token
        self._read, self._token, self._complained = signature, token.decode("ascii"), False
        return self._token

    def _complain(self, what: str) -> None:
        if not self._complained:
            _LOG.warning("token file %s: %s", self._path, what)
            self._complained = True
