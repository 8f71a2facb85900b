"""A clock of an event loop that stands still while others have the processor.

In a test with whole managers, servers and kubelets in one loop, what is due after a while is due after what
they did themselves, and not because eight other processes came in between: waiting counts as long as it was
to last, and work as the processor time that it took.
"""

import asyncio
import time
from typing import Any


class _Fair:
    """Measures what the loop of this thread waits and works, from now on."""

    def __init__(self, loop: Any) -> None:
        self._select = loop._selector.select
        self._passed = loop.time()
        self._worked = time.thread_time()

    def now(self) -> float:
        """Return the time, seconds."""
        return self._passed + time.thread_time() - self._worked

    def select(self, timeout: float | None = None) -> Any:
        """Wait as the selector does."""
        self._passed = self.now()
        began = time.monotonic()
        try:
            return self._select(timeout)
        finally:
            waited = time.monotonic() - began
            self._passed += waited if timeout is None else min(waited, max(0.0, timeout))
            self._worked = time.thread_time()


def be_fair() -> None:
    """Let the running loop have such a clock from now on; once more changes nothing."""
    loop: Any = asyncio.get_running_loop()
    if "time" not in vars(loop):
        fair = _Fair(loop)
        # A loop of one's own would need a plug-in for each test runner: two methods are all that differs.
        loop._selector.select, loop.time = fair.select, fair.now


def fair_now() -> float:
    """Return the time of the running loop, seconds."""
    return asyncio.get_running_loop().time()
