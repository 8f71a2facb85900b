"""Placing a gang, parameter servers and workers together: on one node, on few, or wherever there is room.

The rules that KOD2 (section 4.1), DRAGON (its placement plan) and the Kubeflow dynamic scheduler (its listing
"Gang Scheduling") are put together from. A placement is node by replica; workers are taken by index, so
worker 0 is in every one.
"""

from collections.abc import Iterable, Mapping
from itertools import chain

from specon_manager.model.cluster import JobSpec
from specon_manager.model.resources import NOTHING, Resources, total
from specon_manager.model.snapshot import Snapshot


class Idle:
    """What is idle on each ready node: a copy that one call of a policy takes from and gives back to.

    What other jobs have a claim to is not idle for a job.
    """

    def __init__(self, snapshot: Snapshot, *, emptied: bool = False) -> None:
        """Take the room as it is, or as it would be with nothing on the nodes and no claims."""
        nodes = snapshot.ready_nodes
        self._room = {node.name: node.capacity if emptied else snapshot.room(node.name) for node in nodes}
        # Taken is summed up apart, as the planner does: differences of fractions would round otherwise.
        self._taken = dict.fromkeys(self._room, NOTHING)
        self._claims: dict[str, dict[str, Resources]] = {}
        for job, claim in () if emptied else sorted(snapshot.claims.items()):
            if job in snapshot.jobs:
                self.keep(snapshot.jobs[job].spec, dict(claim.placement))
        self._largest = largest(node.capacity for node in nodes)
        self._replicas = {node.name: 0 if emptied else len(snapshot.on_node[node.name]) for node in nodes}

    @property
    def nodes(self) -> tuple[str, ...]:
        """The ready nodes, by name."""
        return tuple(self._room)

    def copy(self) -> "Idle":
        """Return a copy to try something on."""
        twin = object.__new__(Idle)
        twin._room, twin._taken = dict(self._room), dict(self._taken)
        twin._claims, twin._largest = dict(self._claims), self._largest
        twin._replicas = dict(self._replicas)
        return twin

    def open(self, node: str, job: str | None = None) -> Resources:
        """Return the room on a node that no job but this one has a claim to."""
        room, gone = self._room[node], self._taken[node]
        if self._claims:
            claims = [claim[node] for owner, claim in self._claims.items() if owner != job and node in claim]
            gone = total([gone, *claims])
        return Resources(
            cpu=max(0.0, room.cpu - gone.cpu),
            memory=max(0.0, room.memory - gone.memory),
            gpu=max(0.0, room.gpu - gone.gpu),
        )

    def fits(self, node: str, requests: Resources, job: str | None = None) -> bool:
        """Whether the node has room for this much that is open to the job."""
        claims = [claim[node] for owner, claim in self._claims.items() if owner != job and node in claim]
        if not claims:
            return (self._taken[node] + requests).fits(self._room[node])
        return requests.fits(self.open(node, job))

    def fitting(self, requests: Resources, job: str | None = None) -> list[str]:
        """Return the nodes for which `fits` holds, by name."""
        cpu, memory, gpu, found = requests.cpu, requests.memory, requests.gpu, list[str]()
        for (node, room), taken in zip(self._room.items(), self._taken.values(), strict=True):
            # `fits` without claims, written out: a long queue on a large cluster asks a million times.
            if (
                taken.cpu + cpu <= room.cpu
                and taken.gpu + gpu <= room.gpu
                and taken.memory + memory <= room.memory
            ):
                found.append(node)
        return [node for node in found if self.fits(node, requests, job)] if self._claims else found

    def room_for(self, node: str, requests: Resources, most: int, job: str | None = None) -> int:
        """Return for how many of these, at most `most`, the node has room that is open to the job."""
        number, amount = 0, NOTHING
        while number < most and self.fits(node, amount := amount + requests, job):
            number += 1
        return number

    def take(self, node: str, requests: Resources) -> None:
        """Count one more replica on a node, and this much of it as used."""
        self._taken[node] += requests
        self._replicas[node] += 1

    def give(self, node: str, requests: Resources) -> None:
        """Count this much more of a node as idle, as it is when somebody has left; no other node counts."""
        if node in self._room:
            self._room[node] += requests

    def start(self, spec: JobSpec, placement: Mapping[str, str]) -> None:
        """Count these replicas as placed; a claim of their job has served its purpose."""
        for replica, node in placement.items():
            self.take(node, spec.requests_of(replica))
        self._claims.pop(spec.name, None)

    def keep(self, spec: JobSpec, placement: Mapping[str, str]) -> None:
        """Count this room as kept for a waiting job, beside what it has a claim to already.

        For that lasts through the call: the planner judges claims after all that starts something. An empty
        placement gives up what it has.
        """
        before = self._claims.pop(spec.name, {})
        claim = dict(before) if placement else {}
        for replica, node in placement.items():
            if node in self._room:
                claim[node] = claim.get(node, NOTHING) + spec.requests_of(replica)
        if claim:
            self._claims[spec.name] = claim

    def by_most_idle(self, spec: JobSpec, among: Iterable[str] | None = None) -> list[str]:
        """Return the nodes, those with the most idle of what the job asks for first, then by name.

        `among` are the ones to order, by name; None: all.
        Amounts of different kinds are added as shares of the largest node. Where the job asks for nothing, as
        one that shares the processors, the nodes with the fewest replicas come first.
        """
        asked = total([spec.requests, spec.requests if spec.ps_requests is None else spec.ps_requests])
        names = self._room if among is None else among
        if asked == NOTHING:
            return sorted(names, key=self._replicas.__getitem__)

        def share(node: str) -> float:
            room, whole = self.open(node, spec.name), self._largest
            return sum(
                has / most
                for has, most, wanted in (
                    (room.cpu, whole.cpu, asked.cpu),
                    (room.memory, whole.memory, asked.memory),
                    (room.gpu, whole.gpu, asked.gpu),
                )
                if most > 0 and wanted > 0
            )

        return sorted(names, key=share, reverse=True)  # stable, also reversed: of equals the first by name


def largest(amounts: Iterable[Resources]) -> Resources:
    """Return the largest amount of each kind, nothing where there are none."""
    most = NOTHING
    for amount in amounts:
        most = Resources(
            cpu=max(most.cpu, amount.cpu),
            memory=max(most.memory, amount.memory),
            gpu=max(most.gpu, amount.gpu),
        )
    return most


def needed(spec: JobSpec, workers: int) -> Resources:
    """Return what all parameter servers and so many workers request together."""
    names = chain(spec.ps, spec.worker_names[:workers])
    return total([spec.requests_of(name) for name in names])


def one_node_holds(spec: JobSpec, idle: Idle, *, workers: int) -> bool:
    """Whether all parameter servers and so many workers have room on one node."""
    return bool(idle.fitting(_amounts(spec, workers)[-1], spec.name))


def on_one_node(
    spec: JobSpec, idle: Idle, *, most: int, least: int, order: Iterable[str] | None = None
) -> dict[str, str] | None:
    """Place all parameter servers and `most` workers on one node, or as many as it holds, at least `least`.

    The node that holds the most workers is taken, of equals the first of `order` (None: by most idle).
    None: no node holds `least`.
    """
    amounts = _amounts(spec, most)
    if least > most:
        return None
    # Nodes that do not hold `least` need not be ordered: on a full cluster those are all.
    holding = idle.fitting(amounts[max(0, least)], spec.name)
    if order is None:
        nodes = idle.by_most_idle(spec, holding)
    else:
        suitable = set(holding)
        nodes = [node for node in order if node in suitable]
    best, best_node = least - 1, ""
    for node in nodes:
        if best >= most:
            break
        held = _held(amounts, spec, idle, node)
        if held > best:
            best, best_node = held, node
    if not best_node:
        return None
    return dict.fromkeys((*spec.ps, *spec.worker_names[:best]), best_node)


def spread(
    spec: JobSpec,
    idle: Idle,
    *,
    most: int,
    least: int,
    order: Iterable[str] | None = None,
    apart: bool = True,
) -> dict[str, str] | None:
    """Fill node after node with the parameter servers, then with `least` to `most` workers; None: no room.

    It begins with the node that holds the most workers beside the parameter servers, for what they exchange
    with workers elsewhere goes over the network; then it goes by `order` (None: by most idle). Where no node
    holds them with a worker, or that leaves too little for the workers, the gang has no room unless its
    parameter servers may be `apart` from all workers.
    """
    fitting = idle.fitting(spec.requests, spec.name)
    if not fitting and least > 0:
        return None
    # A node that has room for neither a worker nor a parameter server need not be ordered.
    useful = {*fitting, *(idle.fitting(spec.ps_requests, spec.name) if spec.ps_requests is not None else ())}
    among = [node for node in (idle.nodes if order is None else order) if node in useful or least <= 0]
    if not among:
        return None
    nodes = idle.by_most_idle(spec, among) if order is None else among
    amounts = _amounts(spec, max(1, most))
    home = max(nodes, key=lambda node: _held(amounts[: most + 1], spec, idle, node))  # of equals the first
    if not apart and spec.ps and _held(amounts[:2], spec, idle, home) < 1:
        return None
    placement = _servers_first(spec, idle, _first([home], nodes), most, least)
    return _workers_first(spec, idle, nodes, most, least) if placement is None and apart else placement


def _servers_first(
    spec: JobSpec, idle: Idle, nodes: list[str], most: int, least: int
) -> dict[str, str] | None:
    trial = idle.copy()
    servers = _fill(spec, spec.ps, trial, nodes)
    workers = _fill(spec, spec.worker_names[:most], trial, _first(servers.values(), nodes))
    if len(servers) < len(spec.ps) or len(workers) < least:
        return None
    return servers | workers


def _workers_first(
    spec: JobSpec, idle: Idle, nodes: list[str], most: int, least: int
) -> dict[str, str] | None:
    trial = idle.copy()
    workers = _fill(spec, spec.worker_names[:least], trial, nodes)
    servers = _fill(spec, spec.ps, trial, _first(workers.values(), nodes))
    if len(servers) < len(spec.ps) or len(workers) < least:
        return None
    return servers | workers | _fill(spec, spec.worker_names[least:most], trial, nodes)


def _first(these: Iterable[str], nodes: list[str]) -> list[str]:
    """Return the nodes, these first, otherwise in their order."""
    chosen = set(these)
    return sorted(nodes, key=lambda node: node not in chosen)


def first_fit(
    spec: JobSpec, idle: Idle, *, workers: int, order: Iterable[str] | None = None
) -> dict[str, str] | None:
    """Place each replica, parameter servers first, on the first node that has room.

    `order` is by name where it is None. None: one replica has nowhere to go.
    """
    nodes = idle.nodes if order is None else tuple(order)
    trial, placement = idle.copy(), dict[str, str]()
    for replica in (*spec.ps, *spec.worker_names[:workers]):
        requests = spec.requests_of(replica)
        node = next((node for node in nodes if trial.fits(node, requests, spec.name)), None)
        if node is None:
            return None
        trial.take(node, requests)
        placement[replica] = node
    return placement


def on_fewest_nodes(
    spec: JobSpec, idle: Idle, *, most: int, least: int, apart: bool = False
) -> dict[str, str] | None:
    """Place a gang on one node if one holds it with `least` workers or more, else on the most idle ones.

    KOD2, section 4.1. None: not even `least` workers and all parameter servers have room, or only where the
    parameter servers are `apart` from all workers and may not be.
    """
    return on_one_node(spec, idle, most=most, least=least) or spread(
        spec, idle, most=most, least=least, apart=apart
    )


def _fill(spec: JobSpec, replicas: Iterable[str], idle: Idle, nodes: Iterable[str]) -> dict[str, str]:
    """Take room for the replicas, as many on each node as it holds, and return where they went."""
    left, placement = list(replicas), dict[str, str]()
    for node in nodes:
        while left and idle.fits(node, requests := spec.requests_of(left[0]), spec.name):
            idle.take(node, requests)
            placement[left.pop(0)] = node
    return placement


def _amounts(spec: JobSpec, most: int) -> list[Resources]:
    """Return what all parameter servers and 0, 1, ... `most` workers request together."""
    amounts = [needed(spec, 0)]
    for _ in range(most):
        amounts.append(amounts[-1] + spec.requests)
    return amounts


def _held(amounts: Iterable[Resources], spec: JobSpec, idle: Idle, node: str) -> int:
    """Return how many workers a node holds beside all parameter servers, -1 where it does not hold those."""
    number = -1
    for amount in amounts:
        if not idle.fits(node, amount, spec.name):
            break
        number += 1
    return number
