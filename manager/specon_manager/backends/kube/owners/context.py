"""With what orders are carried out, and what may come of them but success."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

from msgspec import Struct, field

from specon_manager.backends.kube.objects.owner import OwnerInfo
from specon_manager.backends.kube.owners.disruption_ledger import Grants
from specon_manager.backends.kube.transport.api import Api
from specon_manager.backends.kube.transport.resources import Object


class RefusedError(Exception):
    """An order that cannot be carried out, and would not be a moment later either; the words say why."""


class BlockedError(Exception):
    """A disruption budget, or a webhook in its place, does not let the pod go at this moment."""


class EditedError(Exception):
    """The user asks for another number of workers by now: theirs counts, and it is not overwritten."""


class ExpiredError(Exception):
    """What permits the end of a pod has grown too old: nothing was told to end."""


class Keeper(Protocol):
    """Durable memory of moves, as far as what creates and ends pods needs it."""

    async def keep_manifest(self, replica: str, manifest: Object) -> None:
        """Make durable how a bare pod is created again; returns once it is.

        Raises LookupError where no move of the replica is on record, ValueError for a manifest that is too
        long.
        """

    def read_manifest(self, replica: str) -> Object | None:
        """Return that manifest, or None where none is kept."""

    def reference(self, replica: str) -> Object | None:
        """Return an owner reference to the open Migration of the replica, or None where there is none."""


class Hands(Struct, frozen=True, kw_only=True):
    """With what orders are carried out."""

    api: Api
    keeper: Keeper
    fence: Callable[[], None]
    """Raises where this manager leads no more; called right before every change."""
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    fixed: Callable[[OwnerInfo], None] = lambda _: None
    """Told of an owner whose controller lets nobody change its number of workers."""
    grants: Grants = field(default_factory=Grants)
    """The pods let go under disruption budgets in the last seconds."""
