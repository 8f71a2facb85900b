"""Who waits for the quota that a ClusterQueue or cohort shares, and how much of it is free. Pure.

A Workload that fits into the free quota of its own ClusterQueue waits for nothing: Kueue will admit it.
Any other one waits for what others have, however much it asks for. Cohorts have no parents here, and neither
borrowing nor lending limits are looked at: who would have to borrow counts as waiting.

A slice that is to replace a smaller one of its job asks for the difference, in the flavors that the job has.
Of two that are both admitted for a moment the replaced one has nothing more.

Source: Kueue at ff69552e79 (August 2026), `Assignment.append` and `findFlavorForPodSets` of
`pkg/scheduler/flavorassigner/flavorassigner.go`.
"""

from collections.abc import Collection, Mapping
from typing import Final

from msgspec import Struct

from specon_manager.backends.kube.kueue.facts import ClusterQueue, Share, Used, Workload

SLACK: Final = 1e-6
"""So much more than there is still fits: quotas and usages are rounded."""
AmountLeft = dict[Share, float]


class Cohort(Struct, frozen=True):
    """Those who share one quota; a ClusterQueue in none is one by itself."""

    wanted: frozenset[str] = frozenset()
    """The resources for which a Workload waits."""
    exceeded: frozenset[Share] = frozenset()
    """Where more is used than there is."""
    free: Mapping[str, Mapping[Share, float]] = {}
    """By ClusterQueue: what of its own quota neither it nor its cohort uses, nor is about to."""


def line_of(queue: ClusterQueue) -> str:
    """Return the name of the line that a ClusterQueue is in."""
    return f"cohort {queue.cohort}" if queue.cohort else f"ClusterQueue {queue.name}"


def lines(
    workloads: Collection[Workload],
    queues: Mapping[str, ClusterQueue],
    queue_of: Mapping[tuple[str, str], str],
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
    slices = {each.reference: each for each in workloads if each.elastic and not each.finished}
    replaced = {each.replaces for each in slices.values() if not each.is_pending}
    for each in workloads:
        name = each.cluster_queue or queue_of.get((each.namespace, each.local_queue), "")
        found = queues.get(name)
        if found is None or each.finished or (each.elastic and each.reference in replaced):
            continue
        if each.is_pending:
            waiting.append((each, found))
        else:
            _take(own[name], each.usage)
            _take(shared[line_of(found)], each.usage)
    exceeded = {
        name: frozenset(share for share, amount in left.items() if amount < -SLACK)
        for name, left in shared.items()
    }
    wanted: dict[str, set[str]] = {name: set() for name in shared}
    for each, queue in sorted(waiting, key=lambda one: (-one[0].priority, one[0].created_at, one[0].uid)):
        line = line_of(queue)
        has = slices[each.replaces].usage if each.replaces in slices else {}
        taken = _fitting(each.requests, queue, own[queue.name], shared[line], has)
        if taken is None:
            wanted[line].update(each.requests)
        else:
            _take(own[queue.name], taken)
            _take(shared[line], taken)
    free: dict[str, dict[str, dict[Share, float]]] = {name: {} for name in shared}
    for queue in queues.values():
        line = line_of(queue)
        free[line][queue.name] = {
            share: max(0.0, min(amount, shared[line].get(share, 0.0)))
            for share, amount in own[queue.name].items()
        }
    return {name: Cohort(frozenset(wanted[name]), exceeded[name], free[name]) for name in shared}


def _fitting(
    requests: Mapping[str, float], queue: ClusterQueue, own: AmountLeft, shared: AmountLeft, has: Used
) -> AmountLeft | None:
    """Return the free quota that a Workload would take, by the first flavors that fit; None: none fit.

    `has` is what it would give back, being a slice: it gets the same flavors again.
    """
    taken: AmountLeft = {}
    kept = {resource: flavor for flavor, resource in has}
    for covered, flavors in queue.groups:
        asked = {resource: amount for resource, amount in requests.items() if resource in covered}
        for flavor in flavors if asked else ():
            if any(kept.get(resource, flavor) != flavor for resource in asked):
                continue
            shares = {
                (flavor, resource): amount - has.get((flavor, resource), 0.0)
                for resource, amount in asked.items()
            }
            if all(
                amount <= min(own.get(share, 0.0), shared.get(share, 0.0)) + SLACK
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
