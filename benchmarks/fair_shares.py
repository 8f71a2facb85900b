"""What two teams of equal quotas get while both wait for room and one asks for four times as much.

`python benchmarks/fair_shares.py [--json FILE]`. Simulated, so the figures are the same everywhere.
GPU-seconds count from the beginning to the last moment at which jobs of both teams wait. A fair part is half
of them. Nothing is preempted for fairness, and no room stays idle for a job that is larger than what becomes
free: with jobs of several GPUs the part may be smaller. A team whose few jobs do not use half all the time
cannot get half of the time as a whole. So beside its part stands the part that it would have in the fluid:
both teams get the same at every moment, in whatever small pieces, and what one cannot use goes to the other
(max-min fairness of D. Bertsekas and R. Gallager, Data Networks, 1987). A team has to get nine tenths of
that. Beside it stand the mean completion and the makespan, as ratios of those without turns: what fairness
costs all together.
"""

from collections.abc import Collection
from statistics import mean
from typing import NamedTuple

import msgspec

import figure
from figure import Figure
from specon_lab.engine.engine import Moment
from specon_lab.engine.run import settings_for, simulate
from specon_lab.workloads.poisson import PoissonWorkload, generate
from specon_lab.workloads.workload import Workload
from specon_manager.core.waiting import waiting_jobs
from specon_manager.model.events import Tick
from specon_manager.model.queues import Queue
from specon_manager.model.resources import total

BUSY, QUIET = "busy", "quiet"
CASES = {
    "fifo, jobs of one GPU": ("fifo", (1.0,)),
    "progress, jobs of one GPU": ("progress", (1.0,)),
    "progress, jobs of 1 to 8 GPUs": ("progress", (70.0, 12.0, 10.0, 8.0)),
}
"""Policy, and how often a job asks for 1, 2, 4, 8 GPUs."""
HALF_LIFE = 6 * 3600.0
_BUSY_TIMES = 4
_LEAST = 0.9
"""Of what a team would get in the fluid, what it has to get."""
_PIECE = 30.0
"""Seconds for which the fluid stays as it is."""


class Run(NamedTuple):
    """What came of one simulation."""

    quiet_share: float
    """Of the GPU-seconds that were counted, the part of the team that asks for less."""
    until: float
    """The last moment at which both waited, seconds."""
    hours: float
    """GPU-hours that were counted."""
    completion: float
    """Mean, seconds."""
    makespan: float


def workload(jobs: int, sizes: tuple[float, ...]) -> Workload:
    """Return the jobs of both teams; `jobs` are of the one that asks for less."""
    asked = PoissonWorkload(
        jobs=(1 + _BUSY_TIMES) * jobs, nodes=8, interarrival=20.0, elastic=0.0, sizes=sizes
    )
    made = generate(asked, 1)
    return msgspec.structs.replace(
        made,
        jobs=tuple(
            msgspec.structs.replace(
                each,
                spec=msgspec.structs.replace(each.spec, queue=BUSY if number % (1 + _BUSY_TIMES) else QUIET),
            )
            for number, each in enumerate(made.jobs)
        ),
    )


def run(work: Workload, policy: str, half_life: float | None) -> Run:
    """Simulate, and count what each team has while both wait."""
    half = total([node.capacity for node in work.nodes])
    quota = msgspec.structs.replace(half, cpu=half.cpu / 2, memory=half.memory / 2, gpu=half.gpu / 2)
    queues = tuple(Queue(name=name, quota=quota) for name in (BUSY, QUIET))
    fitting = settings_for(work)
    settings = msgspec.structs.replace(fitting, queues=queues, fair_shares=half_life)
    used = dict.fromkeys((BUSY, QUIET), 0.0)
    counted: dict[str, float] = dict(used)
    last = until = 0.0

    def check(moment: Moment) -> None:
        nonlocal last, until
        if not isinstance(moment.event, Tick):
            return
        since, last = moment.now - last, moment.now
        state = moment.before
        for replica in state.replicas.values():
            if replica.active:
                used[state.jobs[replica.job].spec.queue] += since * replica.requests.gpu
        if {job.spec.queue for job in waiting_jobs(state)} == {BUSY, QUIET}:
            counted.update(used)
            until = moment.now

    outcome = simulate(work, policy, settings=settings, check=check)
    hours = sum(counted.values()) / 3600
    return Run(
        quiet_share=counted[QUIET] / 3600 / hours if hours else 0.0,
        until=until,
        hours=hours,
        completion=mean(job.ended_at - job.submitted_at for job in outcome.jobs if job.ended_at is not None),
        makespan=outcome.makespan,
    )


def fluid(work: Workload, until: float) -> float:
    """Return the part of the smaller team in the fluid, of all GPU-seconds until then, of jobs of one GPU.

    All jobs of a team train at the same pace, none faster than alone; nothing is lost when that changes.
    """
    gpus = total([node.capacity for node in work.nodes]).gpu
    left = {job.spec.name: job.training.seconds for job in work.jobs}
    used = dict.fromkeys((BUSY, QUIET), 0.0)
    now = 0.0
    while now < until:
        present = {team: list[str]() for team in used}
        for job in work.jobs:
            if job.at <= now and left[job.spec.name] > 0:
                present[job.spec.queue].append(job.spec.name)
        wanted = {team: float(len(names)) for team, names in present.items()}
        for team, other in ((BUSY, QUIET), (QUIET, BUSY)):
            given = min(wanted[team], max(gpus / 2, gpus - wanted[other]))
            for name in present[team]:
                passed = min(left[name], _PIECE * given / wanted[team])
                left[name] -= passed
                used[team] += passed
        now += _PIECE
    return used[QUIET] / sum(used.values()) if any(used.values()) else 0.0


def measure(jobs: int = 60, cases: Collection[str] = tuple(CASES)) -> list[Figure]:
    """Simulate each case without turns and with them."""
    found = list[Figure]()
    for case in cases:
        policy, sizes = CASES[case]
        work = workload(jobs, sizes)
        without, turns = run(work, policy, None), run(work, policy, HALF_LIFE)
        ideal = fluid(work, turns.until) if len(sizes) == 1 else None
        shares = {
            " of the smaller team": (turns.quiet_share, ideal),
            " of the other": (1 - turns.quiet_share, None if ideal is None else 1 - ideal),
        }
        found += [
            Figure(
                what=f"{case}: part of the smaller team, without turns", value=without.quiet_share, unit=""
            ),
            *(
                Figure(
                    what=f"{case}: part{whose}",
                    value=part,
                    unit="",
                    at_least=None if most is None else _LEAST * most,
                    note="" if most is None else f"{most:.3f} in the fluid",
                )
                for whose, (part, most) in shares.items()
            ),
            Figure(what=f"{case}: GPU-hours counted", value=turns.hours, unit="h"),
            Figure(
                what=f"{case}: mean completion, of that without turns",
                value=turns.completion / without.completion,
                unit="",
            ),
            Figure(what=f"{case}: makespan, the same", value=turns.makespan / without.makespan, unit=""),
        ]
    return found


def smallest() -> list[Figure]:
    """Return the figures of a few jobs, to see that it works."""
    return measure(jobs=10, cases=("fifo, jobs of one GPU",))


if __name__ == "__main__":
    figure.main(__doc__, measure, smallest)
