"""Long work on the loop in pieces: everybody else, the lease first of all, has a turn in between."""

import asyncio
import time
from typing import Final

_SECONDS: Final = 0.02


class Turns:
    """Lets others have a turn when ours has lasted long enough."""

    def __init__(self) -> None:
        self._began = time.perf_counter()

    async def give(self) -> None:
        """Return at once, or after everybody else had a turn where that is due."""
        if time.perf_counter() - self._began >= _SECONDS:
            await asyncio.sleep(0)
            self._began = time.perf_counter()
