"""Whose end several Workloads wait for that would preempt in the same quota. Pure.

Kueue looks at them by priority and then by age. The first takes the first victims, the second the next ones:
each waits for those of all before it as well, for Kueue may come to it first. Those far behind wait for their
turn.
"""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from specon_manager.backends.kube.kueue.facts import ClusterQueue, Workload
from specon_manager.backends.kube.kueue.victims import likely_victims, share_of

AT_ONCE: Final = 16
"""So many of one line ask victims at the same time."""


def victims_by_waiting(
    waiting: Iterable[tuple[Workload, str]],
    workloads: Iterable[Workload],
    queues: Mapping[str, ClusterQueue],
    now: float,
) -> dict[str, tuple[Workload, ...]]:
    """Return the victims that each waits for, by UID; `waiting` has each with its ClusterQueue.

    Those whose turn has not come are not in it.
    """
    lines: dict[str, list[tuple[Workload, str]]] = {}
    for each, name in waiting:
        queue = queues.get(name)
        cohort = queue.cohort if queue is not None else ""
        lines.setdefault(_line_of(name, cohort), []).append((each, name))
    running: dict[str, list[Workload]] = {line: [] for line in lines}
    for each in workloads:
        queue = queues.get(each.cluster_queue)
        if queue is not None and each.reserved_at is not None:
            line_of_it = _line_of(queue.name, queue.cohort)
            if line_of_it in running:
                running[line_of_it].append(each)
    found: dict[str, tuple[Workload, ...]] = {}
    for key, line in lines.items():
        line.sort(key=lambda one: (-one[0].priority, one[0].created_at, one[0].uid))
        left, before = running[key], dict[str, Workload]()
        for each, name in line[:AT_ONCE]:
            victims = likely_victims(each, name, left, queues, now)
            before |= {victim.uid: victim for victim in victims}
            found[each.uid] = tuple(before.values())
            gone = {victim.uid for victim in victims}
            left = [one for one in left if one.uid not in gone]
            if name in queues:
                usage = share_of(each, queues[name])
                left.append(msgspec.structs.replace(each, cluster_queue=name, usage=usage, reserved_at=now))
    return found


def _line_of(queue: str, cohort: str) -> str:
    return f"cohort {cohort}" if cohort else f"queue {queue}"
