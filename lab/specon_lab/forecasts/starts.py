"""When jobs that wait may start: worlds are drawn, played forward by `step`, and their starts counted. Pure.

Of n worlds that are as likely as what will happen, the k-th smallest start lies before the true one in
k of n + 1 cases: so 19 worlds give an interval of 90 %, from the first start to the last.
"""

import contextlib
import math
from collections.abc import Callable, Collection, Mapping
from typing import Final

import msgspec
from msgspec import Struct

from specon_lab.engine.engine import Moment
from specon_lab.engine.run import check_workload, simulate
from specon_lab.forecasts.chance import FEWEST
from specon_lab.forecasts.forecast import Forecast
from specon_lab.forecasts.worlds import Worlds
from specon_manager.model.actions import StartReplica
from specon_manager.model.events import Tick

_HORIZON: Final = 7 * 86400.0
_TAIL: Final = 0.05
_EVENT: Final = 5.0
_TICK: Final = 50.0


class Bounds(Struct, frozen=True, kw_only=True):
    """How much is played forward of one world."""

    horizon: float = _HORIZON
    """Virtual seconds."""
    work: float
    """In units of what it costs to ask about one job more: 3 microseconds of `fifo`, 10 of `progress`."""


class Start(Struct, frozen=True, kw_only=True):
    """When one job may start, seconds from now; infinite where it is beyond the end of the play."""

    median: float
    earliest: float
    latest: float
    surely_after: float
    """5 of 100 start before at most, also where the worlds were not played until it starts; 0 or more."""
    reason: str = ""
    """Why it never does, where a world came to its end without it."""


class Starts(Struct, frozen=True, kw_only=True):
    """What became of all worlds together."""

    by_job: Mapping[str, Start]
    worlds: int
    """How many were played."""
    reached: float
    """How far each of them was played at least, virtual seconds."""


class Play(Struct, frozen=True, kw_only=True):
    """What became of one world."""

    starts: Mapping[str, float]
    """Start by job; infinite for a job that no node can ever hold."""
    reached: float
    work: float
    """What it took, in the units of `Bounds.work`."""
    cut: bool
    """Whether that was too little: jobs that wait have not started, and it could go on."""
    reasons: Mapping[str, str]
    """Why the others do not start, where the world came to its end."""


class _OverError(Exception):
    """The rest of a world need not be played."""


def play_forward(
    world: Forecast, waiting: Collection[str], bounds: Bounds, alive: Callable[[], bool]
) -> Play:
    """Return when each of the jobs that wait starts in one world, as far as it is played forward.

    Raises TimeoutError once `alive`, which is asked at each Tick, says no.
    """
    missing, found, work, reached = set(waiting), dict[str, float](), 0.0, 0.0

    def check(moment: Moment) -> None:
        nonlocal work, reached
        reached = moment.now
        for action in moment.actions:
            if isinstance(action, StartReplica):
                record = moment.after.replicas.get(action.replica)
                if record is not None and record.job in missing:
                    missing.discard(record.job)
                    found[record.job] = moment.now
        work += _EVENT
        if isinstance(moment.event, Tick):
            work += _TICK + len(moment.world.jobs)
            if not alive():
                raise TimeoutError
        if not missing or work > bounds.work:
            raise _OverError

    check_workload(world.workload)
    settings, reasons = world.settings, dict[str, str]()
    try:
        outcome = simulate(
            world.workload,
            settings.policy,
            parameters=settings.parameters,
            settings=settings,
            limit=bounds.horizon,
            beginning=world.beginning,
            check=check,
        )
        reasons = {job.name: job.reason for job in outcome.jobs if job.name in missing}
        never = {job.name for job in outcome.jobs if job.name in missing and job.state != "unfinished"}
        found |= dict.fromkeys(sorted(never), math.inf)
        reached = bounds.horizon
    except _OverError:
        pass
    cut = bool(missing) and reached < bounds.horizon
    return Play(starts=found, reached=reached, work=work, cut=cut, reasons=reasons)


def starts(
    worlds: Worlds, waiting: Collection[str], count: int, bounds: Bounds, alive: Callable[[], bool]
) -> Starts:
    """Return the starts of the jobs that wait over so many worlds, with the work of `bounds` for each.

    What worlds leave that are over early goes to those that were cut short, which are played once more.
    Worlds that `alive` ends do not count; fewer than `FEWEST` tell nothing.
    """
    plays: list[Play] = []

    def play(number: int, work: float) -> Play:
        within = msgspec.structs.replace(bounds, work=work)
        return play_forward(worlds.draw(number, until=bounds.horizon), waiting, within, alive)

    with contextlib.suppress(TimeoutError):
        for number in range(count):
            plays += [play(number, bounds.work)]  # a play that is over before a timeout counts
        left = count * bounds.work - sum(each.work for each in plays)
        cut = [number for number, each in enumerate(plays) if each.cut]
        for turn, number in enumerate(cut):
            share = left / (len(cut) - turn)
            if share <= bounds.work:
                break  # it would come no further than before
            plays[number] = play(number, share)
            left -= plays[number].work
    if len(plays) < FEWEST:
        return Starts(by_job={}, worlds=len(plays), reached=0.0)
    return Starts(
        by_job={job: _start_of(job, plays) for job in sorted(waiting)},
        worlds=len(plays),
        reached=min(play.reached for play in plays),
    )


def _start_of(job: str, plays: Collection[Play]) -> Start:
    median, earliest, latest = interval([play.starts.get(job, math.inf) for play in plays])
    # Where a world was cut short it starts later than that.
    _, surely_after, _ = interval([play.starts.get(job, play.reached) for play in plays])
    reasons = (play.reasons.get(job, "") for play in plays)
    return Start(
        median=median,
        earliest=earliest,
        latest=latest,
        surely_after=surely_after,
        reason=next(filter(None, reasons), ""),
    )


def interval(times: Collection[float]) -> tuple[float, float, float]:
    """Return the median of equally likely times, at least 19, and where 90 of 100 lie between."""
    ordered = sorted(times)
    count = len(ordered)
    tail = max(1, math.floor(_TAIL * (count + 1)))
    return ordered[count // 2], ordered[tail - 1], ordered[count - tail]
