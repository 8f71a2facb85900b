"""What can be seen of a manager at one moment, wherever it is."""

from msgspec import Struct

from specon_manager.core.state import State
from specon_manager.views.queues import QueueRow, WaitingRow
from specon_manager.views.transactions import TransactionRow


class View(Struct, frozen=True, kw_only=True):
    """A manager's state at one moment, seconds on its clock."""

    state: State
    now: float
    transactions: tuple[TransactionRow, ...]
    """Requested, in flight and ended, in the order in which they were proposed."""
    waiting: tuple[WaitingRow, ...] = ()
    """Jobs that wait to be admitted, in the order of submission."""
    queues: tuple[QueueRow, ...] = ()
    """By name."""
    caveats: tuple[str, ...] = ()
    """The missing information about the manager here, in words."""
    answers: bool = True
    """Whether a manager is at work; else this is what it left, and nothing is decided."""
