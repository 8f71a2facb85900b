"""Time that never goes back, whatever happens to the wall clock."""

import time
from collections.abc import Callable


class Clock:
    """Seconds since the epoch at the start, and from then on by the monotonic clock.

    A wall clock that is set while the manager runs changes nothing. One that was set back while no manager
    ran cannot make time go back either: the clock begins no earlier than `at_least`.
    """

    def __init__(
        self,
        at_least: float = 0.0,
        *,
        wall: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._monotonic = monotonic
        self._offset = max(wall(), at_least) - monotonic()

    def now(self) -> float:
        """Return the time, seconds."""
        return self._monotonic() + self._offset
