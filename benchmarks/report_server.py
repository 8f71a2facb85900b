"""The servers that `report_ingestion.py` and `manager_memory.py` load: the manager's own, or a bare one.

`real` is `runtime/server.py` with a controller, its journal on disk, its metrics, and the state of a cluster;
`bare` is an aiohttp application whose handler parses the same JSON and knows nothing.
"""

import asyncio
import json
import sys
from pathlib import Path

from aiohttp import web
from prometheus_client import CollectorRegistry

from specon_manager.backends.base import Emit, Order
from specon_manager.core.state import State
from specon_manager.model.cluster import JobSpec
from specon_manager.model.settings import Settings
from specon_manager.runtime.clock import Clock
from specon_manager.runtime.controller import Controller
from specon_manager.runtime.journal import NAME, Journal
from specon_manager.runtime.memory import JournalMemory
from specon_manager.runtime.metrics import Metrics
from specon_manager.runtime.server import Server
from specon_manager.runtime.tokens import Tokens
from synthetic_cluster import cluster


class NothingRuns:
    """A backend that carries nothing out: the manager alone is measured."""

    async def begin(self, state: State, emit: Emit) -> None:
        """Do nothing."""

    async def carry_out(self, order: Order) -> None:
        """Do nothing."""

    async def end(self) -> None:
        """Do nothing."""


async def real(directory: Path, nodes: int) -> None:
    """Serve until killed; prints the port once the names of the replicas are written down."""
    settings = Settings(policy="specon")
    state = cluster(nodes, balanced=True, settings=settings)
    moving = {name for each in state.transactions.values() for name in each.concerned}
    (directory / "names.json").write_text(json.dumps([*state.replicas.keys() - moving]))
    journal = Journal(directory / NAME, began_at=0.0, version="benchmark")
    journal.begin(state)
    registry = CollectorRegistry()
    controller = Controller(state=state, memory=JournalMemory(journal), backend=NothingRuns(), clock=Clock())
    controller.observers.append(Metrics(registry).observe)
    server = Server(controller, Tokens(directory), registry, _refuse)
    running = asyncio.create_task(controller.run("benchmark", settings))
    print(await server.start("127.0.0.1", 0), flush=True)
    await running


async def bare() -> None:
    """Serve until killed; prints the port."""

    async def report(request: web.Request) -> web.Response:
        json.loads(await request.read())
        return web.Response(status=204)

    application = web.Application()
    application.router.add_post("/v1/reports", report)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.Event().wait()


def _refuse(body: bytes, state: State) -> JobSpec:
    raise ValueError(f"job of {len(body)} bytes: this manager of {len(state.jobs)} jobs takes none")


def main() -> None:
    """Be the server that the arguments name: `bare`, or `real DIRECTORY NODES`."""
    if sys.argv[1] == "bare":
        asyncio.run(bare())
    else:
        asyncio.run(real(Path(sys.argv[2]), int(sys.argv[3])))


if __name__ == "__main__":
    main()
