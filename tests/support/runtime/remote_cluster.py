"""A manager of a cluster in memory, as commands speak with one: time goes on with each look at moves."""

from specon_manager.cli.remote.remote import RequestRefusedError
from specon_manager.model import events as ev
from specon_manager.model.transactions import TransactionState
from specon_manager.views.transactions import rows_of
from specon_manager.views.view import View
from specon_sidecar.classify import Category
from support.decisions.cluster import Cluster


class RemoteCluster:
    """What `Remote` promises, by the real `step`; `asked` has every request that was made."""

    where, pause_words = "here", ""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.asked: list[str] = []
        self.looks = self.idle_looks = 0
        """How often somebody looked, and how many looks pass before anything is carried out."""

    def train(self, step: int) -> None:
        """Let whatever lives report."""
        for replica in sorted(self.cluster.live):
            self.cluster.report(replica, Category.CONVERGED, step=step)

    async def view(self, read: object = None) -> View:
        del read
        state, now = self.cluster.state, self.cluster.now
        return View(state=state, now=now, transactions=rows_of(state))

    async def whole(self, concerned):
        return await self.view()

    async def objection(self, replica):
        return None, None

    async def remarks(self, job):
        return ()

    async def is_cordoned(self, node):
        return None

    async def ask(self, wanted, reason):
        name = f"request-{len(self.asked)}"
        self.asked.append(wanted.name)
        asked = wanted.request(self.cluster.now)
        self.cluster.post(
            ev.MoveRequested(
                id=name,
                replica=asked.replica,
                target=asked.target,
                job=asked.job,
                targets=asked.targets,
                reason=reason,
            )
        )
        row = (await self._rows())[name]
        if row.state == TransactionState.REFUSED:
            raise RequestRefusedError(row.note)
        return row

    async def cancel(self, name):
        self.cluster.post(ev.RequestWithdrawn(id=name))
        return (await self._rows())[name]

    async def moves(self, names):
        self.looks += 1
        if self.looks > self.idle_looks:
            self.cluster.carry_out()
        self.train(step=1000 * self.looks)
        self.cluster.tick()
        rows = await self._rows()
        return {name: rows[name] for name in names if name in rows}

    async def _rows(self):
        return {row.id: row for row in (await self.view()).transactions}
