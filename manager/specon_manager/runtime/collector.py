"""Collections of garbage that stop the loop for milliseconds, however much there is in memory.

A full collection looks at everything that can refer to something else: with ten thousand sidecars connected
that takes a second, and each time a quarter more is there Python begins one. What lives for long here is
records, which refer to nothing that refers back, and connections. So what has survived a few seconds is set
aside (`gc.freeze`), where no collection looks at it; it still goes with the last reference to it. An object
set aside that becomes garbage in a circle, as a connection may, waits for the rare full collection.
"""

import asyncio
import gc
import logging
import time
from typing import Final

_log = logging.getLogger(__name__)
_YOUNG: Final = 10_000
"""New objects between two collections of the youngest; 700 by default."""
_ASIDE_SECONDS: Final = 5.0
_FULL_SECONDS: Final = 6 * 3600.0


async def keep_collections_short(*, aside: float = _ASIDE_SECONDS, full: float = _FULL_SECONDS) -> None:
    """Set aside what survives every `aside` seconds, look at all of it every `full` ones, until cancelled."""
    before = gc.get_threshold()
    gc.set_threshold(_YOUNG, *before[1:])
    gc.freeze()  # all imported modules
    due = time.monotonic() + full
    try:
        while True:
            await asyncio.sleep(aside)
            if time.monotonic() < due:
                gc.collect(1)
            else:
                began = time.perf_counter()
                gc.unfreeze()
                found = gc.collect()
                _log.info("%d objects were garbage, found in %.2f s", found, time.perf_counter() - began)
                due = time.monotonic() + full
            gc.freeze()
    finally:
        gc.unfreeze()
        gc.set_threshold(*before)
