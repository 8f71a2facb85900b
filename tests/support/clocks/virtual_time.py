"""An event loop without waiting: time jumps to the next sleeper once no other task has anything to do."""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class _Waitless(selectors.SelectSelector):
    """Never waits; what it was asked to wait passes on the loop's clock instead."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> Any:
        if timeout is None:
            raise RuntimeError("everything waits for something that cannot come")
        self.now += max(0.0, timeout)
        return super().select(0)


class VirtualLoop(asyncio.SelectorEventLoop):
    """For coroutines that do no I/O and start no threads."""

    def __init__(self) -> None:
        self._waitless = _Waitless()
        super().__init__(self._waitless)

    def time(self) -> float:
        return self._waitless.now


def run_virtually(coroutine: Coroutine[Any, Any, T]) -> T:
    """Return what the coroutine returns, in virtual time."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(coroutine)


def virtual_now() -> float:
    """Return the time of the running loop, seconds."""
    return asyncio.get_running_loop().time()
