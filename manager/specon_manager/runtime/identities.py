"""Who may speak for a replica, and who is the owner: asked by the server for each request."""

from typing import Protocol


class IdentityUnavailableError(Exception):
    """Whose token it is cannot be found out at present; the one who shows it should come again."""


class Identities(Protocol):
    """Judges bearer tokens. Both raise IdentityUnavailableError where nobody knows: that is no refusal."""

    async def may_report(self, token: str, replica: str, incarnation: str) -> bool:
        """Whether the token is that of this incarnation of the replica."""
        ...

    async def is_owner(self, token: str) -> bool:
        """Whether the token's holder may read the whole state and submit jobs."""
        ...
