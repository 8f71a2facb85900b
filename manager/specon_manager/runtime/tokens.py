"""Bearer tokens: one for the owner of the manager, one for its status page, one for each incarnation.

A sidecar's token is derived from the manager's secret and from what it may speak for, so nothing needs to
be remembered, and a report for another replica than the token's is refused.
"""

import hmac
import os
import secrets
from pathlib import Path
from typing import Final

from specon_manager.runtime.ownership import check_private

_KEY: Final = "key"
OWNER: Final = "token"
_LEAST_BYTES: Final = 32


class Tokens:
    """The `Identities` of one state directory; its files are readable by their owner only."""

    def __init__(self, directory: Path) -> None:
        """Read the secret in `directory`, or make one. Raises NotOursError where others may know it."""
        path = directory / _KEY
        secret = path.read_bytes().strip() if path.exists() else b""
        if len(secret) < _LEAST_BYTES:  # an empty key would be everybody's
            secret = secrets.token_hex(32).encode()
            write_private(path, secret.decode())
        check_private(path)
        self._secret = secret
        self.owner_file = directory / OWNER
        write_private(self.owner_file, self.owner)

    @property
    def owner(self) -> str:
        """What the command line shows: may read everything and submit jobs."""
        return self._derive("owner")

    @property
    def viewer(self) -> str:
        """What a link to the status page carries: may see the page, nothing else."""
        return self._derive("viewer")

    def sidecar(self, replica: str, incarnation: str) -> str:
        """Return the token of one incarnation: may report for it, nothing else."""
        return self._derive(f"sidecar {replica} {incarnation}")

    async def is_owner(self, token: str) -> bool:
        """Whether `token` is the owner's."""
        return _equal(token, self.owner)

    async def may_view(self, token: str) -> bool:
        """Whether `token` may see the status page."""
        return _equal(token, self.viewer) or _equal(token, self.owner)

    async def may_report(self, token: str, replica: str, incarnation: str) -> bool:
        """Whether `token` may speak for this incarnation."""
        return _equal(token, self.sidecar(replica, incarnation))

    def _derive(self, purpose: str) -> str:
        return hmac.digest(self._secret, purpose.encode(errors="replace"), "sha256").hex()


def _equal(shown: str, token: str) -> bool:
    """Compare in constant time; headers may hold bytes that are no UTF-8."""
    return hmac.compare_digest(shown.encode(errors="replace"), token.encode())


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner may read, whole or not at all."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
