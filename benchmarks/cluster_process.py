"""A manager as `specon serve` runs it, with a pulse in its event loop; run by `cluster.py`.

The arguments are those of `specon serve`. Each line on standard input is answered with the measurements.
"""

import argparse
import asyncio
import gc
import logging
import sys
import threading
import time
from collections import Counter

import msgspec
from prometheus_client import CollectorRegistry

from cluster_messages import Noticed
from specon_manager.backends.kube.transport.api import Api
from specon_manager.backends.kube.transport.api_metrics import ApiMetrics
from specon_manager.model.events import JobObserved, ReplicaStarted
from specon_manager.runtime.controller import Controller, Stepped
from specon_manager.serving.cluster_manager import ClusterManager
from specon_manager.serving.serve_settings import add_arguments, read_serve_settings

_PULSE = 0.005


class Observed(ClusterManager):
    """The manager, and what it noticed."""

    controller: Controller | None = None
    leads_at: float | None = None
    news_at = 0.0
    longest_block = longest_block_cpu = longest_collection = 0.0

    def __init__(self, *arguments: object) -> None:
        super().__init__(*arguments)  # type: ignore[arg-type]
        self._events: Counter[str] = Counter()
        self._idle_cpu = time.process_time()
        self._collection_began = 0.0
        gc.callbacks.append(self._collects)

    def _collects(self, phase: str, details: dict[str, int]) -> None:
        del details
        if phase == "start":
            self._collection_began = time.thread_time()
        else:
            self.longest_collection = max(
                self.longest_collection, time.thread_time() - self._collection_began
            )

    def _serve(self, controller: Controller | None) -> None:
        super()._serve(controller)
        self.controller = controller
        if controller is not None:
            self.leads_at = time.monotonic()
            controller.observers.append(self._count)

    def _count(self, stepped: Stepped) -> None:
        self._events[type(stepped.event).__name__] += 1
        if isinstance(stepped.event, JobObserved | ReplicaStarted):
            self.news_at = time.monotonic()

    async def pulse(self) -> None:
        """Beat until cancelled."""
        while True:
            began, used = time.monotonic(), time.thread_time()
            await asyncio.sleep(_PULSE)
            self.longest_block = max(self.longest_block, time.monotonic() - began - _PULSE)
            self.longest_block_cpu = max(self.longest_block_cpu, time.thread_time() - used)

    def answer(self) -> None:
        """Print the measurements."""
        noticed = Noticed(
            idle_cpu=self._idle_cpu,
            leads_at=self.leads_at,
            ready=self.controller is not None and self.controller.ready,
            events=dict(self._events),
            news_at=self.news_at,
            longest_block=self.longest_block,
            longest_block_cpu=self.longest_block_cpu,
            longest_collection=self.longest_collection,
        )
        self.longest_block = self.longest_block_cpu = self.longest_collection = 0.0
        print(msgspec.json.encode(noticed).decode(), flush=True)


async def main() -> None:
    """Manage until killed."""
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    settings = read_serve_settings(parser.parse_args())
    registry = CollectorRegistry()
    api = await Api.connect(
        kubeconfig=settings.kubeconfig, context=settings.context, observe=ApiMetrics(registry)
    )
    manager = Observed(settings, api, registry)
    loop = asyncio.get_running_loop()

    def answer_orders() -> None:
        for _ in sys.stdin:
            loop.call_soon_threadsafe(manager.answer)

    threading.Thread(target=answer_orders, daemon=True).start()
    async with asyncio.TaskGroup() as group:
        group.create_task(manager.pulse())
        group.create_task(manager.run())


if __name__ == "__main__":
    asyncio.run(main())
