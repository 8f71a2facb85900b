"""What the manager is told of nodes: the room that others leave free, the use, and who may run there. Pure.

The plan counts the replicas that it knows, so their requests are not subtracted here; neither is the
placeholder of a move, for the plan counts the move.
"""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from specon_manager.backends.kube.objects.pod import NodeInfo, PodInfo
from specon_manager.model.events import NodeGone, NodeObserved
from specon_manager.model.resources import NOTHING, Resources

_NOTICEABLE: Final = 0.05
"""Of the capacity: a smaller change of the usage is not told."""


class NodeBook:
    """Keeps account of nodes and of the requests on them; tells what changed noticeably."""

    def __init__(self) -> None:
        self._nodes: dict[str, NodeInfo] = {}
        self._pods: dict[str, dict[str, tuple[Resources, bool]]] = {}
        """By node and pod UID: its requests, and whether the plan counts it."""
        self._measured: dict[str, Resources] = {}
        self._told: dict[str, NodeObserved] = {}
        self._dirty: set[str] = set()

    def note_known(self, names: Iterable[str]) -> None:
        """Take note of nodes that an earlier manager knew: they are told to be gone if they are."""
        for name in names:
            self._told.setdefault(name, NodeObserved(node=name, capacity=NOTHING, usage=NOTHING))
            self._dirty.add(name)

    def node(self, name: str) -> NodeInfo | None:
        """Return the node, or None where there is none of that name."""
        return self._nodes.get(name)

    def node_changed(self, before: NodeInfo | None, after: NodeInfo | None) -> None:
        """Take note of a node that came, changed or went."""
        if after is not None:
            self._nodes[after.name] = after
            self._dirty.add(after.name)
        elif before is not None:
            self._nodes.pop(before.name, None)
            self._dirty.add(before.name)

    def pod_changed(self, before: PodInfo | None, after: PodInfo | None) -> None:
        """Take note of a pod that came, changed or went."""
        old = None if before is None or before.ended else before.node
        new = None if after is None or after.ended else after.node
        if before is not None and old and (old != new or after is None or after.uid != before.uid):
            self._pods.get(old, {}).pop(before.uid, None)
            self._dirty.add(old)
        if after is not None and new:
            self._count(after, planned=after.detail is not None and _is_planned(after))

    def count_as_foreign(self, pod: PodInfo) -> None:
        """Count a pod as other people's: it has a sidecar, but no replica of the plan is it."""
        if pod.node and not pod.ended:
            self._count(pod, planned=False)

    def note_usage(self, usage: Mapping[str, Resources]) -> None:
        """Take note of the real use; nodes that are not in it go by the requests on them."""
        self._dirty |= self._measured.keys() | usage.keys()
        self._measured = dict(usage)

    def events(self) -> list[NodeObserved | NodeGone]:
        """Return what changed noticeably since the last call, by node name."""
        events: list[NodeObserved | NodeGone] = []
        for name in sorted(self._dirty):
            node = self._nodes.get(name)
            if node is None:
                if self._told.pop(name, None) is not None:
                    events.append(NodeGone(node=name))
                continue
            seen, told = self._observe(node), self._told.get(name)
            if told is None or _noticeable(told, seen):
                self._told[name] = seen
                events.append(seen)
        self._dirty.clear()
        return events

    def _count(self, pod: PodInfo, *, planned: bool) -> None:
        on_node = self._pods.setdefault(pod.node, {})
        counted = (pod.requests, planned)
        if on_node.get(pod.uid) != counted:
            on_node[pod.uid] = counted
            self._dirty.add(pod.node)

    def _observe(self, node: NodeInfo) -> NodeObserved:
        pods = self._pods.get(node.name, {}).values()
        foreign = _total(requests for requests, planned in pods if not planned)
        usage = self._measured.get(node.name)
        if usage is None:
            usage = _total(requests for requests, _ in pods)
        room = node.allocatable
        return NodeObserved(
            node=node.name,
            capacity=Resources(
                cpu=_measure_rest(room.cpu, foreign.cpu),
                memory=_measure_rest(room.memory, foreign.memory),
                gpu=_measure_rest(room.gpu, foreign.gpu),
            ),
            usage=usage,
            ready=node.ready,
            labels=node.labels,
            taints=node.taints,
            warnings=node.warnings,
            leaves_at=node.leaves_at,
        )


def _is_planned(pod: PodInfo) -> bool:
    """Whether the plan counts the pod: it holds room for a move, or is a replica that was told to run.

    One that is bound and not running yet is counted as other people's until then: its room is taken already.
    """
    assert pod.detail is not None
    return bool(pod.detail.placeholder) or (pod.detail.identity is not None and pod.detail.trains)


def _noticeable(told: NodeObserved, seen: NodeObserved) -> bool:
    if msgspec.structs.replace(seen, usage=told.usage) != told:
        return True
    return any(
        abs(new - old) > _NOTICEABLE * room
        for new, old, room in (
            (seen.usage.cpu, told.usage.cpu, seen.capacity.cpu),
            (seen.usage.memory, told.usage.memory, seen.capacity.memory),
            (seen.usage.gpu, told.usage.gpu, seen.capacity.gpu),
        )
    )


def _total(amounts: Iterable[Resources]) -> Resources:
    cpu = memory = gpu = 0.0
    for each in amounts:
        cpu, memory, gpu = cpu + each.cpu, memory + each.memory, gpu + each.gpu
    # Sums of tenths must not differ by the order in which they were added.
    return Resources(cpu=round(cpu, 6), memory=memory, gpu=gpu)


def _measure_rest(room: float, taken: float) -> float:
    return max(0.0, round(room - taken, 6))
