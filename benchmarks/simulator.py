"""How long simulations take: FitGpp's set-up at full size, and traces of 160 jobs.

`python benchmarks/simulator.py [--json FILE]`. Processor time of one run, beside that of a bare heap through
which as many events pass as jobs were submitted, started and ended.
"""

import heapq
import time
from random import Random

import msgspec

import figure
from figure import Figure
from specon_lab.engine.run import settings_for, simulate
from specon_lab.workloads.table import workload_named
from specon_lab.workloads.workload import Workload

EVENTS_PER_JOB = 3
CASES = (
    ("65,536 jobs on 84 nodes, FitGpp", 65536, "fitgpp:config=B,jobs={}", "fitgpp", True, 60.0),
    ("65,536 jobs on 84 nodes, FIFO", 65536, "fitgpp:config=B,jobs={}", "fifo", True, 60.0),
    ("160 elastic jobs on 16 nodes, progress", 160, "poisson:jobs={},nodes=16", "progress", False, 10.0),
)


def measure(most: int | None = None) -> list[Figure]:
    """Measure each case once, with at most so many jobs."""
    figures = []
    for title, jobs, text, policy, ticks_only, bound in CASES:
        workload = workload_named(text.format(jobs if most is None else min(jobs, most)), 0)
        settings = msgspec.structs.replace(settings_for(workload), tick=60.0)
        begun = time.process_time()
        outcome = simulate(workload, policy, settings=settings, ticks_only=ticks_only)
        passed = time.process_time() - begun
        completed = sum(job.state == "completed" for job in outcome.jobs)
        if completed != len(workload.jobs):
            raise RuntimeError(f"{title}: {completed} of {len(workload.jobs)} jobs completed")
        note = f"{passed / bare(workload):.0f} times a bare heap of its events; {outcome.decisions} Ticks"
        figures.append(Figure(what=title, value=passed, unit="s", at_most=bound, note=note))
    return figures


def bare(workload: Workload) -> float:
    """Return the seconds that a heap takes for as many events."""
    rng, heap = Random(1), list[tuple[float, int]]()
    begun = time.process_time()
    for number in range(EVENTS_PER_JOB * len(workload.jobs)):
        heapq.heappush(heap, (rng.random(), number))
    while heap:
        heapq.heappop(heap)
    return max(1e-6, time.process_time() - begun)


def smallest() -> list[Figure]:
    """Give every figure, of next to nothing."""
    return measure(20)


if __name__ == "__main__":
    figure.main(__doc__, measure, smallest)
