"""States and journals of a manager, made by a simulated run that is left in the middle."""

from pathlib import Path

from specon_lab.engine.engine import Moment
from specon_lab.engine.run import simulate
from specon_lab.workloads.workload import Workload
from specon_manager.core.state import State
from specon_manager.model.settings import Settings
from specon_manager.runtime.journal import Journal


class ReachedError(Exception):
    """The run has come to the moment that a test is about."""


def state_at(seconds: float, workload: Workload, policy: str, **options) -> tuple[State, float]:
    """Return the manager's state after the first step at or after that time, and the time of that step."""
    moments = moments_until(seconds, workload, policy, **options)
    return moments[-1].after.flatten(), moments[-1].now


def moments_until(seconds: float, workload: Workload, policy: str, **options) -> list[Moment]:
    """Return every step from the begin to the first at or after that time."""
    moments: list[Moment] = []

    def check(moment: Moment) -> None:
        moments.append(moment)
        if moment.now >= seconds:
            raise ReachedError

    try:
        simulate(workload, policy, check=check, **options)
    except ReachedError:
        return moments
    raise AssertionError(f"the run was over before {seconds} s")


def write_journal(path: Path, moments: list[Moment], settings: Settings) -> None:
    """Write the steps as a manager with these settings would have."""
    journal = Journal(path, began_at=0.0, version="test")
    journal.begin(State(settings=settings))
    for moment in moments:
        journal.append(moment.now, moment.event, moment.actions)
    journal.close()
