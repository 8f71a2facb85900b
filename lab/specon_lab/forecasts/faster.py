"""Which jobs would move to a setup in which they train faster, at which price. Pure."""

from itertools import islice
from typing import Final

from msgspec import Struct

from specon_lab.forecasts.room_making import Goes
from specon_manager.core import faster
from specon_manager.core.state import State
from specon_manager.model.paces import Setup

MOST_JOBS: Final = 50
"""Jobs that are looked at, by name."""


class FasterElsewhere(Struct, frozen=True, kw_only=True):
    """What could be done for one job."""

    job: str
    setup: Setup
    """How it is set up now."""
    setup_then: Setup
    seconds_per_step: float
    """As measured for jobs of its kind in this setup."""
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
    """How many replicas end and start again; 0 where no nodes were found."""
    replicas: tuple[Goes, ...]
    """Those that change their node."""


def faster_elsewhere(state: State, now: float) -> tuple[FasterElsewhere, ...]:
    """Return what could be done for each job that is known to train faster in another setup.

    One by one: where one takes the room of another, only the first of them would be moved.
    """
    snapshot = state.flatten().snapshot(now)
    seen = (faster.outlook(name, state, snapshot) for name in faster.candidates(state))
    return tuple(_of(each, state) for each in islice((each for each in seen if each is not None), MOST_JOBS))


def _of(seen: faster.SetupChange, state: State) -> FasterElsewhere:
    here, there = seen.way.now, seen.way.then
    ways = ((name, state.replicas[name].node or "", node) for name, node in sorted(seen.placement.items()))
    return FasterElsewhere(
        job=seen.job,
        setup=here.setup,
        setup_then=there.setup,
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
