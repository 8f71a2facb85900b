"""Reviews beside the loop: not even the most expensive ones keep the Lease from being renewed.

Anybody who reaches the port may send them, without a token. So their size, the number of values in them and
the bytes held of them at once are bounded before they are decoded. They are decoded and judged in a thread
of their own, one after the other. One that waited longer than its caller does is dropped.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import msgspec

from specon_manager.backends.kube.admission.injection import InjectionSettings
from specon_manager.backends.kube.admission.review import NoReviewError, ReviewEntry, review
from specon_manager.backends.kube.transport.resources import Object

MAX_REVIEW_BYTES: Final = 3 * 1024 * 1024
"""What the API server lets an object have, with room for the review around it."""
MOST_VALUES: Final = 30_000
"""Values in a review, about: a pod with thirty containers of two hundred variables has half of that."""
MOST_BYTES: Final = 64 * 1024 * 1024
"""Of all reviews that are being read or wait."""
MOST_WAITING: Final = 512
_PATIENCE: Final = 5.0  # seconds; so long waits the API server, as the chart has it


class TooLargeError(ValueError):
    """A review that is not read."""


class BusyError(Exception):
    """There are too many reviews at this moment."""


class Reviews:
    """Reads reviews and has them judged."""

    def __init__(self, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="admission")
        self._waiting = 0
        self._bytes = 0

    async def read(self, chunks: AsyncIterator[bytes], *, most: int = MAX_REVIEW_BYTES) -> bytes:
        """Return a body of at most so many bytes. Raises TooLargeError; BusyError where too much is read."""
        body = bytearray()
        try:
            async for chunk in chunks:
                body += chunk
                self._bytes += len(chunk)
                if len(body) > most:
                    raise TooLargeError(f"the review is longer than {most} bytes")
                if self._bytes > MOST_BYTES:
                    raise BusyError("other reviews already use the limit")
            return bytes(body)
        finally:
            self._bytes -= len(body)

    async def judge(
        self,
        body: bytes,
        settings: InjectionSettings | None,
        pins: Mapping[str, str],
        entry: ReviewEntry,
        arriving: Collection[str] = (),
    ) -> Object:
        """Return the answer to a review. Raises NoReviewError, TooLargeError and BusyError."""
        if self._waiting >= MOST_WAITING or self._bytes + len(body) > MOST_BYTES:
            raise BusyError(f"{self._waiting} other reviews wait")
        self._waiting += 1
        self._bytes += len(body)
        until = self._monotonic() + _PATIENCE

        def judge() -> Object:
            if self._monotonic() > until:
                raise BusyError(f"the review waited for more than {_PATIENCE:g} seconds")
            return answer_bounded(body, settings, pins, entry, arriving)

        try:
            return await asyncio.get_running_loop().run_in_executor(self._worker, judge)
        finally:
            self._waiting -= 1
            self._bytes -= len(body)


def answer_bounded(
    body: bytes,
    settings: InjectionSettings | None,
    pins: Mapping[str, str],
    entry: ReviewEntry,
    arriving: Collection[str] = (),
) -> Object:
    """Return the answer to a review, at a cost that is bounded. Raises NoReviewError and TooLargeError."""
    if len(body) > MAX_REVIEW_BYTES:
        raise TooLargeError(f"the review is longer than {MAX_REVIEW_BYTES} bytes")
    return review(decode_body(body), settings, pins, entry, arriving)


def decode_body(body: bytes) -> Object:
    """Return the object that a body is, at a cost that is bounded. Raises NoReviewError."""
    # What stands between two values, or begins one that holds others; in a text it counts as well. A million
    # lists in each other are no long body, and take seconds to decode.
    if sum(body.count(sign) for sign in (b",", b"[", b"{")) > MOST_VALUES:
        raise NoReviewError(f"the review has more than {MOST_VALUES} values")
    try:
        found = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise NoReviewError(f"not JSON: {error}") from error
    if not isinstance(found, dict):
        raise NoReviewError("the body is no object")
    return found
