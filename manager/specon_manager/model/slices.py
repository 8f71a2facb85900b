"""Who takes turns on which GPUs: one answer for the policy, the plan, the orders to sidecars, and the pages.

A job takes turns where its owner asked for it and its sidecars can stop it. On a GPU that several use, all of
them must fit its memory together: who is stopped keeps what it holds there. The labels of nodes are those of
NVIDIA's GPU feature discovery.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from specon_manager.model.cluster import Job, Node, Phase, Replica
from specon_sidecar.counts import format_count

MEMORY_LABEL: Final = "nvidia.com/gpu.memory"
"""Of a node: how much memory each of its GPUs has, MiB."""
PLACES_LABEL: Final = "nvidia.com/gpu.replicas"
"""Of a node: how many pods may use each of its GPUs."""
STRATEGY_LABEL: Final = "nvidia.com/gpu.sharing-strategy"
_DOES_NOT_RUN: Final = "it does not run"
_UNHEARD: Final = "its sidecar has not said yet that it can"
NOT_YET: Final = frozenset({_DOES_NOT_RUN, _UNHEARD})
"""Reasons that pass by themselves."""
_MIB: Final = 2**20
_LONGEST_NUMBER: Final = 12


class Slices(Struct, frozen=True, kw_only=True):
    """Who shares what now."""

    why: Mapping[str, str]
    """By replica whose owner asked for turns: why it takes none; empty where it does."""
    places: Mapping[str, tuple[Replica, ...]]
    """Who takes turns on each GPU, `node/GPU`."""

    def places_of(self, replica: str) -> tuple[str, ...]:
        """Return the GPUs on which a replica takes turns; none where it does not."""
        return tuple(place for place, here in self.places.items() if any(one.name == replica for one in here))


NONE: Final = Slices(why={}, places={})


def slices(jobs: Mapping[str, Job], replicas: Mapping[str, Replica], nodes: Mapping[str, Node]) -> Slices:
    """Return who takes turns, of all whose owners asked for it."""
    asked = [job for job in jobs.values() if job.spec.share == "time" and job.ended_at is None]
    if not asked:
        return NONE
    why: dict[str, str] = {}
    for job in asked:
        members = [replicas[name] for name in job.spec.replicas if replicas[name].phase is not Phase.ABSENT]
        why |= _judge(job, members, nodes)
    # Who takes no turns at present holds its memory all the same.
    for place, here in _places([replicas[name] for name in why]).items():
        if reason := _too_many(place, here, nodes) or _over_memory(place, here, jobs, nodes):
            why |= {name: why[name] or reason for name in _with_their_jobs(here, jobs, why)}
    takes_turns = [replicas[name] for name, reason in why.items() if not reason]
    return Slices(why=why, places=_places(takes_turns))


def too_little_memory(job: Job, node: Node, there: Iterable[Replica], jobs: Mapping[str, Job]) -> str | None:
    """Return that a job that takes turns might not fit a GPU together with others that do; else None.

    `there`: what runs on the node, or comes. Which GPU a pod gets is not known before it starts: one that has
    a place left for another pod, as its device plugin divides it. Where nobody says how much memory a GPU has
    nothing stands against it, and it takes no turns there.
    """
    most, wanted = memory_of(node), job.spec.gpu_memory
    if most is None or job.spec.share != "time":
        return None
    places = _count(node, PLACES_LABEL)
    anywhere, on = 0.0, dict[str, list[float]]()
    for replica in there:
        other = jobs[replica.job].spec
        if replica.job == job.name or other.share != "time":
            continue
        devices = _devices(replica)
        if replica.phase is not Phase.RUNNING or replica.node != node.name or not devices:
            anywhere += other.gpu_memory
            continue
        for device in devices:
            on.setdefault(device, []).append(other.gpu_memory)
    open_ = [sum(sizes) for sizes in on.values() if places is None or len(sizes) < places]
    needed = wanted + anywhere + max(open_, default=0.0)
    if needed <= most:
        return None
    return (
        f"a GPU of {node.name} has {most / _MIB:.0f} MiB, and it might need {needed / _MIB:.0f} MiB there"
        f" together with others that take turns"
    )


def memory_of(node: Node) -> float | None:
    """Return how many bytes of memory each GPU of a node has; None where nobody says."""
    amount = _count(node, MEMORY_LABEL)
    return None if amount is None else amount * _MIB


def _count(node: Node, label: str) -> float | None:
    """Return the whole number that a label says; None where it says none."""
    written = node.labels.get(label, "")
    if not (written.isascii() and written.isdecimal() and len(written) <= _LONGEST_NUMBER):
        return None
    return float(written)


def _judge(job: Job, members: Sequence[Replica], nodes: Mapping[str, Node]) -> dict[str, str]:
    """Return for each replica why it takes no turns; replicas that train as one share the verdict."""
    why = {replica.name: _why_not(replica, job, nodes) for replica in members}
    first = next((name for name, reason in why.items() if reason), None)
    if job.spec.coupled and first is not None:
        return {
            name: reason or f"it trains as one with {first}: {why[first]}" for name, reason in why.items()
        }
    return why


def _why_not(replica: Replica, job: Job, nodes: Mapping[str, Node]) -> str:
    spec, share = job.spec, replica.progress.share
    node = nodes.get(replica.node or "")
    if spec.unshareable:
        return spec.unshareable
    if replica.phase is not Phase.RUNNING or node is None:
        return _DOES_NOT_RUN
    if node.labels.get(STRATEGY_LABEL) == "mps":
        return f"the GPUs of {node.name} are shared by MPS, under which no process may be stopped"
    if share is None:
        return _UNHEARD
    if share.why:
        return share.why
    if len(share.devices) > replica.requests.gpu:
        return (
            f"its sidecar names {format_count(len(share.devices), 'GPU')}, and it requests"
            f" {replica.requests.gpu:g}"
        )
    if memory_of(node) is None:
        return f"{node.name} has no label {MEMORY_LABEL}, so whether jobs fit its GPUs together is not known"
    return ""


def _places(sharing: Sequence[Replica]) -> dict[str, tuple[Replica, ...]]:
    places: dict[str, tuple[Replica, ...]] = {}
    for replica in sharing:
        if replica.phase is not Phase.RUNNING or replica.node is None:
            continue
        for device in _devices(replica):
            place = f"{replica.node}/{device}"
            places[place] = (*places.get(place, ()), replica)
    return places


def _devices(replica: Replica) -> tuple[str, ...]:
    """Return the GPUs that its sidecar names. It is not believed to have more than its pod requests."""
    devices = () if replica.progress.share is None else replica.progress.share.devices
    return devices if len(devices) <= replica.requests.gpu else ()


def _too_many(place: str, here: Sequence[Replica], nodes: Mapping[str, Node]) -> str:
    """Return that more pods name a GPU than may use it, so that one of them errs; empty where not."""
    node = nodes.get(here[0].node or "")
    most = None if node is None else _count(node, PLACES_LABEL)
    if most is None or len(here) <= most:
        return ""
    return (
        f"{format_count(len(here), 'pod says', 'pods say')} that they use {place}, which"
        f" {most:.0f} may use ({PLACES_LABEL})"
    )


def _over_memory(
    place: str, here: Sequence[Replica], jobs: Mapping[str, Job], nodes: Mapping[str, Node]
) -> str:
    """Return that those who use a GPU do not fit it together; empty where they do."""
    node = nodes.get(here[0].node or "")
    most = None if node is None else memory_of(node)
    if most is None:
        return ""  # said already
    wanted = sum(jobs[replica.job].spec.gpu_memory for replica in here)
    if wanted <= most:
        return ""
    return (
        f"{format_count(len(here), 'pod needs', 'pods need')} {wanted / _MIB:.0f} MiB of"
        f" {place} by their annotations, and it has"
        f" {most / _MIB:.0f} MiB"
    )


def _with_their_jobs(here: Sequence[Replica], jobs: Mapping[str, Job], why: Mapping[str, str]) -> set[str]:
    names = set[str]()
    for replica in here:
        job = jobs[replica.job]
        names |= {name for name in job.spec.replicas if name in why} if job.spec.coupled else {replica.name}
    return names
