"""How long one Tick takes: deadlines, the policy, and the plan, on clusters of 1,000 to 100,000 replicas.

`python benchmarks/plan.py [--json FILE]`. Times are processor time of one Tick, garbage collection included;
beside each stands how many plain passes over all replicas, counting categories, take as long in the same run.
Before each Tick 2 % of the replicas change their category. With `specon` three of the four moves that the
budget allows are in flight, so that a Tick orders one and refuses thousands; with `progress` the cluster is
full, one job waits for each hundred that run, and a few complete and are submitted before each Tick. Where
all report, nothing else changes than what sidecars say.
"""

import time
import tracemalloc
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from random import Random

import msgspec

import figure
import reserving_cluster
from figure import Figure, percentile
from specon_manager.core.state import State
from specon_manager.core.step import step
from specon_manager.model.actions import Action, StartReplica
from specon_manager.model.events import JobSubmitted, Tick
from synthetic_cluster import NOW, cluster, spec, stirred

BOUNDS = {1_000: 20.0, 10_000: 100.0}  # milliseconds, p99
BOUND_FIRST = {1_000: 500.0, 10_000: 500.0}
BOUND_BURST = {1_000: 200.0, 10_000: 200.0}
TICKS = {100: 100, 1_000: 100, 10_000: 12}  # by the number of nodes
BURST = 1_000
_BETWEEN = 5.0
_QUIET = 20
_CHANGING = 0.02


@dataclass(frozen=True)
class Scenario:
    """A cluster, and what happens to it between two Ticks."""

    title: str
    cluster: Callable[[int], State]
    before: Callable[[State, Random, float], State]
    after: Callable[[State, Sequence[Action], float], State]


@dataclass(frozen=True)
class Times:
    """Milliseconds of Ticks, and of a pass over all replicas just before each."""

    ticks: list[float]
    passes: list[float]

    def note(self, share: float) -> str:
        """Return the percentile as a multiple of the median pass."""
        ratio = percentile(self.ticks, share) / percentile(self.passes, 0.5)
        return f"of {len(self.ticks)} Ticks; {ratio:.0f} plain passes"


def _stirred(state: State, rng: Random, now: float) -> State:
    del now
    return stirred(state, _CHANGING, rng)


def _moves_ended(state: State, actions: Sequence[Action], now: float) -> State:
    """Take back the move that was ordered, so that as many are in flight before each Tick."""
    del actions, now
    moves = dict(list(state.transactions.items())[:3])
    return msgspec.structs.replace(state, transactions=moves)


def _lived(state: State, rng: Random, now: float) -> State:
    return reserving_cluster.turned_over(_stirred(state, rng, now), rng, now)


SCENARIOS = (
    Scenario("specon, balanced", partial(cluster, balanced=True), _stirred, _moves_ended),
    Scenario("specon, unbalanced", partial(cluster, balanced=False), _stirred, _moves_ended),
    Scenario("progress, a queue", reserving_cluster.cluster, _lived, reserving_cluster.carried_out),
)


def ticks(scenario: Scenario, state: State, count: int) -> Times:
    """Time so many Ticks, after a first one that decides on everything for the first time (see `first`)."""
    rng, times, passes = Random(1), list[float](), list[float]()
    for number in range(count + 1):
        now = NOW + _BETWEEN * number
        state = scenario.before(state, rng, now)
        passes.append(_timed(partial(_count_categories, state)))
        before = time.process_time()
        state, actions = step(state, Tick(), now)
        times.append(1000 * (time.process_time() - before))
        state = scenario.after(state, actions, now)
    return Times(times[1:], passes[1:])


def first(state: State) -> float:
    """Return the milliseconds of the first Tick of a manager: no decision is remembered."""
    return _timed(lambda: step(state, Tick(), NOW))


def burst(state: State, pending: int) -> float:
    """Return the milliseconds of a Tick in which all of a burst of pending jobs are started."""
    state, _ = step(state, Tick(), NOW)
    for order in range(pending):
        state, _ = step(state, JobSubmitted(spec(len(state.jobs) + order)), NOW)
    before = time.process_time()
    _, actions = step(state, Tick(), NOW)
    passed = 1000 * (time.process_time() - before)
    started = sum(isinstance(action, StartReplica) for action in actions)
    if started != pending:
        raise RuntimeError(f"{started} of {pending} pending jobs were started")
    return passed


def trials(nodes: int, pending: int) -> float:
    """Return the milliseconds of a Tick in which room is made for a burst of trials on a full cluster."""
    state = reserving_cluster.cluster(nodes, waiting=0.0)
    state, _ = step(state, Tick(), NOW)
    state = reserving_cluster.with_trials(state, pending, NOW + 1)
    before = time.process_time()
    after, _ = step(state, Tick(), NOW + _BETWEEN)
    passed = 1000 * (time.process_time() - before)
    if len(after.claims) != pending:
        raise RuntimeError(f"room is made for {len(after.claims)} of {pending} trials")
    return passed


def quiet(nodes: int) -> float:
    """Return the milliseconds of a Tick before which nothing happened, on a full cluster without a queue."""
    state, times = reserving_cluster.cluster(nodes, waiting=0.0), list[float]()
    for number in range(_QUIET):
        before = time.process_time()
        after, _ = step(state, Tick(), NOW + _BETWEEN * number)
        times.append(1000 * (time.process_time() - before))
        if after is not state:
            raise RuntimeError("something was decided")
    return percentile(times[_QUIET // 2 :], 0.5)


def heard(nodes: int, waiting: float, count: int) -> Times:
    """Time so many Ticks before which every sidecar reported; so many jobs wait for each that runs."""
    state = reserving_cluster.cluster(nodes, waiting=waiting)

    def before(state: State, rng: Random, now: float) -> State:
        return reserving_cluster.reported(state, rng, now)

    return ticks(Scenario("", reserving_cluster.cluster, before, reserving_cluster.carried_out), state, count)


def peak(scenario: Scenario, nodes: int) -> float:
    """Return the most MiB that a state and its first Tick hold together, by what Python allocates."""
    tracemalloc.start()
    try:
        step(scenario.cluster(nodes), Tick(), NOW)
        return tracemalloc.get_traced_memory()[1] / 2**20
    finally:
        tracemalloc.stop()


def measure(
    counts: Mapping[int, int] = TICKS, bounds: Mapping[int, float] = BOUNDS, pending: int = BURST
) -> list[Figure]:
    """Measure each scenario in each size: so many Ticks by the number of nodes."""
    figures = []
    for scenario in SCENARIOS:
        medians = {}
        for nodes, count in counts.items():
            title, bound = f"{scenario.title}, {nodes:,} nodes", bounds.get(nodes)
            state = scenario.cluster(nodes)
            times = ticks(scenario, state, count)
            medians[nodes] = percentile(times.ticks, 0.5)
            worst = percentile(times.ticks, 0.99)
            figures += [
                Figure(what=f"{title}: p50", value=medians[nodes], unit="ms", note=times.note(0.5)),
                Figure(what=f"{title}: p99", value=worst, unit="ms", at_most=bound, note=times.note(0.99)),
                Figure(
                    what=f"{title}: first Tick",
                    value=first(state),
                    unit="ms",
                    at_most=BOUND_FIRST.get(nodes),
                ),
                Figure(what=f"{title}: peak memory", value=peak(scenario, nodes), unit="MiB"),
            ]
            if scenario is SCENARIOS[0] and bound is not None:
                what = f"{title}: {pending:,} jobs pending"
                shortest = min(burst(state, pending) for _ in range(2))
                figures.append(Figure(what=what, value=shortest, unit="ms", at_most=BOUND_BURST.get(nodes)))
        for small, large in pairwise(counts):
            growth = medians[large] / medians[small]
            what = f"{scenario.title}: growth from {small:,} to {large:,} nodes"
            figures.append(Figure(what=what, value=growth, unit="times", note="10 is linear"))
    for nodes, count in counts.items():
        for waiting, queue in ((0.0, "nobody waits"), (0.01, "a queue")):
            what, times = f"progress, all report, {queue}, {nodes:,} nodes", heard(nodes, waiting, count)
            bound, worst = bounds.get(nodes), percentile(times.ticks, 0.99)
            figures.append(
                Figure(
                    what=f"{what}: p50", value=percentile(times.ticks, 0.5), unit="ms", note=times.note(0.5)
                )
            )
            figures.append(
                Figure(what=f"{what}: p99", value=worst, unit="ms", at_most=bound, note=times.note(0.99))
            )
        what = f"progress, nothing happened, {nodes:,} nodes"
        figures.append(Figure(what=what, value=quiet(nodes), unit="ms"))
        if bounds.get(nodes) is not None:
            what = f"progress, a full cluster, {nodes:,} nodes: {pending:,} trials at once"
            passed = trials(nodes, pending)
            figures.append(Figure(what=what, value=passed, unit="ms", at_most=BOUND_BURST.get(nodes)))
    return figures


def _count_categories(state: State) -> Counter[str]:
    """Be the baseline: look at every replica once."""
    counts = Counter[str]()
    for replica in state.replicas.values():
        counts[replica.progress.category] += 1
    return counts


def _timed(work: Callable[[], object]) -> float:
    before = time.process_time()
    work()
    return 1000 * (time.process_time() - before)


def smallest() -> list[Figure]:
    """Give every figure, of next to nothing."""
    return measure({10: 2, 20: 2}, {20: 50.0}, pending=10)


if __name__ == "__main__":
    figure.main(__doc__, measure, smallest)
