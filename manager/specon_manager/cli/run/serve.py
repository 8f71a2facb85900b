"""`specon serve`: the manager of a Kubernetes cluster; see docs/kubernetes.md."""

import argparse
import asyncio
import functools
import logging
import signal
import sys
from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector

from specon_manager.backends.kube.background import leaves
from specon_manager.serving.serve_settings import ServeSettings, read_serve_settings
from specon_manager.serving.serve_settings import add_arguments as add_settings
from specon_manager.usage import UsageError

if TYPE_CHECKING:
    from specon_manager.serving.cluster_manager import ClusterManager

_log = logging.getLogger(__name__)
_END_SECONDS: Final = 10.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    add_settings(parser)
    parser.add_argument("--verbose", action="store_true", help="log more")


def main(arguments: argparse.Namespace) -> int:
    """Serve until SIGTERM; 0 after an orderly end, 1 when something broke."""
    settings = read_serve_settings(arguments)
    logging.basicConfig(
        stream=sys.stderr,
        level=logging.DEBUG if arguments.verbose else logging.INFO,
        format="%(asctime)s %(levelname)s %(name)s %(message)s",
    )
    return asyncio.run(_serve(settings))


async def _serve(settings: ServeSettings) -> int:
    # Imported here: the packages for Kubernetes take long to load, and no other command needs them.
    from specon_manager.backends.kube.transport.api import Api, ApiUnavailableError  # noqa: PLC0415
    from specon_manager.backends.kube.transport.api_metrics import ApiMetrics  # noqa: PLC0415
    from specon_manager.serving.cluster_manager import ClusterManager  # noqa: PLC0415

    registry = CollectorRegistry()
    for collector in (ProcessCollector, PlatformCollector, GCCollector):
        collector(registry=registry)
    metrics = ApiMetrics(registry)
    connect = functools.partial(
        Api.connect, kubeconfig=settings.kubeconfig, context=settings.context, observe=metrics
    )
    try:
        api = await connect()
        outputs = await connect(connections=settings.log_streams) if settings.log_streams else None
    except ApiUnavailableError as error:
        raise UsageError(str(error)) from error
    api.reading.observer = metrics.unreadable
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    try:
        return await _until(stop, ClusterManager(settings, api, registry, outputs=outputs))
    finally:
        if outputs is not None:
            await outputs.close()
        await api.close()


async def _until(stop: asyncio.Event, manager: "ClusterManager") -> int:
    running = asyncio.create_task(manager.run())
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait({running, stopping}, return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if not running.done():
        _log.info("stopping: moves in flight are taken up by the next leader")
        running.cancel()
        await asyncio.wait({running}, timeout=_END_SECONDS)
        if not running.done():
            _log.error("not ended within %g s", _END_SECONDS)
            return 1
        return 0
    try:
        running.result()
    except OSError as error:
        raise UsageError(f"--listen, --reports-listen, --metrics-listen: {error}") from error
    except BaseExceptionGroup as several:
        why = next(leaves(several))
        _log.critical("the manager ends, and another one may lead: %s", why, exc_info=why)
        return 1
    return 0
