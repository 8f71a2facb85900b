"""The default scheduler of Kubernetes, as the papers compare with it: one pod at a time, gangs unknown.

The policy filters each pod by its requests and scores it by least allocation (`NodeResourcesFit`, strategy
`LeastAllocated`, in the Kubernetes documentation). If some pods of a gang have no room, the others keep
theirs; `gang_timeout` ends such a deadlock as the baseline of KOD2 (section 5) does. See
`docs/results/kubeflow.md`.
"""

import zlib
from collections.abc import Callable, Iterator
from typing import Annotated, Literal

from msgspec import Meta, Struct

from specon_manager.model.actions import Admit, Preempt, Proposal
from specon_manager.model.cluster import Job, Phase, Replica
from specon_manager.model.resources import Resources
from specon_manager.model.settings import PauseSeconds
from specon_manager.model.snapshot import Snapshot
from specon_manager.policies.idle import Idle
from specon_manager.policies.placement import batches
from specon_manager.policies.shared_nodes import Crowd
from specon_sidecar.counts import format_count

Score = Callable[[Replica, str], tuple[float, int]]
"""Of a replica on a node with room for it; the lowest is taken, of equals the first node by name."""


class DefaultSchedulerSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How pods find their nodes, and what becomes of gangs that do not get together."""

    placement: Literal["spread", "round-robin", "hashed"] = "spread"
    """`spread`: where the most is free; `round-robin`: the nodes in turn; `hashed`: as if at random."""
    seed: Annotated[int, Meta(ge=0, le=2**63 - 1)] = 0
    """What `hashed` depends on beside the names."""
    order: Literal["fifo", "hashed"] = "fifo"
    """`fifo`: pods by job; `hashed`: at each attempt as if at random, since each has its own back-off."""
    blocking: bool = False
    """Whether a pod that has no room holds back those behind it."""
    gang_timeout: PauseSeconds = 0.0
    """After how many seconds in part a gang is put back as a whole; 0: never."""


def propose(snapshot: Snapshot, settings: DefaultSchedulerSettings) -> Iterator[Proposal]:
    """Bind each pending pod in turn, then put back a gang that holds room in vain."""
    idle, crowd = Idle(snapshot), Crowd(snapshot)
    score, how = _scoring(snapshot, settings, idle, crowd)
    bound: set[str] = set()
    too_much = list[Resources]()  # a long queue is not tried on each node; the least that had no room
    for together in batches(_queue(snapshot, settings), snapshot):
        found: dict[str, str] = {}
        trial = idle.copy() if len(together) > 1 else idle
        for replica in together:
            asked, own = replica.requests, replica.job in snapshot.claims
            node = None
            if own or not any(amount.fits(asked) for amount in too_much):
                node = min(
                    trial.fitting(asked, replica.job), key=lambda name: score(replica, name), default=None
                )
                if node is None and not own and len(together) == 1:
                    too_much = [amount for amount in too_much if not asked.fits(amount)] + [asked]
            if node is None:
                break
            found[replica.name] = node
            if trial is not idle:
                trial.take(node, asked)
        else:
            for replica in together:
                node = found[replica.name]
                why = f"{how} {node}, {format_count(crowd.on(node), 'replica')} there"
                yield Admit(replica=replica.name, node=node, reason=why)
                idle.take(node, replica.requests)
                crowd.add({replica.name: node})
                bound.add(replica.job)
            continue
        if settings.blocking:
            break
    if settings.gang_timeout and all(replica.leaving is None for replica in snapshot.replicas.values()):
        yield from _put_back(snapshot, settings.gang_timeout, bound)


def _queue(snapshot: Snapshot, settings: DefaultSchedulerSettings) -> list[Replica]:
    """Return the pods that may start, by job, servers before workers, then by index; or in a drawn order."""
    if settings.order == "hashed":
        return sorted(
            snapshot.unplaced,
            key=lambda pod: (zlib.crc32(f"{settings.seed} {pod.name} {snapshot.now}".encode()), pod.name),
        )
    return sorted(
        snapshot.unplaced,
        key=lambda pod: (snapshot.jobs[pod.job].order, pod.role != "ps", pod.index, pod.name),
    )


def _scoring(
    snapshot: Snapshot, settings: DefaultSchedulerSettings, idle: Idle, crowd: Crowd
) -> tuple[Score, str]:
    """Return the order of preference of the nodes, and its words."""
    names = idle.nodes
    rank = {name: index for index, name in enumerate(names)}
    if settings.placement == "round-robin":

        def in_turn(pod: Replica, node: str) -> tuple[float, int]:
            first = snapshot.jobs[pod.job].order + pod.index + (pod.role == "ps")
            return (rank[node] - first) % len(names), 0

        return in_turn, "next in turn with room is"
    if settings.placement == "hashed":

        def drawn(pod: Replica, node: str) -> tuple[float, int]:
            return zlib.crc32(f"{settings.seed} {pod.name} {pod.starts} {node}".encode()), rank[node]

        return drawn, f"drawn with seed {settings.seed}:"

    def least_allocated(pod: Replica, node: str) -> tuple[float, int]:
        whole, free = snapshot.nodes[node].capacity, idle.open(node, pod.job)
        shares = [
            (room - wanted) / most
            for wanted, room, most in (
                (pod.requests.cpu, free.cpu, whole.cpu),
                (pod.requests.memory, free.memory, whole.memory),
                (pod.requests.gpu, free.gpu, whole.gpu),
            )
            if wanted > 0 and most > 0
        ]
        # Rounded, for the sum of what a node holds depends in its last digit on who came first.
        return -round(sum(shares) / max(len(shares), 1), 9), crowd.on(node)

    return least_allocated, "least allocated is"


def _put_back(snapshot: Snapshot, timeout: float, bound: set[str]) -> Iterator[Preempt]:
    """End the latest gang among those that are incomplete for too long: the others may fit then.

    Only one ends at a time: the next one ends only if this one's room did not help.
    """
    for job in reversed(snapshot.running):
        missing = [pod for pod in snapshot.members[job.name] if pod.phase is Phase.PENDING]
        if not missing or job.name in bound:
            continue
        since = _in_part_since(job, missing)
        if snapshot.now - since >= timeout:
            why = f"{len(missing)} of its pods had no room for {snapshot.now - since:.0f} s"
            yield Preempt(job=job.name, reason=f"{why}, the others held theirs in vain")
            return


def _in_part_since(job: Job, missing: list[Replica]) -> float:
    """Return since when pods of a job hold room without the others, at the latest, in seconds."""
    pauses = [pod.not_before for pod in missing]
    return max(job.queued_at, job.queued_at if job.admitted_at is None else job.admitted_at, *pauses)
