"""Instructions to sidecars: kept until acknowledged or withdrawn, handed out by long poll."""

import asyncio
from collections.abc import Collection
from typing import Final

from specon_manager.model.actions import RequestCheckpoint, WithdrawRequest
from specon_sidecar.wire import CheckpointInstruction, Instruction

_ANSWER_SECONDS: Final = 2.0


class Mailbox:
    """At most one open request per replica, since a replica has at most one move.

    Holds nothing that the state does not hold too: after a restart the moves in flight order it again.
    """

    def __init__(self) -> None:
        self._requests: dict[str, RequestCheckpoint] = {}
        self._news: dict[str, asyncio.Event] = {}

    def put(self, order: RequestCheckpoint | WithdrawRequest) -> None:
        """Take a request in, or out."""
        if isinstance(order, RequestCheckpoint):
            self._requests[order.replica] = order
            if order.replica in self._news:
                self._news[order.replica].set()
            return
        held = self._requests.get(order.replica)
        if held is not None and held.id == order.id:
            del self._requests[order.replica]

    def open(self, replica: str, incarnation: str, now: float) -> tuple[Instruction, ...]:
        """Return what the incarnation has not acknowledged yet."""
        held = self._requests.get(replica)
        if held is None or held.incarnation != incarnation:
            return ()
        left = max(0.0, held.deadline - now)
        # The sidecar gives up first: its answer says why, which "took too long" does not.
        return (CheckpointInstruction(id=held.id, seconds_left=left - min(_ANSWER_SECONDS, left / 10)),)

    async def news(self, replica: str, incarnation: str, known: Collection[str], seconds: float) -> None:
        """Return as soon as there is an instruction that is not known, or after so many seconds."""
        held = self._requests.get(replica)
        if held is not None and held.incarnation == incarnation and held.id not in known:
            return
        event = self._news.setdefault(replica, asyncio.Event())
        event.clear()
        try:
            async with asyncio.timeout(seconds):
                await event.wait()
        except TimeoutError:
            return
