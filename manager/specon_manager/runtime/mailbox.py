"""Instructions to sidecars: kept until acknowledged or withdrawn, handed out by long poll."""

import asyncio
from collections.abc import Collection
from typing import Final

from msgspec import Struct

from specon_manager.model.actions import RequestCheckpoint, WithdrawRequest
from specon_sidecar.wire import (
    MAX_PAUSE_SECONDS,
    Acknowledgement,
    CheckpointInstruction,
    Instruction,
    ReleaseInstruction,
)

_ANSWER_SECONDS: Final = 2.0
_KEPT_PAUSES: Final = 1000


class _Pause(Struct):
    """A request that asked the trainer to pause, and what came of that."""

    request: str
    incarnation: str
    until: float
    """When the trainer trains on at the latest, whatever anybody says."""
    granted: bool = False
    """Whether the sidecar said that the trainer pauses; then it knows how to release it, too."""
    over: bool = False
    """Whether the trainer is to train on."""

    @property
    def release(self) -> ReleaseInstruction | None:
        """What to tell the sidecar, if anything."""
        if not (self.granted and self.over):
            return None
        return ReleaseInstruction(id=f"release.{self.request}"[:128], request=self.request)


class Mailbox:
    """At most one open request per replica, since a replica has at most one move.

    Holds nothing that the state does not hold too: after a restart the moves in flight order it again. What
    pauses then for a request that nobody remembers trains on when its time is over.
    """

    def __init__(self) -> None:
        self._requests: dict[str, RequestCheckpoint] = {}
        self._pauses: dict[str, _Pause] = {}
        """By replica, oldest first; a bound limits how many unreleased ones are remembered."""
        self._waiting: dict[str, set[asyncio.Future[None]]] = {}
        """Who waits for news, by replica: ten thousand do, so one future and one timer is all it takes."""
        self._closed = False

    def put(self, order: RequestCheckpoint | WithdrawRequest) -> None:
        """Take a request in, or out; a trainer that pauses for it is released where the order says so."""
        pause = self._pauses.get(order.replica)
        known = pause is not None and pause.request == order.id
        if isinstance(order, RequestCheckpoint):
            self._requests[order.replica] = order
            if not known:
                self._pauses.pop(order.replica, None)  # its sidecar ends an earlier pause by itself
            if order.pause and not known:
                until = order.deadline + order.pause
                self._pauses[order.replica] = _Pause(order.id, order.incarnation, until)
                for forgotten in list(self._pauses)[:-_KEPT_PAUSES]:
                    del self._pauses[forgotten]
            self._tell(order.replica)
            return
        held = self._requests.get(order.replica)
        if held is not None and held.id == order.id:
            del self._requests[order.replica]
        if order.release and pause is not None and known:
            pause.over = True
            self._tell(order.replica)

    def heard(self, answer: Acknowledgement) -> None:
        """Take note of what a sidecar answered: whether its trainer pauses, or was released."""
        pause = self._pauses.get(answer.replica)
        if pause is None or pause.incarnation != answer.incarnation:
            return
        if pause.release is not None and pause.release.id == answer.id:
            del self._pauses[answer.replica]
        elif pause.request == answer.id and answer.paused:
            pause.granted = True
            self._tell(answer.replica)

    def open(self, replica: str, incarnation: str, now: float) -> tuple[Instruction, ...]:
        """Return what the incarnation has not acknowledged yet."""
        instructions: list[Instruction] = []
        pause = self._pauses.get(replica)
        if pause is not None and now > pause.until:
            del self._pauses[replica]
        elif pause is not None and pause.incarnation == incarnation and pause.release is not None:
            instructions.append(pause.release)
        held = self._requests.get(replica)
        if held is not None and held.incarnation == incarnation:
            left = max(0.0, held.deadline - now)
            # The sidecar gives up first: its answer says why, which "took too long" does not.
            left -= min(_ANSWER_SECONDS, left / 10)
            pausing = min(held.pause, MAX_PAUSE_SECONDS)
            instructions.append(CheckpointInstruction(id=held.id, seconds_left=left, pause=pausing))
        return tuple(instructions)

    async def news(self, replica: str, incarnation: str, known: Collection[str], seconds: float) -> None:
        """Return as soon as there is an instruction that is not known, or after so many seconds."""
        held, pause = self._requests.get(replica), self._pauses.get(replica)
        if held is not None and held.incarnation == incarnation and held.id not in known:
            return
        release = pause.release if pause is not None and pause.incarnation == incarnation else None
        if release is not None and release.id not in known:
            return
        if self._closed:
            return
        loop = asyncio.get_running_loop()
        told: asyncio.Future[None] = loop.create_future()
        timer = loop.call_later(seconds, _wake, told)
        waiting = self._waiting.setdefault(replica, set())
        waiting.add(told)
        try:
            await told
        finally:
            timer.cancel()
            waiting.discard(told)
            if not waiting and self._waiting.get(replica) is waiting:
                del self._waiting[replica]

    def close(self) -> None:
        """Let nobody wait any more: those who do are answered with what there is."""
        self._closed = True
        for replica in list(self._waiting):
            self._tell(replica)

    def _tell(self, replica: str) -> None:
        for told in self._waiting.get(replica, ()):
            _wake(told)


def _wake(told: asyncio.Future[None]) -> None:
    if not told.done():
        told.set_result(None)
