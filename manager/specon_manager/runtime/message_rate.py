"""How many messages an incarnation may send: a bucket of tokens for each.

Pure: the caller passes the time.
"""

from collections import OrderedDict
from typing import Annotated, Final

from msgspec import Meta, Struct

_MOST_BUCKETS: Final = 20_000


class RateLimits(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a sidecar may send; a well-behaved one stays far below."""

    per_second: Annotated[float, Meta(gt=0)] = 10.0
    """Messages in the long run: reports, acknowledgements and questions for instructions together."""
    burst: Annotated[int, Meta(ge=1)] = 128
    """At once: twice what a sidecar keeps of changes while its manager is away."""


class _Bucket(Struct):
    left: float
    at: float


class MessageRates:
    """The buckets of those who sent something lately.

    Beyond 20,000 the one that was used longest ago goes, and starts again when it comes again.
    """

    def __init__(self, limits: RateLimits) -> None:
        self.limits = limits
        self.refused = 0
        """Messages that were refused."""
        self._buckets: OrderedDict[tuple[str, str], _Bucket] = OrderedDict()

    def wait(self, replica: str, incarnation: str, now: float) -> float:
        """Take one message in; return 0, or after how many seconds it may come again where that is too soon.

        `now` is seconds on a clock that never goes back.
        """
        limits = self.limits
        key = (replica, incarnation)
        bucket = self._buckets.get(key)
        if bucket is None:
            bucket = self._buckets[key] = _Bucket(float(limits.burst), now)
            if len(self._buckets) > _MOST_BUCKETS:
                self._buckets.popitem(last=False)
        self._buckets.move_to_end(key)
        grown = max(0.0, now - bucket.at) * limits.per_second
        bucket.left, bucket.at = min(float(limits.burst), bucket.left + grown), max(now, bucket.at)
        if bucket.left >= 1.0:
            bucket.left -= 1.0
            return 0.0
        self.refused += 1
        return (1.0 - bucket.left) / limits.per_second
