"""Which gangs would be brought together since they train faster on fewer nodes, at which price. Pure."""

from itertools import islice
from typing import Final

from msgspec import Struct

from specon_lab.forecasts.room_making import Goes
from specon_manager.core import gather
from specon_manager.core.state import State

MOST_GANGS: Final = 50
"""Gangs that are looked at, by name."""


class GangTogether(Struct, frozen=True, kw_only=True):
    """What could be done for one gang that is spread."""

    job: str
    workers: int
    nodes: int
    """How many it is on."""
    nodes_then: int
    seconds_per_step: float
    """As measured for jobs of its kind on so many nodes."""
    seconds_per_step_then: float
    measured: int
    """How often."""
    measured_then: int
    saves: float
    """Which part of its time it would save at least."""
    gain: float
    """What that is worth within the gate's horizon, weighted replica-seconds."""
    price: float
    """Of the move, weighted replica-seconds."""
    done: bool
    """Whether the manager would do it, if it is set to."""
    reason: str
    """Why it would not; empty where it would."""
    restarts: int
    """How many replicas end and start anew; 0 where no nodes were found."""
    replicas: tuple[Goes, ...]
    """Those that change their node."""


def gathering(state: State, now: float) -> tuple[GangTogether, ...]:
    """Return what could be done for each gang that is known to train faster on fewer nodes.

    One by one: where one takes the room of another, only the first of them would be moved.
    """
    snapshot = state.flattened().snapshot(now)
    seen = (gather.outlook(name, state, snapshot) for name in gather.candidates(state))
    return tuple(_of(each, state) for each in islice((each for each in seen if each is not None), MOST_GANGS))


def _of(seen: gather.Outlook, state: State) -> GangTogether:
    here, there = seen.way.spread, seen.way.together
    ways = ((name, state.replicas[name].node or "", node) for name, node in sorted(seen.placement.items()))
    return GangTogether(
        job=seen.job,
        workers=here.setup.workers,
        nodes=here.setup.nodes,
        nodes_then=there.setup.nodes,
        seconds_per_step=here.seconds,
        seconds_per_step_then=there.seconds,
        measured=here.samples,
        measured_then=there.samples,
        saves=seen.way.saved,
        gain=seen.gain,
        price=seen.price,
        done=seen.objection is None,
        reason="" if seen.objection is None else seen.objection.text,
        restarts=len(seen.placement),
        replicas=tuple(
            Goes(replica=name, source=source, target=target)
            for name, source, target in ways
            if source != target
        ),
    )
