"""When the trainer runs, asked of the manager again and again: a lease without renewal is over in seconds."""

from typing import Final, Protocol

from specon_sidecar.clock import Time
from specon_sidecar.reporting.links import Manager
from specon_sidecar.reporting.outcome import Outcome
from specon_sidecar.wire import Turns

_WAIT: Final = 20.0
_WAIT_IN_TURNS: Final = 1.5
_LEAST_PAUSE: Final = 0.25
_RETRY_SECONDS: Final = 1.0
_REFUSED_PAUSE: Final = 60.0
"""A manager that knows nothing of turns may be upgraded."""


class Sharer(Protocol):
    """The interface of the part that stops and continues the trainer."""

    @property
    def able(self) -> bool:
        """Whether it could."""
        ...

    def take(self, turns: Turns) -> None:
        """Take when the trainer runs."""
        ...


class Leases:
    """Asks while the trainer could run in turns, and hands on the answers."""

    def __init__(self, manager: Manager, time: Time, sharer: Sharer) -> None:
        """Take whom to ask, and who is told."""
        self._manager, self._time, self._sharer = manager, time, sharer

    async def run(self) -> None:
        """Ask until the manager says that this incarnation is gone."""
        known = ""
        while True:
            begun = self._time.now()
            pause = _RETRY_SECONDS
            if self._sharer.able:
                outcome, turns = await self._manager.turns(known, wait=_WAIT_IN_TURNS if known else _WAIT)
                if outcome is Outcome.GONE:
                    return
                if turns is not None:
                    known = turns.id
                    self._sharer.take(turns)
                    pause = _LEAST_PAUSE - (self._time.now() - begun)
                elif outcome is Outcome.REFUSED:
                    pause = _REFUSED_PAUSE
            if pause > 0:
                await self._time.sleep(pause)
