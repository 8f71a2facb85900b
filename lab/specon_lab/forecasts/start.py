"""When waiting jobs may start: what worlds drawn from the present state make of it, within bounded time."""

import math
import time
from collections.abc import Callable, Collection, Mapping
from typing import Final

from msgspec import Struct

from specon_lab.forecasts.chance import FEWEST
from specon_lab.forecasts.forecast import APPROXIMATIONS
from specon_lab.forecasts.starts import Bounds, Start, Starts, starts
from specon_lab.forecasts.worlds import Worlds
from specon_lab.process_pool import where
from specon_manager.core.state import State
from specon_manager.model.expected_start import ExpectedStart
from specon_sidecar.counts import format_count


class Budget(Struct, frozen=True, kw_only=True):
    """What an answer may cost."""

    worlds: int = FEWEST
    work: float
    """Of all worlds together; see `Bounds.work`."""
    seconds: float
    """After which a play is given up, whatever it is: the work bounds it on a usual machine."""
    clock: Callable[[], float] = time.monotonic
    """Which seconds are meant."""


QUICK: Final = Budget(work=500_000, seconds=15.0)
"""For a person who waits for the answer."""
PATIENT: Final = Budget(work=2_500_000, seconds=60.0, clock=time.process_time)
"""For a manager that asks now and then, in seconds of a processor."""
_TURNED: Final = 0.75
"""The part of the work that is spent where later jobs may go first: more of its Ticks come after a
change, and those take longer, so that an answer costs what it did."""
_LESS_SURE: Final = "later jobs may go first, and how often intervals hold was measured under progress alone"
_MEASURED: Final = frozenset({"progress"})
"""Policies under which later jobs may go first, and intervals were found to hold as often as they say."""
_CONVERGES: Final = "jobs converge as their sidecars say, else as others of their kind did"


def expected_starts(
    state: State, now: float, jobs: Collection[str], budget: Budget = QUICK
) -> Mapping[str, ExpectedStart]:
    """Return when jobs that wait may start, as if neither a pause nor a dry run held the manager back.

    It takes as long as the budget says and the time of one plan; never raises for what a state may hold.
    """
    ends = budget.clock() + budget.seconds
    try:
        worlds = Worlds(state, now, seed=0, asked=jobs)
        waiting = worlds.waiting & set(jobs)
        share = 1.0 if worlds.in_order else _TURNED
        bounds = Bounds(work=share * budget.work / budget.worlds)
        found = starts(worlds, waiting, budget.worlds, bounds, lambda: budget.clock() <= ends)
    except ValueError as error:
        return dict.fromkeys(jobs, ExpectedStart(why=str(error)))
    except Exception as error:  # noqa: BLE001  (a forecast that breaks changes nothing else)
        return dict.fromkeys(jobs, ExpectedStart(why=f"the simulation broke: {where(error)}"))
    if found.worlds < FEWEST:
        why = f"{found.worlds} of the {FEWEST} simulations that it takes were over after {budget.seconds:g} s"
        return dict.fromkeys(jobs, ExpectedStart(why=why))
    told = sorted({each.basis for each in worlds.expected.remaining})
    assumptions = (
        f"how long jobs still train is {', '.join(told)}",
        worlds.arrivals,
        *(() if worlds.in_order or state.settings.policy in _MEASURED else (_LESS_SURE,)),
        *(() if worlds.in_order else (_CONVERGES,)),
        *(APPROXIMATIONS[1:] if worlds.in_order else APPROXIMATIONS[1:-1]),
    )
    return {
        job: _tell(found.by_job[job], found, worlds.unknown, assumptions)
        if job in found.by_job
        else ExpectedStart(why="it does not wait any more")
        for job in jobs
    }


def _tell(start: Start, found: Starts, unknown: str, assumptions: tuple[str, ...]) -> ExpectedStart:
    if math.isfinite(start.latest):
        return ExpectedStart(
            in_seconds=round(start.median, 1),
            earliest_seconds=round(start.earliest, 1),
            latest_seconds=round(start.latest, 1),
            worlds=found.worlds,
            assumptions=assumptions,
        )
    hours = found.reached / 3600
    far = (
        f"it does not start in each of {format_count(found.worlds, 'simulation')}, which look"
        f" {hours:.2g} h ahead or more"
    )
    why = unknown or start.reason or far
    if unknown or not 0 < start.surely_after < math.inf:
        return ExpectedStart(why=why, worlds=found.worlds)
    return ExpectedStart(
        earliest_seconds=round(start.surely_after, 1), why=why, worlds=found.worlds, assumptions=assumptions
    )
