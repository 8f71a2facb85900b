"""Follows TensorBoard event files while they grow and while new ones come."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Final

from specon_sidecar.event_files.event_watch import EventWatch
from specon_sidecar.event_files.events import EventFiles
from specon_sidecar.following.watch import WatchMode

# Seconds between two looks at files that grow: one look reads what several flushes wrote.
BUSY_INTERVAL: Final = 0.1
# A look that takes long, at a large directory, is made so many times rarer than it is long.
_LOOK_SHARE: Final = 20.0
_LONGEST_PAUSE: Final = 30.0


class EventTail:
    """Hands out the events of `files` as lines, in order, as they come; the counterpart of `tail.Tail`."""

    def __init__(
        self,
        files: EventFiles,
        path: Path,
        *,
        watch: WatchMode = "auto",
        poll_interval: float = 1.0,
        on_problem: Callable[[str], None] | None = None,
    ) -> None:
        if not poll_interval > 0:
            raise ValueError(f"poll_interval must be more than 0 seconds, not {poll_interval}")
        self.files = files
        self._path = path
        self._watch_mode: WatchMode = watch
        self._poll_interval = poll_interval
        self._tell = on_problem or (lambda _: None)
        self._stopping = False
        self._wake = asyncio.Event()

    def stop(self) -> None:
        """Let `batches` end when it has handed out what the files hold now. Call it in the event loop."""
        self._stopping = True
        self._wake.set()

    async def batches(self) -> AsyncGenerator[list[bytes], None]:
        """Yield lists of lines, never empty. Raises EventsError without the package tensorboard."""
        loop = asyncio.get_running_loop()

        def wake() -> None:
            with contextlib.suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(self._wake.set)

        watch = EventWatch(
            self._path,
            wake,
            mode=self._watch_mode,
            poll_interval=self._poll_interval,
            on_problem=self._tell,
        )
        try:
            while True:
                self._wake.clear()
                last_pass = self._stopping
                begun = loop.time()
                looked = 0.0
                for lines in self.files.read():
                    looked = looked or loop.time() - begun
                    yield lines
                    await asyncio.sleep(0)
                looked = looked or loop.time() - begun
                if last_pass:
                    return
                if watch.watch(self.files.directories):
                    continue  # something may have happened before the watch was in place
                pause = max(self._poll_interval, min(_LONGEST_PAUSE, _LOOK_SHARE * looked))
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(pause):
                        await self._wake.wait()
                if not self._stopping:
                    await asyncio.sleep(min(BUSY_INTERVAL, self._poll_interval))
        finally:
            watch.close()
