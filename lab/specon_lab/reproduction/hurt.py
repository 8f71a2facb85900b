"""Who finishes later than under quota FIFO, and by what: `python -m specon_lab.reproduction.hurt` tells."""

import argparse
from collections import Counter
from collections.abc import Iterable, Sequence
from statistics import fmean
from typing import Final, Literal, NamedTuple

from specon_lab.engine.outcome import JobOutcome, Outcome
from specon_lab.engine.run import simulate
from specon_lab.reproduction.ours_runs import CONTESTS, OURS, QUOTA
from specon_lab.reproduction.ours_tables import LATER_PERCENT
from specon_lab.results.figures import figures_of
from specon_lab.results.statistics import percentile
from specon_lab.workloads.table import workload_named

Slower = Literal["smaller", "apart", "crowded", "outweighed", "redone"]
Cause = Literal["waits", "preempted", "paused", "smaller", "apart", "crowded", "outweighed", "redone"]
CAUSES: Final[tuple[Cause, ...]] = (
    "waits",
    "preempted",
    "paused",
    "smaller",
    "apart",
    "crowded",
    "outweighed",
    "redone",
)
"""It waits longer and was never preempted; waits longer and was; pauses longer; or trains for longer.

It trains for longer by fewer workers, by workers far from their servers, by more jobs on its nodes, by a
smaller weight beside them (`specon_lab.engine.slowness`), or by training that is done again.
"""
_MUCH: Final = 10.0  # percent


class Hurt(NamedTuple):
    """One job that takes more than 1 % longer."""

    percent: float
    seconds: float
    cause: Cause
    """What grew most."""


def hurt(ours: Outcome, theirs: Outcome) -> list[Hurt]:
    """Return the jobs that complete with both, and take more than 1 % longer with ours."""
    others = {job.name: job for job in theirs.jobs}
    found = []
    for job in ours.jobs:
        our, other = job.completion_seconds, others[job.name]
        their = other.completion_seconds
        if our is None or not their:
            continue
        percent = 100 * (our - their) / their
        if percent > LATER_PERCENT:
            found.append(Hurt(percent, our - their, _cause(job, other)))
    return found


def _cause(job: JobOutcome, other: JobOutcome) -> Cause:
    slower = job.trained_seconds - other.trained_seconds
    grew: dict[Cause, float] = {
        "preempted" if job.preemptions else "waits": job.waited_seconds - other.waited_seconds,
        "paused": job.paused_seconds - other.paused_seconds,
    }
    if slower <= max(grew.values()):
        return max(grew, key=grew.__getitem__)
    ours, theirs = _factors(job), _factors(other)
    fell = {each: theirs[each] / max(1e-9, ours[each]) for each in ours}
    return max(fell, key=fell.__getitem__)


def _factors(job: JobOutcome) -> dict[Slower, float]:
    """Return what a job's mean speed while it trained is made of: their product is that speed."""
    left = job.trained_seconds
    found: dict[Slower, float] = {}
    causes: tuple[Slower, ...] = ("smaller", "apart", "crowded", "outweighed", "redone")
    for cause, seconds in zip(causes, (*job.slowness, job.lost_seconds), strict=True):
        found[cause] = max(0.0, left - seconds) / max(1e-9, left)
        left -= seconds
    return found


def row(name: str, found: Sequence[Hurt], jobs: int, means: Sequence[float]) -> str:
    """Return a line of the table: mean completion times, shares in percent of all jobs, medians of the hurt.

    `means` are those of our policy and of quota FIFO, seconds.
    """
    causes = Counter(each.cause for each in found)
    much = sum(each.percent > _MUCH for each in found)
    shares = [100 * count / jobs for count in (len(found), much, *(causes[cause] for cause in CAUSES))]
    by = [percentile(sorted(values), 50) or 0.0 for values in zip(*(each[:2] for each in found), strict=True)]
    medians = [f"{value:.0f}" for value in by or (0.0, 0.0)]
    times = [f"{value:.0f}" for value in means]
    return f"| {name} | {' | '.join([*times, *(f'{share:.1f}' for share in shares), *medians])} |"


def main(given: Sequence[str] | None = None) -> Iterable[str]:
    """Return the table, of the workloads that are named, or of all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("workloads", nargs="*", help="as in the tables of `specon reproduce ours`")
    parser.add_argument("--seeds", type=int, default=5, help="how many")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    chosen = parser.parse_args(given)
    shares = f"later, % | by over {_MUCH:g} %, % | {' | '.join(CAUSES)}"
    yield f"| workload | mean, s | quota FIFO, s | {shares} | median, % | median, s |"
    yield f"|---{'|--:' * (6 + len(CAUSES))}|"
    for contest in CONTESTS:
        if chosen.workloads and contest.name not in chosen.workloads:
            continue
        found, jobs, means = list[Hurt](), 0, [list[float](), list[float]()]
        seeds = range(chosen.first, chosen.first + chosen.seeds) if contest.random else range(1)
        for seed in seeds:
            workload = workload_named(contest.workload, seed)
            ours, theirs = (simulate(workload, policy) for policy in (OURS, QUOTA))
            found += hurt(ours, theirs)
            jobs += len(ours.jobs)
            for each, outcome in zip(means, (ours, theirs), strict=True):
                each.append(figures_of(outcome)["completion.mean"] or 0.0)
        yield row(contest.name, found, jobs, [fmean(each) for each in means])


if __name__ == "__main__":
    for line in main():
        print(line, flush=True)  # noqa: T201  (the table is what it is for)
