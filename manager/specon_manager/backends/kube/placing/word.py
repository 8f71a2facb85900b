"""What the core is told of one order, each thing once."""

import logging

from specon_manager.backends.kube.placing.book import InFlight
from specon_manager.backends.kube.placing.tools import Tools
from specon_manager.model.actions import PlaceJob
from specon_manager.model.events import JobRefused, OrderExpired, ReplicaGone, ReplicaStarted, SidecarMissing

_log = logging.getLogger(__name__)


class Word:
    """Speaks of an order that is in force."""

    def __init__(self, order: PlaceJob, flight: InFlight | None, tools: Tools) -> None:
        self._order, self._flight, self._tools = order, flight, tools
        self._said: set[tuple[str, ...]] = set()

    def concerns(self, replica: str) -> bool:
        """Whether what becomes of a replica is for a transaction to know: of a move, of what moved."""
        return self._flight is None or not self._flight.moves or replica in self._tools.book.moves

    def transaction(self, replica: str) -> str:
        """Return the transaction that a replica is in, as far as it is known; else that of the order."""
        move = self._tools.book.moves.get(replica)
        if move is None or self._flight is None or not self._flight.moves:
            return self._order.transaction
        return move.id

    def tell_refused(self, why: str, replica: str = "") -> None:
        """Say that the order cannot be carried out, or not for that replica."""
        name = self.transaction(replica)
        if not self._is_news("refused", name, why):
            return
        _log.warning("%s cannot be placed as %s wants: %s", self._order.job, name or "said", why)
        if name:
            self._tools.say(JobRefused(job=self._order.job, transaction=name, reason=why))

    def tell_expired(self, replica: str, why: str) -> None:
        """Say that a replica is not told to end, since what permits it has grown too old."""
        name = self.transaction(replica)
        if self._is_news("expired", name):
            _log.warning("%s: nothing is told to end for %s: %s", self._order.job, name, why)
            self._tools.say(OrderExpired(transaction=name))

    def tell_sidecar_missing(self, replica: str, count: int) -> None:
        """Say that a pod of a replica is sent back, the `count`-th, since it came without a sidecar."""
        name = self.transaction(replica)
        if self._is_news("sidecar-missing", replica, str(count)):
            self._tools.say(SidecarMissing(transaction=name, replica=replica, count=count))

    def tell_gone(self, replica: str, incarnation: str | None = None) -> None:
        """Say that nothing is left of a replica, or of one incarnation of it."""
        if self._is_news("gone", replica, incarnation or ""):
            why = "no pod of it runs"
            self._tools.say(ReplicaGone(replica=replica, incarnation=incarnation, evicted=True, reason=why))

    def tell_runs(self, replica: str, incarnation: str, node: str) -> None:
        """Say that an incarnation runs; that it may have been told before the order does no harm."""
        if self._is_news("runs", incarnation):
            self._tools.say(ReplicaStarted(replica=replica, incarnation=incarnation, node=node))

    def _is_news(self, *said: str) -> bool:
        if said in self._said:
            return False
        self._said.add(said)
        return True
