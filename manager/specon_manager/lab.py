"""The one door to the lab, which is loaded when somebody goes through it and not before.

Nothing is decided by simulation: what comes through it is told to people. A manager asks a process beside its
own, `python -m specon_manager.lab`, when jobs start: a state comes in, the answers go out.
"""

import contextlib
import importlib
import sys
from collections.abc import Collection, Iterator, Mapping
from types import ModuleType
from typing import Final

import msgspec

from specon_manager.core.state import State
from specon_manager.model.expected_start import ExpectedStart
from specon_manager.runtime.forecasting import Asked
from specon_manager.usage import LabMissingError

_PACKAGE: Final = "specon_lab"
_NEVER_IN_IMAGES: Final = f"{_PACKAGE}.commands"


def expected_starts(
    state: State, now: float, jobs: Collection[str], *, patient: bool = False
) -> Mapping[str, ExpectedStart]:
    """Return when jobs that wait may start, or why that is not known; it takes seconds, and raises nothing.

    A `patient` caller waits for a minute at most, and hears of more jobs.
    """
    try:
        with _ask_lab():
            from specon_lab.forecasts import start  # noqa: PLC0415 - the door
    except LabMissingError as missing:
        return {job: ExpectedStart(why=str(missing)) for job in jobs}
    return start.expected_starts(state, now, jobs, start.PATIENT if patient else start.QUICK)


def command(name: str) -> ModuleType:
    """Return the module of a command of the lab; raises LabMissingError."""
    with _ask_lab():
        return importlib.import_module(f"{_PACKAGE}.commands.{name}")


@contextlib.contextmanager
def _ask_lab() -> Iterator[None]:
    """Raise LabMissingError where the lab as a whole, or its commands, are what an import does not find."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name not in {_PACKAGE, _NEVER_IN_IMAGES}:
            raise
        raise LabMissingError from error


def main() -> None:
    """Answer one question: `runtime.forecasting.Asked` comes in, starts by job go out."""
    asked = msgspec.msgpack.decode(sys.stdin.buffer.read(), type=Asked)
    answer = expected_starts(asked.state, asked.now, asked.jobs, patient=True)
    sys.stdout.buffer.write(msgspec.msgpack.encode(answer))


if __name__ == "__main__":
    main()
