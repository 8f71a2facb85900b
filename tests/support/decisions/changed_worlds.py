"""Clusters in which whole jobs are changed: an elastic job that runs, and what a test does to its changes."""

from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from specon_manager.model.actions import Action, AdmitGang, Preempt, ScaleIn, ScaleOut
from specon_manager.model.cluster import JobSpec
from specon_manager.model.settings import Budgets
from specon_manager.model.transactions import Transaction
from specon_sidecar.wire import Checkpoint
from support.decisions import told
from support.decisions.cluster import DIGEST
from support.decisions.gangs import gang, on, worker
from support.decisions.owners import Owners
from support.decisions.told import Told, registered

G = "default/g"
W0, W1, W2, W3 = (worker("g", index) for index in range(4))
SETTINGS = msgspec.structs.replace(
    told.SETTINGS,
    budgets=Budgets(cooldown=0, retry_cooldown=1, change_cooldown=30, preemptions_per_job=2),
    deadlines=msgspec.structs.replace(told.SETTINGS.deadlines, ready=15),
)
SAVED = Checkpoint(step=100, path="/c", digest=DIGEST)


class OwnedTold(Owners, Told):
    """Owners that are told what a test proposes."""

    prompt = True


def spec_of(resizing: str = "live", workers: int = 2, **changes: object) -> JobSpec:
    """Return job `g` with one to four workers; its owner asks for two."""
    given = {"ps": 0, "most": 4, "fewest": 1, "grace_seconds": 7, **changes}
    return gang("g", workers, resizing=resizing, **given)


@contextmanager
def runs(resizing: str = "live", workers: int = 2, **changes: object) -> Iterator[Told]:
    """Let job `g`, which the manager places, train on node-0 of four; a test answers for its sidecars."""
    cluster = Told(nodes=4, cpus=4.0, settings=SETTINGS)
    cluster.sidecars_answer = False
    with registered(cluster.proposed):
        cluster.admit(spec_of(resizing, workers, **changes), on("node-0", *(W0, W1, W2, W3)[:workers]))
        trains_on(cluster, 100)
        yield cluster


@contextmanager
def owned(resizing: str = "live", workers: int = 2, **changes: object) -> Iterator[OwnedTold]:
    """Let its owner run job `g`, after it was admitted where it is held."""
    cluster = OwnedTold(nodes=4, cpus=4.0, settings=SETTINGS)
    cluster.sidecars_answer = False
    with registered(cluster.proposed):
        spec = spec_of(resizing, workers, present=workers, placed_by="owner", **changes)
        cluster.create(spec)
        if spec.held:
            names = on("node-0", *(W0, W1, W2, W3)[:workers])
            cluster.propose(AdmitGang(job=G, placement=names, reason="room"))
            cluster.carry_out()
        cluster.reconcile(G)
        trains_on(cluster, 100)
        yield cluster


def grow(cluster: Told, *replicas: str, node: str = "node-1") -> list[Action]:
    return cluster.propose(ScaleOut(job=G, placement=on(node, *replicas), reason="idle"))


def shrink(cluster: Told, *replicas: str) -> list[Action]:
    return cluster.propose(ScaleIn(job=G, replicas=replicas, reason="another waits"))


def preempt(cluster: Told, beneficiary: str = "") -> list[Action]:
    return cluster.propose(Preempt(job=G, reason="a trial waits", beneficiary=beneficiary))


def change_of(cluster: Told) -> Transaction:
    """Return the transaction of the job that is in flight, or else the last that ended."""
    state = cluster.state
    flying = state.transactions_of(G)
    return flying[0] if flying else state.history[-1]


def stands(cluster: Told) -> tuple[str, int]:
    """Return the state of that transaction and its attempt."""
    change = change_of(cluster)
    return change.state.value, change.attempt


def trains_on(cluster: Told, step_: int = 200) -> None:
    """Let every worker that lives report a step."""
    for name in sorted(cluster.live):
        cluster.report(name, step=step_)
