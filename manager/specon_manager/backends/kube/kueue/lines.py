"""Who waits for the quota that a ClusterQueue or cohort shares, and whether more is used than there is. Pure.

A Workload that fits into the free quota of its own ClusterQueue waits for nothing: Kueue will admit it.
Any other one waits for what others have, however much it asks for. Cohorts have no parents here, and neither
borrowing nor lending limits are looked at: who would have to borrow counts as waiting.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct

from specon_manager.backends.kube.kueue.facts import ClusterQueue, Share, Workload

_SLACK: Final = 1e-6
AmountLeft = dict[Share, float]


class Cohort(Struct, frozen=True):
    """Those who share one quota; a ClusterQueue in none is one by itself."""

    wanted: frozenset[str] = frozenset()
    """The resources for which a Workload waits."""
    exceeded: frozenset[Share] = frozenset()
    """Where more is used than there is."""


def line_of(queue: ClusterQueue) -> str:
    """Return the name of the line that a ClusterQueue is in."""
    return f"cohort {queue.cohort}" if queue.cohort else f"ClusterQueue {queue.name}"


def lines(
    workloads: Iterable[Workload], queues: Mapping[str, ClusterQueue], queue_of: Mapping[tuple[str, str], str]
) -> dict[str, Cohort]:
    """Return all lines by their names; `queue_of` has the ClusterQueue of each LocalQueue."""
    own: dict[str, AmountLeft] = {}
    shared: dict[str, AmountLeft] = {}
    for queue in queues.values():
        own[queue.name] = {share: quota.nominal for share, quota in queue.quotas.items()}
        _take(
            shared.setdefault(line_of(queue), {}), {share: -left for share, left in own[queue.name].items()}
        )
    waiting: list[tuple[Workload, ClusterQueue]] = []
    for each in workloads:
        name = each.cluster_queue or queue_of.get((each.namespace, each.local_queue), "")
        found = queues.get(name)
        if found is None or each.finished:
            continue
        if each.is_pending:
            waiting.append((each, found))
        else:
            _take(own[name], each.usage)
            _take(shared[line_of(found)], each.usage)
    exceeded = {
        name: frozenset(share for share, amount in left.items() if amount < -_SLACK)
        for name, left in shared.items()
    }
    wanted: dict[str, set[str]] = {name: set() for name in shared}
    for each, queue in sorted(waiting, key=lambda one: (-one[0].priority, one[0].created_at, one[0].uid)):
        line = line_of(queue)
        taken = _fitting(each.requests, queue, own[queue.name], shared[line])
        if taken is None:
            wanted[line].update(each.requests)
        else:
            _take(own[queue.name], taken)
            _take(shared[line], taken)
    return {name: Cohort(frozenset(wanted[name]), exceeded[name]) for name in shared}


def _fitting(
    requests: Mapping[str, float], queue: ClusterQueue, own: AmountLeft, shared: AmountLeft
) -> AmountLeft | None:
    """Return the free quota that a Workload would take, by the first flavors that fit; None: none fit."""
    taken: AmountLeft = {}
    for covered, flavors in queue.groups:
        asked = {resource: amount for resource, amount in requests.items() if resource in covered}
        for flavor in flavors if asked else ():
            shares = {(flavor, resource): amount for resource, amount in asked.items()}
            if all(
                amount <= min(own.get(share, 0.0), shared.get(share, 0.0)) + _SLACK
                for share, amount in shares.items()
            ):
                taken |= shares
                break
        else:
            if asked:
                return None
    return taken


def _take(left: AmountLeft, amounts: Mapping[Share, float]) -> None:
    for share, amount in amounts.items():
        left[share] = left.get(share, 0.0) - amount
