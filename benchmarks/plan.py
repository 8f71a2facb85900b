"""How long one Tick takes: deadlines, the policy `specon`, and the plan, on large clusters.

`python benchmarks/plan.py [--json FILE]`. Times are processor time of one Tick, garbage collection included.
Before each Tick 2 % of the replicas change their category; three of the four moves that the budget allows are
in flight, so that a Tick orders one and refuses thousands.
"""

import time
from random import Random

import msgspec

import figure
from figure import Figure, percentile
from specon_manager.core.state import State
from specon_manager.core.step import step
from specon_manager.model.actions import StartReplica
from specon_manager.model.events import JobSubmitted, Tick
from synthetic_cluster import NOW, cluster, spec, stirred

SMALL, LARGE = 1_000, 10_000
BOUNDS = {SMALL: 50.0, LARGE: 500.0}  # milliseconds, p99
TICKS = {SMALL: 100, LARGE: 12}
BURST = 1_000
_CHANGING = 0.02


def ticks(state: State, count: int) -> list[float]:
    """Return the milliseconds of so many Ticks."""
    rng, times = Random(1), []
    start = state
    for number in range(count + 1):
        state = stirred(state, _CHANGING, rng)
        before = time.process_time()
        state, _ = step(state, Tick(), NOW + number)
        times.append(1000 * (time.process_time() - before))
        # The moves that were ordered end before the next Tick.
        state = msgspec.structs.replace(state, moves=start.moves)
    return times[1:]  # the first one decides on every replica for the first time; see `first`


def first(state: State) -> float:
    """Return the milliseconds of the first Tick of a manager: no decision is remembered."""
    before = time.process_time()
    step(state, Tick(), NOW)
    return 1000 * (time.process_time() - before)


def burst(state: State) -> float:
    """Return the milliseconds of a Tick in which all of a burst of pending jobs are started."""
    state, _ = step(state, Tick(), NOW)
    for order in range(BURST):
        state, _ = step(state, JobSubmitted(spec(len(state.jobs) + order)), NOW)
    before = time.process_time()
    _, actions = step(state, Tick(), NOW)
    passed = 1000 * (time.process_time() - before)
    started = sum(isinstance(action, StartReplica) for action in actions)
    if started != BURST:
        raise RuntimeError(f"{started} of {BURST} pending jobs were started")
    return passed


def measure() -> list[Figure]:
    """Measure both sizes, balanced and not."""
    figures, medians = [], {}
    for nodes, bound in BOUNDS.items():
        for balanced in (True, False):
            title = f"{nodes:,} nodes, {'balanced' if balanced else 'unbalanced'}"
            state = cluster(nodes, balanced=balanced)
            times = ticks(state, TICKS[nodes])
            medians[nodes, balanced] = percentile(times, 0.5)
            figures += [
                Figure(what=f"{title}: p50", value=medians[nodes, balanced], unit="ms"),
                Figure(
                    what=f"{title}: p99",
                    value=percentile(times, 0.99),
                    unit="ms",
                    at_most=bound,
                    note=f"of {len(times)} Ticks",
                ),
                Figure(what=f"{title}: first Tick", value=first(state), unit="ms", at_most=bound),
            ]
            if balanced:
                figures.append(
                    Figure(
                        what=f"{title}: {BURST:,} jobs pending",
                        value=min(burst(state) for _ in range(2)),
                        unit="ms",
                        at_most=bound,
                    )
                )
    for balanced in (True, False):
        growth = medians[LARGE, balanced] / medians[SMALL, balanced]
        what = f"growth for ten times the size, {'balanced' if balanced else 'unbalanced'}"
        figures.append(Figure(what=what, value=growth, unit="times", note="10 is linear"))
    return figures


if __name__ == "__main__":
    figure.main(__doc__, measure)
