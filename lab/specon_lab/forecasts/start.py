"""When a waiting job may start: what the simulator makes of the present state, within bounded time."""

import time
from typing import Final

from specon_lab.engine.engine import Moment
from specon_lab.engine.run import check_workload, simulate
from specon_lab.forecasts.forecast import APPROXIMATIONS, forecast
from specon_lab.process_pool import where
from specon_manager.core.state import State
from specon_manager.lab import ExpectedStart
from specon_manager.policies.progress import ProgressSettings

SECONDS: Final = 5.0
"""How long the simulation may take; beyond that the answer is that it is not known."""
_HORIZON: Final = 30 * 86400.0


class _StartedError(Exception):
    """The job trains, so the rest need not be simulated."""


class _LateError(Exception):
    """It takes too long."""


def expected_start(state: State, now: float, job: str, *, seconds: float = SECONDS) -> ExpectedStart:
    """Return when the job may start, as if neither a pause nor a dry run held the manager back.

    It takes at most `seconds` and the time of one plan; never raises for what a state may hold.
    """
    ends = time.monotonic() + seconds

    def check(moment: Moment) -> None:
        record = moment.after.jobs.get(job)
        if record is not None and record.trains_since is not None:
            raise _StartedError(moment.now)
        if time.monotonic() > ends:
            raise _LateError

    try:
        expected = forecast(state, now, prior_seconds=ProgressSettings().prior_seconds)
        check_workload(expected.workload)
        settings = state.settings
        outcome = simulate(
            expected.workload,
            settings.policy,
            parameters=settings.parameters,
            settings=expected.settings,
            limit=_HORIZON,
            beginning=expected.beginning,
            check=check,
        )
    except _StartedError as started:
        told = sorted({each.basis for each in expected.remaining})
        rests = f"how long jobs still train is {', '.join(told)}"
        return ExpectedStart(in_seconds=round(started.args[0], 1), assumptions=(rests, *APPROXIMATIONS))
    except _LateError:
        return _unknown(f"the simulation was not over after {seconds:g} s")
    except ValueError as error:
        return _unknown(str(error))
    except Exception as error:  # noqa: BLE001  (a forecast that breaks takes nothing from what is known)
        return _unknown(f"the simulation broke: {where(error)}")
    found = next((each for each in outcome.jobs if each.name == job), None)
    if found is None:
        return _unknown("it does not wait any more")
    return _unknown(found.reason or f"it does not start within {_HORIZON / 86400:g} days of simulated time")


def _unknown(why: str) -> ExpectedStart:
    return ExpectedStart(in_seconds=None, why=why)
