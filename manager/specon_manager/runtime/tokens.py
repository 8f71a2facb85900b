"""Bearer tokens: one for the owner of the manager, one for each incarnation of a replica.

A sidecar's token is derived from the manager's secret and from what it may speak for, so nothing needs to
be remembered, and a report for another replica than the token's is refused.
"""

import hashlib
import hmac
import os
import secrets
from pathlib import Path
from typing import Final

_KEY: Final = "key"
_OWNER: Final = "token"


class Tokens:
    """The tokens of one state directory; files are readable by their owner only."""

    def __init__(self, directory: Path) -> None:
        """Read the secret in `directory`, or make one. Raises OSError."""
        path = directory / _KEY
        if not path.exists():
            write_private(path, secrets.token_hex(32))
        self._secret = path.read_text().strip().encode()
        self.owner_file = directory / _OWNER
        write_private(self.owner_file, self.owner)

    @property
    def owner(self) -> str:
        """What the command line shows: may read everything and submit jobs."""
        return self._derive("owner")

    def sidecar(self, replica: str, incarnation: str) -> str:
        """Return the token of one incarnation: may report for it, nothing else."""
        return self._derive(f"sidecar {replica} {incarnation}")

    def is_owner(self, shown: str) -> bool:
        """Whether `shown` is the owner's token."""
        return hmac.compare_digest(shown.encode(), self.owner.encode())

    def is_sidecar(self, shown: str, replica: str, incarnation: str) -> bool:
        """Whether `shown` may speak for this incarnation."""
        return hmac.compare_digest(shown.encode(), self.sidecar(replica, incarnation).encode())

    def _derive(self, purpose: str) -> str:
        return hmac.new(self._secret, purpose.encode(), hashlib.sha256).hexdigest()


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner may read, whole or not at all."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
