"""Time as the server sees it: real time plus whatever a test has let pass."""

import datetime as dt
import time
from collections.abc import Awaitable, Callable

Timer = Callable[[], Awaitable[None]]


class Clock:
    """Moves on by itself and by `advance`; `after` keeps what is to be done later."""

    def __init__(self) -> None:
        self._ahead = 0.0
        self._timers: list[tuple[float, int, Timer]] = []
        self._count = 0

    def now(self) -> float:
        """Return the wall clock's time in seconds."""
        return time.time() + self._ahead

    def advance(self, seconds: float) -> None:
        self._ahead += seconds

    def text(self, *, ahead: float = 0.0, micro: bool = False) -> str:
        """Return now, or some seconds later, as the API writes times."""
        moment = dt.datetime.fromtimestamp(self.now() + ahead, dt.UTC)
        return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ" if micro else "%Y-%m-%dT%H:%M:%SZ")

    def after(self, seconds: float, timer: Timer) -> None:
        self._count += 1
        self._timers.append((self.now() + seconds, self._count, timer))
        self._timers.sort(key=lambda item: item[:2])

    def due(self) -> list[Timer]:
        """Take out the timers whose time has come."""
        now = self.now()
        due = [timer for at, _, timer in self._timers if at <= now]
        self._timers = [item for item in self._timers if item[0] > now]
        return due

    def wait(self) -> float | None:
        """Return the seconds until the next timer, None where there is none."""
        return max(0.0, self._timers[0][0] - self.now()) if self._timers else None


def seconds_of(text: str) -> float:
    """Return a time of the API in seconds."""
    return dt.datetime.fromisoformat(text).timestamp()
