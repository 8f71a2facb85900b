"""The page on a port of its own: that of a manager in a cluster, which loopback alone reaches."""

import logging

from aiohttp import web

from specon_manager.runtime.connections import KEPT_SECONDS, ConnectionLimits, Connections, LimitedSite
from specon_manager.runtime.page.page import Page

_log = logging.getLogger(__name__)


class PageListener:
    """Serves a page and nothing else, without TLS.

    Bound to loopback inside a pod it is reached through `kubectl port-forward` only, for which one needs that
    permission, and which encrypts the way.
    """

    def __init__(self, page: Page) -> None:
        self._page = page
        self._runner: web.AppRunner | None = None

    async def start(self, host: str, port: int) -> int | None:
        """Listen; return the port (a free one for 0). None where it is taken: a manager manages without."""
        application = web.Application(client_max_size=1)
        application.add_routes(self._page.routes)
        runner = web.AppRunner(
            application, access_log=None, shutdown_timeout=2.0, keepalive_timeout=KEPT_SECONDS
        )
        await runner.setup()
        site = LimitedSite(runner, Connections(ConnectionLimits()), host, port)
        try:
            await site.start()
        except OSError as error:
            _log.warning("no status page: %s", error)
            await runner.cleanup()
            return None
        self._runner = runner
        return site.port

    async def stop(self) -> None:
        """Say goodbye to all who watch, and close."""
        self._page.close()
        if self._runner is not None:
            await self._runner.cleanup()
