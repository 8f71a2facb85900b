"""Placing a gang, parameter servers and workers together: on one node, on few, or wherever there is room.

The rules that KOD2 (section 4.1), DRAGON (its placement plan) and the Kubeflow dynamic scheduler (its listing
"Gang Scheduling") are put together from. A placement is node by replica; workers are taken by index, so
worker 0 is in every one.
"""

from collections.abc import Iterable
from itertools import chain

from specon_manager.model.cluster import JobSpec
from specon_manager.model.resources import Resources, least_of, size, total
from specon_manager.policies.idle import Idle


def request_of_all(spec: JobSpec, workers: int) -> Resources:
    """Return what all parameter servers and so many workers request together."""
    names = chain(spec.ps, spec.worker_names[:workers])
    return total([spec.requests_of(name) for name in names])


def one_node_holds(spec: JobSpec, idle: Idle, *, workers: int) -> bool:
    """Whether all parameter servers and so many workers have room on one node."""
    return idle.anywhere(_amounts(spec, workers)[-1], spec.name)


def place_on_one_node(
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
        nodes = idle.nodes_by_most_idle(spec, holding)
    else:
        suitable = set(holding)
        nodes = [node for node in order if node in suitable]
    best, best_node = least - 1, ""
    for node in nodes:
        if best >= most:
            break
        held = _count_held(amounts, spec, idle, node)
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
    fitting = idle.fitting(least_of(spec.of_each) if spec.unlike else spec.requests, spec.name)
    if not fitting and least > 0:
        return None
    # A node that has room for neither a worker nor a parameter server need not be ordered.
    useful = {*fitting, *(idle.fitting(spec.ps_requests, spec.name) if spec.ps_requests is not None else ())}
    among = [node for node in (idle.nodes if order is None else order) if node in useful or least <= 0]
    if not among:
        return None
    nodes = idle.nodes_by_most_idle(spec, among) if order is None else among
    amounts = _amounts(spec, max(1, most))
    home = max(
        nodes, key=lambda node: _count_held(amounts[: most + 1], spec, idle, node)
    )  # of equals the first
    if not apart and spec.ps and _count_held(amounts[:2], spec, idle, home) < 1:
        return None
    placement = _servers_first(spec, idle, _first([home], nodes), most, least)
    return _workers_first(spec, idle, nodes, most, least) if placement is None and apart else placement


def _servers_first(
    spec: JobSpec, idle: Idle, nodes: list[str], most: int, least: int
) -> dict[str, str] | None:
    trial = idle.copy()
    servers = _fill(spec, spec.ps, trial, nodes)
    near = _first(servers.values(), nodes)
    # Those that it cannot do without first: the largest may be one of them.
    certain = least if spec.unlike else most
    workers = _fill(spec, spec.worker_names[:certain], trial, near)
    if len(servers) < len(spec.ps) or len(workers) < least:
        return None
    return servers | workers | _fill_in_order(spec, spec.worker_names[certain:most], trial, near)


def _workers_first(
    spec: JobSpec, idle: Idle, nodes: list[str], most: int, least: int
) -> dict[str, str] | None:
    trial = idle.copy()
    workers = _fill(spec, spec.worker_names[:least], trial, nodes)
    servers = _fill(spec, spec.ps, trial, _first(workers.values(), nodes))
    if len(servers) < len(spec.ps) or len(workers) < least:
        return None
    return servers | workers | _fill_in_order(spec, spec.worker_names[least:most], trial, nodes)


def _first(these: Iterable[str], nodes: list[str]) -> list[str]:
    """Return the nodes, these first, otherwise in their order."""
    chosen = set(these)
    return sorted(nodes, key=lambda node: node not in chosen)


def place_first_fit(
    spec: JobSpec, idle: Idle, *, workers: int, order: Iterable[str] | None = None
) -> dict[str, str] | None:
    """Place each replica, parameter servers or the largest first, on the first node that has room.

    `order` is by name where it is None. None: one replica has nowhere to go.
    """
    nodes = idle.nodes if order is None else tuple(order)
    trial, placement = idle.copy(), dict[str, str]()
    wanted = [*spec.ps, *spec.worker_names[:workers]]
    if spec.unlike:
        wanted.sort(key=lambda name: size(spec.requests_of(name)), reverse=True)
    for replica in wanted:
        requests = spec.requests_of(replica)
        node = next((node for node in nodes if trial.fits(node, requests, spec.name)), None)
        if node is None:
            return None
        trial.take(node, requests)
        placement[replica] = node
    return placement


def place_on_fewest_nodes(
    spec: JobSpec, idle: Idle, *, most: int, least: int, apart: bool = False
) -> dict[str, str] | None:
    """Place a gang on one node if one holds it with `least` workers or more, else on the most idle ones.

    KOD2, section 4.1. None: not even `least` workers and all parameter servers have room, or only where the
    parameter servers are `apart` from all workers and may not be.
    """
    return place_on_one_node(spec, idle, most=most, least=least) or spread(
        spec, idle, most=most, least=least, apart=apart
    )


def _fill(spec: JobSpec, replicas: Iterable[str], idle: Idle, nodes: Iterable[str]) -> dict[str, str]:
    """Take room for the replicas, as many on each node as it holds, and return where they went.

    Where they reserve different amounts, the largest go first, each to the first node that holds it.
    """
    if spec.unlike:
        return _fill_largest_first(spec, replicas, idle, list(nodes))
    return _fill_in_order(spec, replicas, idle, nodes)


def _fill_in_order(
    spec: JobSpec, replicas: Iterable[str], idle: Idle, nodes: Iterable[str]
) -> dict[str, str]:
    """Take room for the first of the replicas, as many as have room one after the other."""
    left, placement = list(replicas), dict[str, str]()
    for node in nodes:
        while left and idle.fits(node, requests := spec.requests_of(left[0]), spec.name):
            idle.take(node, requests)
            placement[left.pop(0)] = node
    return placement


def _fill_largest_first(
    spec: JobSpec, replicas: Iterable[str], idle: Idle, nodes: list[str]
) -> dict[str, str]:
    placement = dict[str, str]()
    for replica in sorted(replicas, key=lambda name: size(spec.requests_of(name)), reverse=True):
        requests = spec.requests_of(replica)
        node = next((node for node in nodes if idle.fits(node, requests, spec.name)), None)
        if node is not None:
            idle.take(node, requests)
            placement[replica] = node
    return placement


def _amounts(spec: JobSpec, most: int) -> list[Resources]:
    """Return what all parameter servers and 0, 1, ... `most` workers request together."""
    amounts, each = [request_of_all(spec, 0)], spec.of_each
    for number in range(most):
        amounts.append(amounts[-1] + (each[number] if number < len(each) else spec.requests))
    return amounts


def _count_held(amounts: Iterable[Resources], spec: JobSpec, idle: Idle, node: str) -> int:
    """Return how many workers a node holds beside all parameter servers, -1 where it does not hold those."""
    number = -1
    for amount in amounts:
        if not idle.fits(node, amount, spec.name):
            break
        number += 1
    return number
