"""What it costs the manager to relay what trainers print, by the number of pods.

`python benchmarks/log_relay.py [--json FILE]`. A relay alone in a process reads so many logs from a played
API server and hands them to as many played sidecars; each trainer prints ten lines of 100 bytes a second. No
TLS: that comes on top, on both sides. In a whole manager the share of a processor is taken from its loop.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Sequence

import aiohttp
import psutil
from aiohttp import web

import child
import figure
from figure import Figure

PODS, SECONDS = 500, 20.0
MOST_CPU = 0.2  # of a processor, for so many pods
MOST_MEMORY = 256.0  # KiB for each
_LINE = b"2026-11-23T07:00:00.000000000Z " + b"step 100 loss 0.5 ".ljust(68, b".") + b"\n"
_PAUSE = 0.1

RELAY = """
import asyncio, sys
from aiohttp import web
from specon_manager.backends.kube.log_relay import LogRelay
from specon_manager.backends.kube.transport import access
from specon_manager.backends.kube.transport.api import Api
from kubernetes.aio.client.configuration import Configuration
async def main(url, most):
    api = Api(access=access.Access(Configuration(host=url, connection_pool_maxsize=most)))
    async def pod_of(token):
        return "ml", "train"
    relay = LogRelay(api, pod_of, most)
    async def answer(request):
        return await relay(request, "")
    application = web.Application()
    application.router.add_get("/v1/output", answer)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.Event().wait()
asyncio.run(main(sys.argv[1], int(sys.argv[2])))
"""


async def _print(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    with contextlib.suppress(ConnectionError):
        while True:
            await response.write(_LINE)
            await asyncio.sleep(_PAUSE)
    return response


@contextlib.asynccontextmanager
async def _printing() -> AsyncIterator[str]:
    application = web.Application()
    application.router.add_get("/{tail:.*}", _print)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, backlog=2048).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def relay(pods: int, seconds: float) -> tuple[float, float, float]:
    """Return processor time for each second, KiB for each pod, and bytes for each pod and second."""
    taken = 0

    async def read(session: aiohttp.ClientSession, url: str) -> None:
        nonlocal taken
        async with session.get(url, params={"container": "trainer"}) as response:
            async for piece in response.content.iter_any():
                taken += len(piece)

    async with _printing() as server, contextlib.AsyncExitStack() as stack:
        process = stack.enter_context(child.python("-c", RELAY, server, str(pods)))
        port = int(await asyncio.to_thread(child.line, process))
        of = psutil.Process(process.pid)
        before = of.memory_info().rss
        session = await stack.enter_async_context(
            aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0), timeout=aiohttp.ClientTimeout(None)
            )
        )
        readers = [
            asyncio.create_task(read(session, f"http://127.0.0.1:{port}/v1/output")) for _ in range(pods)
        ]
        await asyncio.sleep(min(5.0, seconds))
        begun, used, bytes_before = time.perf_counter(), sum(of.cpu_times()[:2]), taken
        await asyncio.sleep(seconds)
        passed = time.perf_counter() - begun
        share = (sum(of.cpu_times()[:2]) - used) / passed
        memory = (of.memory_info().rss - before) / 1024 / pods
        rate = (taken - bytes_before) / passed / pods
        for reader in readers:
            reader.cancel()
        await asyncio.gather(*readers, return_exceptions=True)
    return share, memory, rate


def figures(pods: int, seconds: float) -> Sequence[Figure]:
    """Return what so many pods cost."""
    share, memory, rate = asyncio.run(relay(pods, seconds))
    return [
        Figure(
            what=f"processor time of {pods} relayed logs",
            value=share,
            unit="s/s",
            at_most=MOST_CPU * pods / PODS,
        ),
        Figure(what="memory of one relayed log", value=memory, unit="KiB", at_most=MOST_MEMORY),
        Figure(what="relayed of each log", value=rate, unit="bytes/s"),
    ]


def measure() -> Sequence[Figure]:
    """Measure with many pods."""
    return figures(PODS, SECONDS)


def smallest() -> Sequence[Figure]:
    """Measure with a few."""
    return figures(3, 1.0)


if __name__ == "__main__":
    figure.main(__doc__, measure, smallest)
