"""Work beside the loop: the first task that breaks is known to all, so that nobody leads on half blind."""

import asyncio
import logging
from collections.abc import Coroutine, Iterator
from typing import Any, NoReturn

from specon_manager.backends.base import NotLeadingError
from specon_manager.backends.kube.transport.errors import ApiError, ApiUnavailableError

_log = logging.getLogger(__name__)


class BrokenError(Exception):
    """A task that the manager cannot lead without has ended."""


class Background:
    """Tasks that belong together."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()
        self._ended = asyncio.Event()
        self._why: Exception | None = None

    def start(
        self, work: Coroutine[Any, Any, None], name: str = "", *, endless: bool = False
    ) -> asyncio.Task[None]:
        """Have the work done; without a name it is called as its function is.

        `endless`: it is to go on until it is cancelled, so that its mere end is a break. An errand that ends
        for what the API server says, or does not say, is none: its sender looks after that.
        """
        task = asyncio.create_task(work, name=name or name_of_coroutine(work))
        self._tasks.add(task)
        task.add_done_callback(lambda done: self._note_done(done, endless=endless))
        return task

    async def broken(self) -> NoReturn:
        """Wait until a task breaks. Raises NotLeadingError where that is why, else BrokenError."""
        await self._ended.wait()
        assert self._why is not None
        raise self._why

    async def end(self) -> None:
        """Cancel all tasks, and wait for their ends."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _note_done(self, task: asyncio.Task[None], *, endless: bool) -> None:
        self._tasks.discard(task)
        if task.cancelled() or self._why is not None:
            return
        error = task.exception()
        if error is None and not endless:
            return
        if isinstance(error, ApiError | ApiUnavailableError) and not endless:
            _log.warning("%s: %s", task.get_name(), error)
            return
        if isinstance(error, NotLeadingError):
            self._why = error
        else:
            words = "it came to its end" if error is None else f"{type(error).__name__}: {error}"
            self._why = BrokenError(f"{task.get_name()}: {words}")
            self._why.__cause__ = error
        self._ended.set()


def name_of_coroutine(work: Coroutine[Any, Any, None]) -> str:
    """Return what the function of a coroutine is called."""
    return str(getattr(work, "__qualname__", work))


def leaves(group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    """Yield the errors of a group, those of the groups in it too."""
    for each in group.exceptions:
        if isinstance(each, BaseExceptionGroup):
            yield from leaves(each)
        else:
            yield each
