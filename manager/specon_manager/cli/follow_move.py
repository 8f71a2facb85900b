"""Waits for the end of moves, looking now and then."""

import asyncio
import time
from collections.abc import Callable
from typing import Final

from specon_manager.cli.remote.remote import MoveRow, Remote
from specon_manager.cli.run import UsageError

LOOK_SECONDS: Final = 0.5
_GONE: Final = "its record is gone: somebody deleted it, or it was among the oldest"


async def follow(
    remote: Remote, row: MoveRow, *, seconds: float, changed: Callable[[MoveRow], None]
) -> MoveRow:
    """Return the move once it has ended, or as it is after `seconds`; `changed` is told of each new state.

    Raises UsageError when the manager cannot be reached for that long, or the move is there no more.
    """
    deadline = time.monotonic() + seconds
    while not row.ended:
        if time.monotonic() >= deadline:
            return row
        await asyncio.sleep(LOOK_SECONDS)
        row = await looked_at(remote, row, changed, patient=time.monotonic() < deadline)
    return row


async def looked_at(
    remote: Remote, row: MoveRow, changed: Callable[[MoveRow], None], *, patient: bool = True
) -> MoveRow:
    """Return the move as it is now; a manager that does not answer is passed over where one is `patient`."""
    try:
        found = await remote.move(row.id)
    except UsageError:
        if patient:
            return row
        raise
    if found is None:
        raise UsageError(f"{row.id}: {_GONE}")
    if (found.state, found.attempt) != (row.state, row.attempt):
        changed(found)
    return found
