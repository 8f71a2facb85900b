"""Who finishes later than under quota FIFO, and by what: `python -m specon_lab.reproduction.hurt` tells."""

import argparse
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final, Literal, NamedTuple

from specon_lab.engine.outcome import JobOutcome, Outcome
from specon_lab.engine.run import simulate
from specon_lab.reproduction.ours_runs import CONTESTS, OURS, QUOTA
from specon_lab.reproduction.ours_tables import LATER_PERCENT
from specon_lab.results.statistics import percentile
from specon_lab.workloads.table import workload_named

Cause = Literal["waits", "preempted", "paused", "slower"]
CAUSES: Final[tuple[Cause, ...]] = ("waits", "preempted", "paused", "slower")
"""It waits longer and was never preempted; waits longer and was; pauses longer; trains for longer."""
_MUCH: Final = 10.0  # percent


class Hurt(NamedTuple):
    """One job that takes more than 1 % longer."""

    percent: float
    seconds: float
    cause: Cause
    """What grew most."""


def hurt(ours: Outcome, theirs: Outcome) -> list[Hurt]:
    """Return the jobs that take more than 1 % longer with ours, of those that complete with both."""
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
    grew: dict[Cause, float] = {
        "preempted" if job.preemptions else "waits": job.waited_seconds - other.waited_seconds,
        "paused": job.paused_seconds - other.paused_seconds,
        "slower": job.trained_seconds - other.trained_seconds,
    }
    return max(grew, key=grew.__getitem__)


def row(name: str, found: Sequence[Hurt], jobs: int) -> str:
    """Return a line of the table: shares in percent of all jobs, then the medians of those who are hurt."""
    causes = Counter(each.cause for each in found)
    much = sum(each.percent > _MUCH for each in found)
    shares = [100 * count / jobs for count in (len(found), much, *(causes[cause] for cause in CAUSES))]
    by = [percentile(sorted(values), 50) or 0.0 for values in zip(*(each[:2] for each in found), strict=True)]
    medians = [f"{value:.0f}" for value in by or (0.0, 0.0)]
    return f"| {name} | {' | '.join([*(f'{share:.1f}' for share in shares), *medians])} |"


def main(given: Sequence[str] | None = None) -> Iterable[str]:
    """Return the table, of the workloads that are named, or of all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("workloads", nargs="*", help="as in the tables of `specon reproduce ours`")
    parser.add_argument("--seeds", type=int, default=5)
    chosen = parser.parse_args(given)
    yield f"| workload | later, % | by over {_MUCH:g} %, % | {' | '.join(CAUSES)} | median, % | median, s |"
    yield f"|---{'|--:' * (4 + len(CAUSES))}|"
    for contest in CONTESTS:
        if chosen.workloads and contest.name not in chosen.workloads:
            continue
        found, jobs = list[Hurt](), 0
        for seed in range(chosen.seeds if contest.random else 1):
            workload = workload_named(contest.workload, seed)
            ours, theirs = (simulate(workload, policy) for policy in (OURS, QUOTA))
            found += hurt(ours, theirs)
            jobs += len(ours.jobs)
        yield row(contest.name, found, jobs)


if __name__ == "__main__":
    for line in main():
        print(line, flush=True)  # noqa: T201  (the table is what it is for)
