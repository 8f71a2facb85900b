"""A manager that takes every report and never wants anything: the other end of a measured sidecar.

Prints its port and serves until killed.
"""

import asyncio

from aiohttp import web


async def _report(request: web.Request) -> web.Response:
    await request.read()
    return web.Response(status=204)


async def _instructions(request: web.Request) -> web.Response:
    await asyncio.sleep(float(request.query.get("wait", "0")))
    return web.json_response({"schema": 1})


async def serve() -> None:
    """Serve until killed."""
    application = web.Application()
    application.router.add_post("/v1/reports", _report)
    application.router.add_get("/v1/instructions", _instructions)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve())
