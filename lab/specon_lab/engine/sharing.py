"""How replicas share the cores of a node: weighted max-min fairness, and what contention costs. Pure.

Work-conserving: what one cannot use the others get (water filling; Bertsekas and Gallager, "Data Networks",
on max-min flow control). Linux does so with the `cpu.weight` of control groups. Beside that, replicas of one
node get in each other's way (caches, memory bandwidth): everybody's speed is multiplied by 1 / (1 + beta (n -
1)), where n is the effective number of replicas, 1 / sum(share^2), with the shares of the cores handed out.
"""

import math
from collections.abc import Sequence
from itertools import accumulate


def speeds(
    demands: Sequence[float], weights: Sequence[float], cores: float, contention: float
) -> list[float]:
    """Return which share of its full speed each replica of a node gets, above 0 and at most 1.

    `demands` are the cores that each uses when it can; one that demands none (it has reserved what it needs)
    is neither slowed nor slows. `weights` say how they share `cores` where these are scarce, and `contention`
    is beta. n replicas that could each use the whole node get 1 / n / (1 + beta (n - 1)).

    Raises ValueError naming the argument that is out of bounds.
    """
    handed = grants(demands, weights, cores)
    factor = efficiency(handed, contention)
    return [
        min(1.0, grant / demand) * factor if demand else 1.0
        for demand, grant in zip(demands, handed, strict=True)
    ]


def grants(demands: Sequence[float], weights: Sequence[float], cores: float) -> list[float]:
    """Return how many cores each replica gets: in sum the cores of the node, or all that is demanded.

    Raises ValueError naming the argument that is out of bounds.
    """
    _check(demands, weights, cores)
    if math.fsum(demands) <= cores:
        return list(demands)
    # Who wants least for its weight is served first; once one cannot be, no later one can.
    order = sorted(range(len(demands)), key=lambda i: (demands[i] / weights[i], i))
    # Summed from the end: a small weight would drown in a difference of large ones.
    unserved = list(accumulate(weights[i] for i in reversed(order)))[::-1]
    handed = [0.0] * len(demands)
    left = cores
    for position, i in enumerate(order):
        level = left / unserved[position]
        if demands[i] > level * weights[i]:
            for j in order[position:]:
                handed[j] = min(demands[j], level * weights[j])
            break
        handed[i] = demands[i]
        left = max(0.0, left - demands[i])
    return handed


def efficiency(handed: Sequence[float], contention: float) -> float:
    """Return the factor of everybody's speed, 1 / (1 + beta (n - 1)); `handed` are the cores that each gets.

    Raises ValueError where `contention` is negative or not a number.
    """
    if not 0 <= contention < math.inf:
        raise ValueError(f"contention {contention} is not a finite number of at least 0")
    total = math.fsum(handed)
    if not contention or not total:
        return 1.0
    effective = 1 / sum((grant / total) ** 2 for grant in handed)
    return 1 / (1 + contention * max(0.0, effective - 1))


def _check(demands: Sequence[float], weights: Sequence[float], cores: float) -> None:
    if len(demands) != len(weights):
        raise ValueError(f"{len(demands)} demands and {len(weights)} weights")
    if not 0 < cores < math.inf:
        raise ValueError(f"cores {cores} is not a finite number above 0")
    for demand in demands:
        if not 0 <= demand < math.inf:
            raise ValueError(f"demand {demand} is not a finite number of at least 0")
    for weight in weights:
        if not 0 < weight < math.inf:
            raise ValueError(f"weight {weight} is not a finite number above 0")
