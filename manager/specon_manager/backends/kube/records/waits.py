"""What each waiting job waits for, worked out now and then: for records and for events."""

from collections.abc import Callable, Mapping
from typing import Final

from specon_manager.core.state import State
from specon_manager.core.waiting import Waiting, list_waits

_SECONDS: Final = 5.0


class Waits:
    """Remembers the answer for a few seconds: of a thousand jobs it takes a while to work out."""

    def __init__(
        self,
        *,
        seconds: float = _SECONDS,
        work_out: Callable[[State, float], Mapping[str, Waiting]] = list_waits,
    ) -> None:
        """Ask `work_out` every so many `seconds` at most."""
        self._seconds, self._work_out = seconds, work_out
        self._at = float("-inf")
        self.known: Mapping[str, Waiting] = {}
        """The last answer."""

    def of(self, state: State, now: float) -> Mapping[str, Waiting]:
        """Return what jobs wait for, by name; no older than a few seconds of the manager's clock."""
        if now - self._at >= self._seconds:
            self.known, self._at = self._work_out(state, now), now
        return self.known
