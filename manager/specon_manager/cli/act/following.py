"""Waits for the end of moves, looking now and then."""

import asyncio
import time
from collections.abc import Callable, Iterable
from typing import Final

from specon_manager.cli.remote.remote import Remote
from specon_manager.usage import UsageError
from specon_manager.views.transactions import TransactionRow, news

_LOOK_SECONDS: Final = 0.5
GONE: Final = "its record is gone: someone deleted it, or it was among the oldest"


async def follow(
    remote: Remote,
    rows: Iterable[TransactionRow],
    *,
    seconds: float,
    changed: Callable[[TransactionRow], None],
) -> dict[str, TransactionRow]:
    """Return the moves by id once all have ended, or as they are after `seconds`.

    One whose record is gone is not among them. `changed` is told of each that comes further. Raises
    UsageError when the manager cannot be reached for that long.
    """
    deadline = time.monotonic() + seconds
    known = {row.id: row for row in rows}
    while open_ones := [name for name, row in known.items() if not row.ended]:
        if time.monotonic() >= deadline:
            break
        await asyncio.sleep(_LOOK_SECONDS)
        try:
            found = await remote.moves(open_ones)
        except UsageError:
            if time.monotonic() >= deadline:
                raise
            continue  # it may answer again
        for row in news(known, found.values()):
            changed(row)
        known = {name: found.get(name, row) for name, row in known.items() if row.ended or name in found}
    return known
