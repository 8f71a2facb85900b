"""The one door to the lab, which is loaded when somebody goes through it and not before.

The manager decides without it, so its image does not hold it.
"""

import contextlib
import importlib
from collections.abc import Iterator
from types import ModuleType
from typing import Final

from msgspec import Struct

from specon_manager.core.state import State

_PACKAGE: Final = "specon_lab"


class LabMissingError(Exception):
    """The lab is not installed; the text says how to get it."""

    def __init__(self) -> None:
        super().__init__(
            "the simulator is not part of this installation: pip install 'specon[simulate]' has it"
        )


class ExpectedStart(Struct, frozen=True, kw_only=True):
    """When a waiting job is expected to start, by simulation under the present policy."""

    in_seconds: float | None
    """From now; None where it is not known."""
    why: str = ""
    """Why it is not known."""
    assumptions: tuple[str, ...] = ()
    """What is taken for granted, in words, and on what the remaining times of jobs rest."""


def expected_start(state: State, now: float, job: str) -> ExpectedStart:
    """Return when the job may start, or why that is not known; it takes seconds, and raises nothing."""
    try:
        with _asked():
            from specon_lab.forecasts import start  # noqa: PLC0415 - the door
    except LabMissingError as missing:
        return ExpectedStart(in_seconds=None, why=str(missing))
    return start.expected_start(state, now, job)


def command(name: str) -> ModuleType:
    """Return the module of a command of the lab; raises LabMissingError."""
    with _asked():
        return importlib.import_module(f"{_PACKAGE}.commands.{name}")


@contextlib.contextmanager
def _asked() -> Iterator[None]:
    """Raise LabMissingError where the lab as a whole is what an import does not find."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name != _PACKAGE:
            raise
        raise LabMissingError from error
