"""The tools for orders about jobs, and the interface that they need of the rest of the backend."""

from collections.abc import Awaitable, Callable

from msgspec import Struct

from specon_manager.backends.base import Emit
from specon_manager.backends.kube.objects.pod import PodInfo
from specon_manager.backends.kube.owners.context import Hands
from specon_manager.backends.kube.placing.book import Book
from specon_manager.backends.kube.watching.ledger import Ledger
from specon_manager.backends.kube.watching.nodes import NodeBook


class Tools(Struct, frozen=True, kw_only=True):
    """What every placement has."""

    hands: Hands
    ledger: Ledger
    nodes: NodeBook
    book: Book
    say: Emit
    now: Callable[[], float]
    """The manager's clock, seconds: what orders say of times is on it."""
    monotonic: Callable[[], float]
    eviction_patience: float
    unschedulable_seconds: float
    unheard: Callable[[str], PodInfo | None]
    """Return the pod that is a replica and was created without a sidecar, where there is one."""
    hand_over: Callable[[str, PodInfo], Awaitable[None]]
    """Let the pod of a replica that waits for our gate have the room that is kept for it."""
    give_back: Callable[[str, str, str], Awaitable[None]]
    """Give back the room held for a replica on a node: it is there itself. First the move that goes there."""
    wake: Callable[[], None]
    """Have what changed in the ledger told soon."""
