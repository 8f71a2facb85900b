"""How fast a gang trains: by how many workers it has, and by where they are. Pure.

The measured speedup (Lin, Yeh, Chou, "DRAGON: A Dynamic Scheduling and Scaling Controller for Managing
Distributed Deep Learning Jobs in Kubernetes Cluster", CLOSER 2019, Fig. 2) holds for one node. The paper
gives no model of the network; here each worker on another node than the parameter servers adds its traffic to
a link that all of them share.
"""

import math
from collections.abc import Mapping, Sequence

from specon_lab.workloads.workload import Network, Training


def gang_speed(
    training: Training,
    workers: Mapping[str, int],
    ps_nodes: Sequence[str],
    wanted: int,
    bandwidth: float,
    *,
    pace: float = 1.0,
) -> float:
    """Return the progress of a gang in solo seconds per second: 1 with the wanted workers, undisturbed.

    `workers` counts the running workers by node, `ps_nodes` are the nodes of the parameter servers (none: the
    node with the most workers is the local one), `wanted` is how many workers its owner asked for, and
    `bandwidth` is in bytes per second. `pace` is how many times as long a step takes on the accelerators of
    its nodes as the workload says. Without a worker it is 0. How the cores of its nodes are shared is not in
    it: `sharing.speeds` has that factor.

    Raises ValueError naming the argument that is out of bounds.
    """
    if wanted < 1:
        raise ValueError(f"wanted {wanted} is less than 1 worker")
    if not 0 < pace < math.inf:
        raise ValueError(f"pace {pace} is not a finite number above 0")
    count = sum(workers.values())
    if not count:
        return 0.0
    speed = speedup(training, count) / speedup(training, wanted) / pace
    if training.network is None:
        return speed
    remote = count - _local(workers, ps_nodes)
    return speed * _network_factor(
        training.network, count, remote, speedup(training, count) / pace, bandwidth
    )


def speedup(training: Training, workers: int) -> float:
    """Return the speed with so many workers in units of that with one; beyond the last known it stays.

    Raises ValueError where the workload says a speed that is not above 0.
    """
    if not training.speedup:
        return float(workers)
    speed = training.speedup[min(workers, len(training.speedup)) - 1]
    if not 0 < speed < math.inf:
        raise ValueError(f"speedup {speed} with {workers} workers is not a finite number above 0")
    return speed


def _local(workers: Mapping[str, int], ps_nodes: Sequence[str]) -> int:
    if not ps_nodes:
        return max(workers.values())
    return sum(workers.get(node, 0) for node in set(ps_nodes))


def _network_factor(network: Network, count: int, remote: int, speed: float, bandwidth: float) -> float:
    """Return which part of the speed is left when so many of the workers are on other nodes."""
    if not remote:
        return 1.0
    if not 0 < bandwidth < math.inf:
        raise ValueError(f"bandwidth {bandwidth} is not a finite number above 0")
    # In the time in which one worker alone makes one step, n workers make `speed` steps in all.
    local_seconds = network.step_seconds * count / speed
    remote_seconds = local_seconds + remote * network.step_bytes / bandwidth
    ratio = local_seconds / remote_seconds if remote_seconds else 1.0
    if network.fixed_quota:
        return ratio  # all wait for the slowest
    return ((count - remote) + remote * ratio) / count
