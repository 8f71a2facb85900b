"""Room on two kinds of nodes: what replicas reserve, and slots for workers that share processors."""

from collections.abc import Mapping

from specon_manager.model.cluster import JobSpec, role_of
from specon_manager.model.resources import NOTHING, total
from specon_manager.model.snapshot import Snapshot
from specon_manager.policies.gang_placement import place_on_one_node, spread
from specon_manager.policies.idle import Idle

_ROUNDING = 1e-9


class Room:
    """The idle room of each ready node, claims not counted, and how many more workers may share it.

    A worker that requests nothing takes a slot; a gang of more of them than there are slots puts several
    into each. Everything else takes what it requests.
    """

    def __init__(self, snapshot: Snapshot, per_node: int) -> None:
        self._idle = Idle(snapshot)
        for job in snapshot.claims:
            if job in snapshot.jobs:
                self._idle.keep(snapshot.jobs[job].spec, {})
        self._per_node = per_node
        nodes = snapshot.ready_nodes
        self._whole = total([node.capacity for node in nodes])
        self._slots = {node.name: float(per_node) for node in nodes}
        for node in nodes:
            for replica in snapshot.on_node[node.name]:
                spec = snapshot.jobs[replica.job].spec
                self._slots[node.name] -= self._slot(spec, replica.name)

    def copy(self) -> "Room":
        """Return a copy to try something on."""
        twin = object.__new__(Room)
        twin._idle, twin._slots = self._idle.copy(), dict(self._slots)
        twin._per_node, twin._whole = self._per_node, self._whole
        return twin

    def place(self, spec: JobSpec, workers: int) -> dict[str, str] | None:
        """Place all parameter servers and so many workers: on one node, or on the most idle ones."""
        if spec.requests == NOTHING:
            return self._share(spec, workers)
        return place_on_one_node(spec, self._idle, most=workers, least=workers) or spread(
            spec, self._idle, most=workers, least=workers
        )

    def take(self, spec: JobSpec, placement: Mapping[str, str]) -> None:
        """Count these replicas as placed."""
        for replica, node in placement.items():
            self._idle.take(node, spec.requests_of(replica))
            self._slots[node] -= self._slot(spec, replica)

    def give(self, spec: JobSpec, placement: Mapping[str, str]) -> None:
        """Count these replicas as gone."""
        for replica, node in placement.items():
            if node in self._slots:
                self._idle.give(node, spec.requests_of(replica))
                self._slots[node] += self._slot(spec, replica)

    def share(self, spec: JobSpec) -> float:
        """Return the part of the cluster, of the scarcest kind, that the job takes as its owner wants it."""
        workers, servers = spec.wanted_workers, len(spec.ps)
        each, server, whole = spec.requests, spec.ps_requests or spec.requests, self._whole
        parts = [
            (workers * each.cpu + servers * server.cpu, whole.cpu),
            (workers * each.memory + servers * server.memory, whole.memory),
            (workers * each.gpu + servers * server.gpu, whole.gpu),
            (workers * self._slot(spec, spec.worker_names[0]) if workers else 0.0, self._all_slots),
        ]
        return max((part / most for part, most in parts if most > 0), default=0.0) or 1.0

    @property
    def _all_slots(self) -> int:
        return self._per_node * len(self._slots)

    def _slot(self, spec: JobSpec, replica: str) -> float:
        """Return the part of a slot that a replica takes."""
        if spec.requests != NOTHING or role_of(replica) == "ps" or not self._all_slots:
            return 0.0
        return 1.0 / -(-spec.wanted_workers // self._all_slots)

    def _share(self, spec: JobSpec, workers: int) -> dict[str, str] | None:
        slots, placement = dict(self._slots), dict[str, str]()
        for name in spec.worker_names[:workers]:
            need = self._slot(spec, name)
            node = max(slots, key=lambda node: slots[node], default=None)  # of equals the first by name
            if node is None or slots[node] < need - _ROUNDING:
                return None
            slots[node] -= need
            placement[name] = node
        trial, near = self._idle.copy(), dict.fromkeys((*placement.values(), *self._slots))
        for name in spec.ps:
            asked = spec.requests_of(name)
            node = next((node for node in near if trial.fits(node, asked)), None)
            if node is None:
                return None
            trial.take(node, asked)
            placement[name] = node
        return placement
