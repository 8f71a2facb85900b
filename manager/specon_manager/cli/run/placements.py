"""Which node held which replica, and when: written down from the states that a run passes through."""

import msgspec
from msgspec import Struct

from specon_manager.core.state import State
from specon_manager.model.transactions import Kind, TransactionState

_AWAY = frozenset({TransactionState.LEAVING, TransactionState.COMING})


class PlacementSpan(Struct, frozen=True, kw_only=True):
    """A replica was on a node from `start` to `end`, seconds."""

    job: str
    replica: str
    node: str
    start: float
    end: float

    def since(self, began: float) -> "PlacementSpan":
        """Return it with its times counted from `began`."""
        return msgspec.structs.replace(self, start=self.start - began, end=self.end - began)


class PlacementLog:
    """Feed it every state; what it says is as exact as the states are frequent.

    A replica is on its node from the order to start it until it is gone. While a move evicts it and until its
    new incarnation runs it is nowhere: the gap is what the move cost.
    """

    def __init__(self) -> None:
        self._open: dict[str, tuple[PlacementSpan, int]] = {}
        self._closed: list[PlacementSpan] = []
        self._last = 0.0

    def observe(self, state: State, now: float) -> None:
        """Take note of where each replica is at `now`, seconds on the clock of the manager."""
        self._last = now
        away = {
            name
            for each in state.transactions.values()
            if each.kind is Kind.MOVE and each.state in _AWAY
            for name in each.concerned
        }
        for name, replica in state.replicas.items():
            node = replica.node if replica.active and name not in away else None
            known = self._open.get(name)
            if known is not None and (known[0].node, known[1]) != (node, replica.starts):
                del self._open[name]
                self._closed.append(msgspec.structs.replace(known[0], end=now))
                known = None
            if known is None and node is not None:
                fresh = PlacementSpan(job=replica.job, replica=name, node=node, start=now, end=now)
                self._open[name] = (fresh, replica.starts)

    @property
    def placements(self) -> tuple[PlacementSpan, ...]:
        """All of them by their start; those that last end when a state was last observed."""
        lasting = [msgspec.structs.replace(placement, end=self._last) for placement, _ in self._open.values()]
        return tuple(sorted([*self._closed, *lasting], key=lambda placement: placement.start))
