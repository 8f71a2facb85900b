"""What the controller remembers beyond its own life: a journal here, custom resources on Kubernetes."""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Protocol

from specon_manager.core.state import State
from specon_manager.model.actions import Action
from specon_manager.model.events import Event
from specon_manager.runtime.journal import Journal

_log = logging.getLogger(__name__)


class Memory(Protocol):
    """Keeps enough for a later manager to go on where this one ended."""

    def note(self, now: float, event: Event, actions: Sequence[Action]) -> None:
        """Take note of one call of `step`, at `now` seconds on the manager's clock. Does not wait."""

    async def commit(self, state: State, *, acting: bool) -> Mapping[str, str]:
        """Return once what led to `state` would survive this process.

        `acting`: orders are about to be carried out because of it, or somebody is about to be told, so a
        later manager must know of it. Returned are moves and changes that were just proposed and cannot be
        recorded, with the reason by id: nothing may be done for them. Raises DiskFullError while there is no
        room (call it again), and NotLeadingError where another manager has taken over.
        """


class JournalMemory:
    """Every event with its actions in a journal; the disk is waited for only before something is done."""

    def __init__(self, journal: Journal) -> None:
        """Take an open journal, whose first line is written."""
        self._journal = journal

    def note(self, now: float, event: Event, actions: Sequence[Action]) -> None:
        """Append the step."""
        self._journal.append(now, event, actions)

    async def commit(self, state: State, *, acting: bool) -> Mapping[str, str]:
        """Write the appended lines, and begin a new file where the present one is large."""
        if acting:
            await asyncio.to_thread(self._journal.sync)
        else:
            self._journal.flush()
        # In a thread: the state of a large cluster takes long to write, and reports come meanwhile.
        if self._journal.large and await asyncio.to_thread(self._journal.rotate_if_large, state):
            _log.info("began a new journal file")
        return {}
