"""Collections of garbage: what survives is set aside, and circles of it are found in the end."""

import asyncio
import gc
import weakref

from specon_manager.runtime.collector import keep_collections_short


class Circle:
    def __init__(self):
        self.itself = self


async def test_what_survives_is_set_aside_and_full_collections_find_what_became_garbage_there():
    """No collection but the rare full one looks at it; in the end everything is as before."""
    threshold, frozen = gc.get_threshold(), gc.get_freeze_count()
    circle = Circle()
    seen = weakref.ref(circle)
    task = asyncio.create_task(keep_collections_short(aside=0.001, full=600.0))
    await asyncio.sleep(0.05)
    assert gc.get_freeze_count() > frozen
    del circle
    gc.collect()
    assert seen() is not None
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    again = asyncio.create_task(keep_collections_short(aside=0.001, full=0.0))
    gone = asyncio.Event()
    weakref.finalize(seen(), gone.set)
    async with asyncio.timeout(60):
        await gone.wait()
    again.cancel()
    await asyncio.gather(again, return_exceptions=True)
    assert gc.get_threshold() == threshold
    assert gc.get_freeze_count() == 0
