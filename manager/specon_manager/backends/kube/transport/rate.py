"""A token bucket: so many calls a second, and a few at once."""

import asyncio
import time
from collections.abc import Awaitable, Callable


class Rate:
    """Lets `burst` calls pass at once and `per_second` in the long run."""

    def __init__(
        self,
        per_second: float,
        burst: int,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """Begin with a full bucket; raises ValueError for a rate that lets nothing pass."""
        if per_second <= 0 or burst < 1:
            raise ValueError(f"per_second {per_second} and burst {burst} let nothing pass")
        self._per_second = per_second
        self._burst = float(burst)
        self._tokens = float(burst)
        self._monotonic = monotonic
        self._sleep = sleep
        self._filled_at = monotonic()

    async def wait(self) -> None:
        """Return when one more call may be made; for one caller at a time."""
        now = self._monotonic()
        self._tokens = min(self._burst, self._tokens + (now - self._filled_at) * self._per_second)
        self._filled_at = now
        self._tokens -= 1.0
        if self._tokens < 0.0:
            await self._sleep(-self._tokens / self._per_second)
