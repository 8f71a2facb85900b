"""States in which jobs are changed and wait, and a process-less manager that tells Prometheus of them."""

import threading
import time
from typing import Self

import msgspec
from prometheus_client import CollectorRegistry, start_http_server

from specon_manager.core.state import State
from specon_manager.model.cluster import JobSpec, Node
from specon_manager.model.queues import Queue
from specon_manager.model.resources import Resources
from specon_manager.model.settings import Settings
from specon_manager.model.transactions import Kind, Transaction, TransactionState, Witness
from specon_manager.runtime.queue_metrics import QueueMetrics
from specon_manager.runtime.transaction_metrics import TransactionMetrics
from specon_manager.views.transactions import ended_between
from specon_sidecar.wire import Checkpoint
from support.gangs import gang, on, server, with_gang, worker

NOW = 1000.0
SECONDS_WAITED = 400.0
CHECKPOINT = Checkpoint(step=70, path="/c", digest="0" * 64)
ASKED = Witness(incarnation="0001")


def nodes(*, cpu: float = 4.0, count: int = 2) -> State:
    """Return a state with nodes and nothing on them."""
    capacity = Resources(cpu=cpu, memory=8e9)
    found = {f"node-{index}": Node(name=f"node-{index}", capacity=capacity) for index in range(count)}
    return State(settings=Settings(policy="fifo"), nodes=found)


def elastic(name: str = "e", *, workers: int = 2, **fields: object) -> JobSpec:
    """Return a job of one parameter server and 1 to 3 workers that is changed by recorded changes."""
    return gang(name, workers, ps=1, most=3, fewest=1, resizing="restart", **fields)


def change(
    kind: Kind = Kind.SCALE_OUT, *, job: str = "e", witness: Witness = ASKED, **fields: object
) -> Transaction:
    """Return a change of a job with two workers, on the way to three (to none, where it is preempted)."""
    before = on("node-0", server(job), worker(job, 0), worker(job, 1))
    after = {} if kind is Kind.PREEMPT else {**before, worker(job, 2): "node-1"}
    known: dict[str, object] = {
        "id": "change-1",
        "job": f"default/{job}",
        "kind": kind,
        "policy": "kod2",
        "reason": "room is idle",
        "whole": True,
        "state": TransactionState.CHECKPOINTING,
        "proposed_at": NOW - 20,
        "deadline": NOW + 60,
        "before": before,
        "after": after,
        "witnesses": {worker(job): witness},
        **fields,
    }
    return Transaction(**known)


def ended(
    number: int, kind: Kind = Kind.SCALE_OUT, *, downtime: float | None = 3.0, **fields: object
) -> Transaction:
    """Return a change that succeeded after 12 s with 3 s of downtime."""
    known: dict[str, object] = {
        "id": f"change-{number}",
        "state": TransactionState.SUCCEEDED,
        "ended_at": NOW - 8,
        "witness": Witness(checkpoint=CHECKPOINT, answered=True, downtime=downtime),
        **fields,
    }
    return change(kind, **known)


def changing() -> State:
    """Return a state with a job that trains and is being scaled, a queue with a quota, and one who waits."""
    state = msgspec.structs.replace(
        nodes(),
        settings=Settings(policy="fifo", starvation=100.0),
        queues={"team": Queue(name="team", quota=Resources(cpu=2.0, memory=1e9), borrow=False)},
    )
    placed = on("node-0", server("e"), worker("e", 0), worker("e", 1))
    state = with_gang(state, elastic(queue="team"), placed)
    state = with_gang(state, elastic("w", queue="team"), {}, queued_at=NOW - SECONDS_WAITED)
    return state.with_transaction(change())


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
            over, now = ended_between(before, state), NOW + time.monotonic() - began
            self._metrics.observe(before, state, over)
            self._metrics.count(state, now)
            self._queues.ended(over)
            self._queues.count(before, state, now)
            if self._over.wait(0.5):
                return
