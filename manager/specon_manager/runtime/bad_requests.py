"""Only the sender learns the mistake in a request: nobody fills a log from outside."""

import logging
from typing import Final

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.typedefs import Handler

_log = logging.getLogger(__name__)
_SENDERS: Final = (HttpProcessingError, web.RequestPayloadError, ConnectionError)
"""What reading a request raises: not HTTP, cut off, packed badly."""


class _OursAlone(logging.Filter):
    """Leaves out what the library tells of its own accord about senders' mistakes, with a traceback each."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the record tells of a mistake of ours."""
        error = record.exc_info[1] if record.exc_info else None
        return not isinstance(error, _SENDERS)


LIBRARY_LOG: Final = logging.getLogger(f"{__name__}.library")
"""For the `logger` of a runner."""
LIBRARY_LOG.addFilter(_OursAlone())


@web.middleware
async def answer_bad_request(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answer 400 to a body that cannot be read, and 500 where we made a mistake, each in words."""
    try:
        return await handler(request)
    except web.HTTPException:
        raise
    except _SENDERS as error:
        words = " ".join(str(getattr(error, "message", error)).split())
        response = web.json_response({"error": f"the body cannot be read: {words[:200]}"}, status=400)
        response.force_close()
        return response
    except Exception:  # noqa: BLE001  (the rim: whatever a handler runs into is answered)
        resource = request.match_info.route.resource
        _log.exception("%s failed", "a request" if resource is None else resource.canonical)
        return web.json_response({"error": "a mistake of the manager; its log has more"}, status=500)
