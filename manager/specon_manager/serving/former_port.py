"""Where a manager on this machine listens: where an earlier one did, for sidecars that run report there."""

import asyncio
import errno
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from specon_manager.runtime.server import Server

_log = logging.getLogger(__name__)
_TRIES: Final = 20
_AGAIN_SECONDS: Final = 0.5


async def listen(
    server: Server, host: str, port: int, former: int, is_reported_to: Callable[[], Awaitable[bool]]
) -> int:
    """Listen on `port`, or for 0 on the `former` one, or for 0 on a free one; return it.

    Any process may have taken the former port meanwhile: a connection of a browser, for one. Another port is
    as good where nobody reports to the former one; else it is waited for. Raises OSError where one is taken.
    """
    if port or not former:
        return await server.start(host, port)
    for left in reversed(range(_TRIES)):
        try:
            return await server.start(host, former)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            if not await is_reported_to():
                return await server.start(host, 0)
            if not left:
                what = f"port {former}, where sidecars of running jobs report, is taken by another process"
                raise OSError(error.errno, what) from error
        if left == _TRIES - 1:
            _log.warning(
                "port %s is taken by another process: it is waited for, since jobs report there", former
            )
        await asyncio.sleep(_AGAIN_SECONDS)
    raise AssertionError("the last try returns or raises")
