"""A policy that proposes at random what is legal and what is not; the same again for the same moment."""

from collections.abc import Iterator, Mapping
from random import Random

from msgspec import Struct

from specon_manager.model.actions import (
    Admit,
    AdmitGang,
    Claim,
    Migrate,
    MigrateGang,
    Preempt,
    Proposal,
    Reweight,
    ScaleIn,
    ScaleOut,
    Stay,
)
from specon_manager.model.cluster import Job, Phase
from specon_manager.model.resources import NOTHING
from specon_manager.model.snapshot import Snapshot
from specon_manager.policies.placement import readmissions


class RandomSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The seed; and whether it only starts what waits and gives up what was claimed."""

    seed: int = 0
    calm: bool = False
    scaling: bool = False
    """Whether it scales more than anything else."""


def propose(snapshot: Snapshot, settings: RandomSettings) -> Iterator[Proposal]:
    """Start again what crashed, start waiting jobs as wholes; unless calm, disturb what is there."""
    yield from readmissions(snapshot)
    rng = Random(f"{settings.seed}/{snapshot.now}")
    for job in snapshot.waiting:
        more = 0 if settings.calm else rng.choice([0, 1, 2])
        placement = first_fit(job, snapshot, more) or first_fit(job, snapshot)
        if placement and (settings.calm or rng.random() < 0.8):
            yield AdmitGang(job=job.name, placement=placement, reason="it fits")
    if settings.calm:
        for name in snapshot.claims:
            yield Claim(job=name, placement={}, reason="no longer wanted")
        return
    if not snapshot.jobs:
        return
    if settings.scaling:
        for job in snapshot.running:
            if job.cooldown_until <= snapshot.now and rng.random() < 0.7:
                yield from _scaled(job, snapshot, rng)
    for _ in range(rng.choice([0, 1, 1, 2, 4])):
        yield _any(snapshot, rng)


def first_fit(job: Job, snapshot: Snapshot, more: int = 0) -> dict[str, str] | None:
    """Return where the job can start with its fewest workers and so many more; None: nowhere.

    Nor where all of its workers have ended.
    """
    members = {replica.name: replica for replica in snapshot.members[job.name] if not replica.ended}
    done = sum(name not in members for name in job.spec.worker_names)
    servers = [name for name in job.spec.ps if name in members]
    others = [name for name in job.spec.worker_names if name in members]
    if done and not others:
        return None
    wanted = max(1, job.spec.fewest_workers - done) + more
    taken = dict.fromkeys(snapshot.nodes, NOTHING)
    placement = {}
    for name in (*servers, *others[:wanted]):
        for node in snapshot.ready_nodes:
            amount = taken[node.name] + members[name].requests
            if amount.fits(snapshot.open_room(node.name, job.name)):
                taken[node.name], placement[name] = amount, node.name
                break
        else:
            return None
    return placement


def _scaled(job: Job, snapshot: Snapshot, rng: Random) -> Iterator[Proposal]:
    """Propose one more worker of a job where it finds room, or one less."""
    absent = [r for r in snapshot.members[job.name] if r.phase is Phase.ABSENT]
    if absent and rng.random() < 0.6:
        nodes = [n.name for n in snapshot.ready_nodes if absent[0].requests.fits(snapshot.open_room(n.name))]
        if nodes:
            yield ScaleOut(
                job=job.name, placement={absent[0].name: rng.choice(nodes)}, reason="there is room"
            )
            return
    here = snapshot.workers(job.name)
    if len(here) > job.spec.fewest_workers:
        yield ScaleIn(job=job.name, replicas=(here[-1].name,), reason="it has enough")


def _any(snapshot: Snapshot, rng: Random) -> Proposal:
    """Return a proposal about a random job, more often legal than not."""
    kind = rng.choice([ScaleOut, ScaleIn, Preempt, Claim, AdmitGang])
    kind = rng.choice([kind, kind, kind, Reweight, Migrate, MigrateGang, MigrateGang, Stay, Admit])
    apt = snapshot.waiting if kind is Claim or kind is AdmitGang else snapshot.running
    every = sorted(snapshot.jobs.values(), key=lambda job: job.order)
    job = rng.choice(apt if apt and rng.random() < 0.9 else every)
    name, why = job.name, "at random"
    replica = rng.choice(job.spec.replicas)
    nodes = sorted(snapshot.nodes)
    if rng.random() < 0.1 or not nodes:
        nodes.append("node-9")
    if kind is AdmitGang:
        return AdmitGang(job=name, placement=_some(job.spec.replicas, nodes, rng), reason=why)
    if kind is ScaleOut:
        absent = [name for name in job.spec.replicas if snapshot.replicas[name].phase is Phase.ABSENT]
        chosen = absent if absent and rng.random() < 0.9 else job.spec.replicas
        return ScaleOut(job=name, placement=_some(chosen, nodes, rng), reason=why)
    if kind is ScaleIn:
        return _shrunk(job, nodes, snapshot, rng)
    if kind is Preempt:
        return Preempt(job=name, reason=why)
    if kind is Claim:
        return Claim(job=name, placement=_some(job.spec.replicas, nodes, rng), reason=why)
    if kind is Reweight:
        return Reweight(replica=replica, weight=rng.choice([0.0, 0.5, 1.0, 2.0, 2e6]), reason=why)
    if kind is MigrateGang or kind is Migrate:
        alone = Migrate(replica=replica, target=rng.choice(nodes), purpose="migrate", reason=why)
        return alone if kind is Migrate else _moved(job, nodes, snapshot, rng)
    waits = not any(snapshot.replicas[member].active for member in job.spec.replicas)
    if kind is Stay or waits:  # whole jobs only are started of what waits
        return Stay(replica=replica, purpose="migrate", reason=why)
    return Admit(replica=replica, node=rng.choice(nodes), reason=why)


def _shrunk(job: Job, nodes: list[str], snapshot: Snapshot, rng: Random) -> ScaleIn:
    """Propose that some workers of a job end, or what is none."""
    here = [worker.name for worker in snapshot.workers(job.name)[1:]]
    chosen = here if here and rng.random() < 0.9 else job.spec.replicas
    return ScaleIn(job=job.name, replicas=tuple(_some(chosen, nodes, rng)), reason="at random")


def _moved(job: Job, nodes: list[str], snapshot: Snapshot, rng: Random) -> MigrateGang:
    """Propose that all of a job goes to one node, or some of it anywhere."""
    here = [member for member in job.spec.replicas if snapshot.replicas[member].active]
    placement = dict.fromkeys(here, rng.choice(nodes)) if rng.random() < 0.5 else _some(here, nodes, rng)
    return MigrateGang(job=job.name, placement=placement, purpose="migrate", reason="at random")


def _some(replicas: tuple[str, ...] | list[str], nodes: list[str], rng: Random) -> Mapping[str, str]:
    chosen = [replica for replica in replicas if rng.random() < 0.7]
    return {replica: rng.choice(nodes) for replica in chosen}
