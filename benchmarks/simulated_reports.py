"""What a simulated sidecar's report costs, by what its log says.

`python benchmarks/simulated_reports.py [--json FILE]`. Processor time per report, the median of several
rounds. Each round follows new jobs from their first report to their end, asking when the next is due. Of jobs
without a curve there may be 65,536 in one simulation, so that their bound is the one that counts.
"""

import time
from collections.abc import Callable
from statistics import median

import figure
from figure import Figure
from specon_lab.engine.sidecar import Sidecar
from specon_lab.workloads.workload import LossCurve, Submission, Training
from specon_manager.model.cluster import JobSpec
from specon_sidecar.classify import Category, ClassifierSettings
from specon_sidecar.wire import Report

ROUNDS = 7
JOBS = 5  # with a curve; without one there are sixty times as many
SECONDS = 3_000.0
BOUND = 15.0
BOUND_CURVE = 500.0
CURVE = LossCurve(rate=8.0, noise=0.01)


def measure(rounds: int = ROUNDS, jobs: int = JOBS) -> list[Figure]:
    """Measure jobs without a curve, and with one for each classifier."""
    algorithm_1, horizon = (ClassifierSettings(classifier=name) for name in ("specon", "horizon"))
    return [
        _figure("no curve", rounds, 60 * jobs, curve=None, classifier=None, bound=BOUND),
        _figure("curve, Algorithm 1", rounds, jobs, curve=CURVE, classifier=algorithm_1, bound=BOUND_CURVE),
        _figure("curve, horizon", rounds, jobs, curve=CURVE, classifier=horizon, bound=BOUND_CURVE),
        Figure(
            what="a report's own construction",
            value=median(_seconds(_construct, 3_000) for _ in range(rounds)) * 1e6,
            unit="us",
        ),
    ]


def _figure(
    what: str,
    rounds: int,
    jobs: int,
    *,
    curve: LossCurve | None,
    classifier: ClassifierSettings | None,
    bound: float,
) -> Figure:
    costs, reports = [], 0
    for number in range(rounds):
        sidecars = [_sidecar(f"{number}-{job}", curve, classifier) for job in range(jobs)]
        begun = time.process_time()
        reports = sum(_follow(sidecar) for sidecar in sidecars)
        costs.append((time.process_time() - begun) / reports)
    note = f"{reports / jobs:.0f} reports per job of {SECONDS:.0f} s"
    return Figure(what=what, value=median(costs) * 1e6, unit="us", at_most=bound, note=note)


def _sidecar(name: str, curve: LossCurve | None, classifier: ClassifierSettings | None) -> Sidecar:
    spec = JobSpec(name=f"ns/{name}", replicas=(f"ns/{name}/worker/0",))
    submission = Submission(at=0.0, spec=spec, training=Training(seconds=SECONDS, curve=curve))
    return Sidecar(submission, seed=1, oracle=False, classifier=classifier)


def _follow(sidecar: Sidecar) -> int:
    """Follow one undisturbed job to its end; return how many reports there were."""
    rate, now, reports = 1 / SECONDS, 0.0, 1
    sidecar.report(now, 0.0, rate, "incarnation", first=True)
    while (now := sidecar.next_due(now, now * rate, rate)) < SECONDS:
        sidecar.report(now, now * rate, rate, "incarnation", first=False)
        reports += 1
    return reports


def _construct() -> Report:
    return Report(
        schema=1,
        replica="ns/job/worker/0",
        incarnation="incarnation",
        session="session",
        sequence=1,
        category=Category.UNKNOWN,
    )


def _seconds(work: Callable[[], object], times: int) -> float:
    begun = time.process_time()
    for _ in range(times):
        work()
    return (time.process_time() - begun) / times


def smallest() -> list[Figure]:
    """Give every figure, of next to nothing."""
    return measure(rounds=1, jobs=1)


if __name__ == "__main__":
    figure.main(__doc__, measure, smallest)
