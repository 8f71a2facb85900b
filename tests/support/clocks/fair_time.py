"""The time of tests in which whole managers, servers and kubelets share one event loop.

It stands still while others have the processor: work counts as the processor time that it took, not as the
time in which eight other processes came in between. And it passes at once while nobody in the loop has
anything to do: what is due after half a minute is due after what they did themselves. While a thread works
for the loop, waiting takes as long as it is to last.
"""

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

_QUIET = 0.0002
"""So long nothing has come in before time passes at once, seconds: what was sent is there nearly at once."""
_real_monotonic, _real_time = time.monotonic, time.time
_current: "_Fair | None" = None


class _Fair:
    """Measures what the loop of this thread waits and works, from now on."""

    def __init__(self, loop: Any) -> None:
        self._select, self._run_in_executor = loop._selector.select, loop.run_in_executor
        self._thread = threading.get_ident()
        self._passed = self._told = _real_monotonic()
        self._mark = self._passed, self._passed
        """The loop's time and the machine's time at one moment, for other threads."""
        self._worked = time.thread_time()
        self._threads = 0
        """That work for the loop."""
        self.wall = _real_time() - self._passed
        """The time since the epoch, less that of the loop."""

    def now(self) -> float:
        """Return the time, seconds; to other threads it passes as they wait."""
        if threading.get_ident() != self._thread:
            passed, since = self._mark
            self._told = max(self._told, passed + _real_monotonic() - since)
            return self._told
        return self._passed + time.thread_time() - self._worked

    def select(self, timeout: float | None = None) -> Any:
        """Wait as the selector does, or let the time pass that there would be to wait."""
        self._pass(self.now())
        if timeout is None or timeout <= 0 or self._threads:
            began = _real_monotonic()
            found = self._select(timeout)
            waited = _real_monotonic() - began
            self._pass(self._passed + (waited if timeout is None else min(waited, max(0.0, timeout))))
            return found
        if not (found := self._select(0)):
            time.sleep(_QUIET)
            found = self._select(0)
        self._pass(self._passed if found else self._passed + timeout)
        return found

    def run_in_executor(self, *work: Any) -> Any:
        """Have a thread work, and do not hurry it."""
        future = self._run_in_executor(*work)
        self._threads += 1
        future.add_done_callback(self._rest)
        return future

    def wait_for_threads(self, shut_down: Callable[[], Any]) -> Callable[[], Any]:
        """Return what shuts the loop's threads down, and does not hurry them either."""

        async def waiting(*options: Any) -> None:
            self._threads += 1
            await shut_down(*options)

        return waiting

    def _rest(self, _: object) -> None:
        self._threads -= 1

    def _pass(self, now: float) -> None:
        self._passed, self._worked = now, time.thread_time()
        self._mark = now, _real_monotonic()


def be_fair() -> None:
    """Let the running loop, and all who ask for the time, have it from now on; once more changes nothing."""
    global _current  # noqa: PLW0603  (as there is one clock in `time`)
    loop: Any = asyncio.get_running_loop()
    if "time" in vars(loop):
        return
    _current = fair = _Fair(loop)
    # A loop of one's own would need a plug-in for each test runner: a few methods are all that differs.
    loop._selector.select, loop.time, loop.run_in_executor = fair.select, fair.now, fair.run_in_executor
    loop.shutdown_default_executor = fair.wait_for_threads(loop.shutdown_default_executor)
    loop.close = _closing(loop.close)


def fair_now() -> float:
    """Return the time of the running loop, seconds."""
    return asyncio.get_running_loop().time()


def install() -> None:
    """Let all who ask `time` be told by the fair clock, while there is one.

    To be called before they are imported, for many have `time.monotonic` as a default.
    """
    time.monotonic, time.time = _monotonic, _time


def _closing(close: Callable[[], None]) -> Callable[[], None]:
    def closed() -> None:
        global _current  # noqa: PLW0603
        _current = None
        close()

    return closed


def _monotonic() -> float:
    return _real_monotonic() if _current is None else _current.now()


def _time() -> float:
    return _real_time() if _current is None else _current.now() + _current.wall
