"""DRAGON's figures from the measurements: each seed beside the others' run of it, then over the seeds."""

from collections.abc import Callable, Sequence

from msgspec import Struct

from specon_lab.reproduction.dragon_runs import (
    INTENSITIES,
    JOBS,
    KUBEFLOW,
    LOCALITY,
    sweep_key,
    table_key,
)
from specon_lab.reproduction.experiment import Collected, Measures
from specon_lab.results.statistics import Interval, interval, mean

RunComparison = Callable[[Measures, Measures], float]
"""Of a run, and of the baseline's run of the same seed."""


def mean_over_seeds(collected: Collected, key: str, baseline: str, figure: RunComparison) -> Interval | None:
    """Return a figure's mean over the seeds with its interval; None where there is no pair of runs."""
    pairs = zip(
        collected.get(key, ()),
        collected.get(baseline, ()),
        strict=False,  # a set of runs that was cut short
    )
    return interval([figure(run, other) for run, other in pairs])


def mean_elapsed(run: Measures) -> float:
    """Return the mean seconds from a job's arrival to its end."""
    return run["running"] + run["paused"] + run["waiting"]


def part(*names: str) -> RunComparison:
    """Return the figure: these times together, in units of the baseline's elapsed time."""

    def of(run: Measures, baseline: Measures) -> float:
        return sum(run[name] for name in names) / mean_elapsed(baseline)

    return of


def elapsed_reduction(run: Measures, baseline: Measures) -> float:
    """Return by how many percent the elapsed time is shorter."""
    return 100 * (1 - mean_elapsed(run) / mean_elapsed(baseline))


def running_reduction(run: Measures, baseline: Measures) -> float:
    """Return by how many percent jobs run for less long, without the restarts."""
    return 100 * (1 - run["running"] / baseline["running"])


def waiting_reduction(collected: Collected, key: str, baseline: str) -> Interval | None:
    """Return by how much less jobs wait, in percent of the baseline's mean over the seeds.

    The mean is the divisor, because a quotient by a seed where the baseline hardly waits may have any size.
    The baseline never scales: a gang of it that has pending pods waits as well. None where nothing waits.
    """
    pairs = list(zip(collected.get(key, ()), collected.get(baseline, ()), strict=False))  # may be cut short
    before = mean([other["waiting"] + other["paused"] for _, other in pairs])
    if not before:
        return None
    return interval(
        [100 * (other["waiting"] + other["paused"] - run["waiting"]) / before for run, other in pairs]
    )


def slowdowns(run: Measures, baseline: Measures) -> list[float]:
    """Return of each job of Table 1 how many times as long it runs under the baseline."""
    return [baseline[f"running {job}"] / run[f"running {job}"] for job in range(1, JOBS + 1)]


class SweepPoint(Struct, frozen=True, kw_only=True):
    """One intensity of Figure 9 or 10; reductions in percent."""

    baseline: str
    mode: str
    intensity: float
    elapsed: Interval
    running: Interval
    waiting: Interval | None
    """None where nothing waits under the baseline."""
    waits: Interval
    """How much of the baseline's elapsed time is waiting, percent."""


def waiting_share(run: Measures, _: Measures) -> float:
    """Return which part of a baseline's elapsed time is waiting, percent."""
    return 100 * part("waiting", "paused")(run, run)


def sweep_points(collected: Collected) -> Sequence[SweepPoint]:
    """Return the series of Figures 9 and 10 that have runs, by baseline, mode and intensity."""
    found = []
    for baseline in (LOCALITY, KUBEFLOW):
        for mode in ("literal", "default"):
            for intensity in INTENSITIES:
                keys = sweep_key(intensity, f"dragon/{mode}"), sweep_key(intensity, baseline)
                whole = mean_over_seeds(collected, *keys, elapsed_reduction)
                running = mean_over_seeds(collected, *keys, running_reduction)
                waiting = waiting_reduction(collected, *keys)
                waits = mean_over_seeds(collected, keys[1], keys[1], waiting_share)
                if whole is None or running is None or waits is None:
                    continue
                found.append(
                    SweepPoint(
                        baseline=baseline,
                        mode=mode,
                        intensity=intensity,
                        elapsed=whole,
                        running=running,
                        waiting=waiting,
                        waits=waits,
                    )
                )
    return tuple(found)


def figure_of_table_1(
    collected: Collected, scheduler: str, figure: RunComparison, baseline: str = KUBEFLOW
) -> Interval | None:
    """Return a figure of Table 1's jobs."""
    return mean_over_seeds(collected, table_key(scheduler), table_key(baseline), figure)


def allocation_with_a_tail(collected: Collected) -> Interval | None:
    """Return the percentage of GPUs allocated under Kubeflow in the runs whose last job trains for longer.

    Longer than under the locality-aware scheduler by more than a hundredth: its only worker is not on the
    node of its parameter server. None where there is no such run.
    """
    last = f"running {JOBS}"
    pairs = zip(
        collected.get(table_key(KUBEFLOW), ()),
        collected.get(table_key(LOCALITY), ()),
        strict=False,  # a set of runs that was cut short
    )
    return interval([100 * run["allocated"] for run, near in pairs if run[last] > 1.01 * near[last]])
