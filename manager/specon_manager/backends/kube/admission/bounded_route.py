"""A route that answers AdmissionReviews one by one, each of bounded size and within a bounded time.

What cannot be answered in time, or is no review, is told so: such webhooks have `failurePolicy: Ignore`.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec
from aiohttp import web

from specon_manager.backends.kube.admission.review import NoReviewError
from specon_manager.backends.kube.admission.reviews import BusyError, Reviews, TooLargeError
from specon_manager.backends.kube.admission.webhook import ReviewObserver
from specon_manager.backends.kube.transport.resources import Object

_MOST_AT_ONCE: Final = 512
_BODY_SECONDS: Final = 3.0

ReviewJudge = Callable[[bytes], Awaitable[tuple[Object, str]]]
"""Returns the answer to the body of a review and the outcome; raises NoReviewError or TimeoutError."""


def bounded_route(
    path: str, entry: str, judge: ReviewJudge, observer: ReviewObserver, *, max_bytes: int
) -> web.RouteDef:
    """Return the route of an entry, of whose outcomes the observer is told."""
    reviews, open_now = Reviews(), [0]

    async def handler(request: web.Request) -> web.Response:
        open_now[0] += 1
        try:
            if open_now[0] > _MOST_AT_ONCE:
                raise BusyError(f"{_MOST_AT_ONCE} other reviews wait")  # noqa: TRY301  (answered like the others)
            async with asyncio.timeout(_BODY_SECONDS):
                body = await reviews.read(request.content.iter_any(), most=max_bytes)
            response, outcome = await judge(body)
        except (NoReviewError, TooLargeError, BusyError, TimeoutError) as error:
            observer(entry, "unreadable")
            status = {NoReviewError: 400, TooLargeError: 413, BusyError: 503}.get(type(error), 408)
            return web.json_response({"error": str(error) or "it took too long"}, status=status)
        finally:
            open_now[0] -= 1
        observer(entry, outcome)
        return web.Response(body=msgspec.json.encode(response), content_type="application/json")

    return web.post(path, handler)
