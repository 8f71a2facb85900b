"""A manager without processes that tells Prometheus of jobs that are changed, again and again."""

import threading
import time
from typing import Self

import msgspec
from prometheus_client import CollectorRegistry, start_http_server

from specon_manager.model.transactions import Kind
from specon_manager.runtime.queue_metrics import QueueMetrics
from specon_manager.runtime.transaction_metrics import TransactionMetrics
from specon_manager.views.transactions import find_ended
from support.decisions.changed_jobs import NOW, changing, ended


class ChangedJobs:
    """`with ChangedJobs() as told`: a change ends every half second, and `told.port` has the metrics."""

    def __enter__(self) -> Self:
        registry = CollectorRegistry()
        self._metrics, self._queues = TransactionMetrics(registry), QueueMetrics(registry)
        self._over = threading.Event()
        self._server, self._serving = start_http_server(0, "127.0.0.1", registry)
        self.port = self._server.server_port
        self._thread = threading.Thread(target=self._go_on)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self._server.shutdown()
        self._server.server_close()
        self._serving.join()

    def _go_on(self) -> None:
        state, began = changing(), time.monotonic()
        kinds = (Kind.SCALE_OUT, Kind.SCALE_IN)
        for number in range(2, 10_000):
            history = (*state.history, ended(number, kinds[number % 2]))[-10:]
            before, state = state, msgspec.structs.replace(state, history=history)
            over, now = find_ended(before, state), NOW + time.monotonic() - began
            self._metrics.observe(before, state, over)
            self._metrics.count(state, now)
            self._queues.count_ended(over)
            self._queues.count(before, state)
            self._queues.show(state, now)
            if self._over.wait(0.5):
                return
