"""What every backend offers to the controller: carry orders out, and say what became of them."""

from collections.abc import Callable
from typing import Protocol

from specon_manager.core.state import State
from specon_manager.model.actions import (
    EvictReplica,
    HoldRoom,
    PlaceJob,
    ReleaseRoom,
    SetWeight,
    StartReplica,
)
from specon_manager.model.events import Event

Emit = Callable[[Event], None]
"""Hands an event to the controller; never blocks, never raises."""

Order = StartReplica | EvictReplica | HoldRoom | ReleaseRoom | SetWeight | PlaceJob
"""The actions that are a backend's to carry out; those about checkpoints go to the sidecars."""


def is_stale(order: EvictReplica | PlaceJob, now: float) -> bool:
    """Whether the checkpoint that permits the order has grown too old to act upon at `now`.

    Asked right before something is ended, and again before each further try: a manager that was frozen, or an
    API server that was away, must not cost the steps that were trained meanwhile.
    """
    return order.fresh_until is not None and now > order.fresh_until


class NotLeadingError(Exception):
    """Another manager leads now, or may: this one orders nothing more."""


class Backend(Protocol):
    """Where replicas really run.

    Orders are idempotent: a manager that was killed gives them again. Outcomes, failures too, come as
    events: a start ends in ReplicaStarted or StartRefused, an eviction in ReplicaGone or, where what runs
    must not be ended, in EvictionRefused, holding room in RoomHeld or RoomRefused. A start beside a live
    incarnation is answered with that one's name, or refused. An order to the owner of a job (PlaceJob)
    shows in the starts and ends of its replicas, or is refused with JobRefused; only backends where owners
    place replicas are given such orders. A replica that must end while its checkpoint is fresh
    (`fresh_until`) is left alone later, and OrderExpired says so. A weight has no outcome; it is ordered only
    where the settings say that the backend can change shares in place. The end of a replica that nobody
    ordered is a ReplicaGone as well.
    """

    async def begin(self, state: State, emit: Emit) -> None:
        """Report the nodes, take up what an earlier manager left running, and watch from now on.

        `state` is what that manager knew. Called once, before any order. What runs and is not wanted by
        `state` is ended, and room is given up that is held for a move which is not in flight any more, or
        which is on its way back to the source: those orders may have died with that manager.
        """

    async def carry_out(self, order: Order) -> None:
        """Carry one order out; an exception means that it failed and may be given again.

        Raises NotLeadingError where this manager does not lead any more; that ends the controller.
        """

    async def end(self) -> None:
        """Stop watching. Replicas keep running unless they were started to end with the manager."""
