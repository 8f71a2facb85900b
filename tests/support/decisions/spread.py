"""A gang that is spread over two nodes and is known to train faster on one."""

from collections.abc import Callable, Mapping

import msgspec

from specon_manager.core.orders import order
from specon_manager.core.state import State
from specon_manager.model import events as ev
from specon_manager.model.actions import AdmitGang, Proposal
from specon_manager.model.cluster import JobSpec, Phase
from specon_manager.model.paces import ENOUGH, KindPaces, Pace, Setup
from specon_manager.model.settings import Gate
from support.decisions.cluster import SETTINGS, Cluster
from support.decisions.gangs import gang, worker

APART, TOGETHER = Setup(workers=2, nodes=2), Setup(workers=2, nodes=1)
MEASURED = {APART: (1.0, ENOUGH), TOGETHER: (0.5, ENOUGH)}


def known(state: State, paces: Mapping[Setup, tuple[float, int]]) -> State:
    """Return the state in which gangs of the kind `vae` were measured: seconds per step, and how often."""
    jobs = {name: APART for name, job in state.jobs.items() if job.spec.kind == "vae"}
    found = tuple(Pace(setup=setup, seconds=pace, samples=times) for setup, (pace, times) in paces.items())
    return msgspec.structs.replace(state, setup_paces={"vae": KindPaces(paces=found, jobs=jobs)})


def spread(
    gangs: tuple[str, ...] = ("g",),
    *,
    nodes: int = 2,
    full: bool = False,
    paces: Mapping[Setup, tuple[float, int]] | None = None,
    migratable: bool = True,
    **settings: object,
) -> Cluster:
    """Return nodes of two processors, and gangs of two, each over two of them.

    With `full` what is left of those has jobs that stay, `a0`, `b0` and so on.
    """
    given = {"policy": "quota-fifo", "defragment": "on", "gate": Gate(horizon=600.0), **settings}
    cluster = Cluster(nodes=nodes, cpus=2.0, settings=msgspec.structs.replace(SETTINGS, **given))
    for number, name in enumerate(gangs):
        here = f"node-{2 * number}", f"node-{2 * number + 1}"
        spec = gang(name, 2, ps=0, resizing="none", kind="vae", migratable=migratable)
        starts(cluster, spec, {worker(name, index): node for index, node in enumerate(here)})
        for other, node in zip("ab" if full else "", here, strict=False):
            one = gang(f"{other}{number}", 1, ps=0, resizing="none", migratable=False)
            starts(cluster, one, {worker(f"{other}{number}"): node})
    cluster.state = known(cluster.state, MEASURED | (paces or {}))
    return cluster


def starts(cluster: Cluster, spec: JobSpec, placement: Mapping[str, str]) -> None:
    """Submit a job and start it where it is said."""
    cluster.post(ev.JobSubmitted(spec))
    ordered(cluster, AdmitGang(job=spec.name, placement=placement, reason=""))
    for name in placement:
        cluster.report(name, step=10)


def ordered(cluster: Cluster, proposal: Proposal) -> None:
    """Have it done, whatever speaks against it."""
    cluster.state, actions = order(cluster.state, [proposal], cluster.now, policy="test")
    cluster.orders += actions
    cluster.carry_out()


def go_on(cluster: Cluster, rounds: int, seconds: Callable[[int], float] = lambda nodes: 0.5 * nodes) -> None:
    """Let all that runs train for ten seconds a round at its pace on so many nodes, and orders come about."""
    for _ in range(rounds):
        cluster.carry_out()
        cluster.now += 9.0
        for replica in sorted(cluster.live):
            job = cluster.state.replicas[replica].job
            step = cluster.state.replicas[replica].progress.step or 0
            pace = seconds(len(nodes_of(cluster, job.removeprefix("default/"))) or 1)
            cluster.report(replica, step=step + round(10.0 / pace))
        cluster.tick()


def nodes_of(cluster: Cluster, job: str) -> set[str | None]:
    members = [cluster.state.replicas[name] for name in cluster.state.jobs[f"default/{job}"].spec.replicas]
    return {member.node for member in members if member.active}


def running(cluster: Cluster, job: str) -> bool:
    names = cluster.state.jobs[f"default/{job}"].spec.replicas
    return all(cluster.state.replicas[name].phase is Phase.RUNNING for name in names)


def moves(cluster: Cluster) -> list[object]:
    return [each for each in cluster.state.history if each.purpose == "faster"]


def said(cluster: Cluster, name: str) -> list[object]:
    return [each for each in cluster.state.decisions if each.replica == name and each.policy == "defragment"]
