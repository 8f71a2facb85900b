"""A cluster in memory that a status page can watch: what it shows comes from the real `step`."""

import contextlib

from aiohttp import web
from aiohttp.test_utils import TestServer

from specon_manager.model import events as ev
from specon_manager.runtime.controller import Stepped
from specon_manager.runtime.page.page import Page
from specon_sidecar.classify import Category
from specon_sidecar.wire import Checkpoint, Observation, Report
from support.decisions.cluster import SETTINGS, Cluster

TOKEN = "the-token-of-a-viewer"


class _Clock:
    def __init__(self, cluster):
        self._cluster = cluster

    def now(self):
        return self._cluster.now


class WatchedCluster(Cluster):
    """Has what the page asks of a controller: `state`, `clock` and `observers`."""

    def __init__(self, nodes=2, settings=SETTINGS):
        self.observers = []
        self.steps = []
        self.clock = _Clock(self)
        super().__init__(nodes=nodes, cpus=4.0, settings=settings)

    def post(self, event):
        before = self.state
        actions = super().post(event)
        stepped = Stepped(
            before=before, after=self.state, event=event, actions=actions, now=self.now, seconds=0.0
        )
        self.steps.append(stepped)
        for observer in list(self.observers):
            observer(stepped)
        return actions

    def tell(self, replica, value, *, step, category=Category.PROGRESSING, after=1.0, **changes):
        """Have the sidecar of a replica report a value, `after` seconds later."""
        self.now += after
        live = self.live[replica]
        live.sequence += 1
        seen = Observation(name="loss", value=value, age=0.0, step=step)
        report = Report(
            schema=1,
            replica=replica,
            incarnation=live.incarnation,
            session=live.session,
            sequence=live.sequence,
            category=category,
            first=seen,
            last=seen,
            **changes,
        )
        return self.post(ev.ReportReceived(report))

    def learn(self, replica, *, steps=40, to=0.2, category=Category.CONVERGED):
        """Have a replica report a curve that falls to `to` and ends in a category."""
        for step in range(steps):
            part = step / (steps - 1)
            words = (Category.UNKNOWN, Category.PROGRESSING, Category.PROGRESSING, Category.WATCHING)
            self.tell(
                replica,
                to + (2.3 - to) * (1 - part) ** 3,
                step=10 * step,
                total_steps=20 * steps,
                gain=0.1 * (1 - part),
                category=category if part > 0.8 else words[int(part * 5)],
                checkpoint=Checkpoint(step=10 * step, path="/checkpoints"),
                reason="gain below alpha" if part > 0.8 else "",
            )

    def move(self, replica, target, move="move-by-hand"):
        """Ask for a move; it goes as far as orders are carried out."""
        return self.post(ev.MoveRequested(id=move, replica=replica, target=target, reason="for maintenance"))


async def permitted(token):
    return token == TOKEN


@contextlib.asynccontextmanager
async def served(page):
    """Serve the page on loopback; yield its address."""
    application = web.Application()
    application.add_routes(page.routes)
    server = TestServer(application)
    await server.start_server()
    try:
        yield f"http://127.0.0.1:{server.port}/page/"
    finally:
        page.close()
        await server.close()


def page_of(cluster, **options):
    """Return a page that has watched the cluster from its begin."""
    page = Page(permitted, manager="test", pace=0.05, **options)
    page.controller = cluster
    for stepped in cluster.steps:
        page._observe(stepped)
    return page
