"""What every way to move a pod has: why it is not open to a pod, how the pod goes, how the next one comes."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from msgspec import Struct, field

from specon_manager.backends.kube.owners.grants import Grants
from specon_manager.backends.kube.transport.api import Api
from specon_manager.backends.kube.watching.owner_info import OwnerInfo
from specon_manager.backends.kube.watching.slim import NodeInfo, PodInfo

Object = dict[str, Any]


class RefusedError(Exception):
    """An order that cannot be carried out, and would not be a moment later either; the words say why."""


class BlockedError(Exception):
    """A disruption budget, or a webhook in its place, does not let the pod go at this moment."""


class Keeper(Protocol):
    """Durable memory of moves, as far as the ways need it."""

    async def keep_manifest(self, replica: str, manifest: Object) -> None:
        """Make durable how a bare pod is created again; returns once it is."""

    def kept_manifest(self, replica: str) -> Object | None:
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
    """What was let go under disruption budgets in the last seconds."""


class Leaving(Struct, frozen=True, kw_only=True):
    """A pod that is to go."""

    replica: str
    pod: PodInfo
    owner: OwnerInfo | None
    grace_seconds: int
    move: str
    """Name of the migration."""


class Coming(Struct, frozen=True, kw_only=True):
    """A replica whose next pod is to come."""

    replica: str
    owner: OwnerInfo | None
    node: NodeInfo | None
    """None: wherever the scheduler puts it."""


class Way(Protocol):
    """One way to move pods."""

    async def let_go(self, hands: Hands, leaving: Leaving) -> None:
        """Have the pod ended so that its owner does not count it; returns once that is under way.

        May be repeated. Raises BlockedError where it must wait, RefusedError where it cannot be.
        """

    async def bring_back(self, hands: Hands, coming: Coming) -> None:
        """Have the next pod created; returns once that is under way. May be repeated.

        Raises RefusedError where it cannot be.
        """
