"""The runs of specon's own policy against every paper's: workloads, rivals, seeds, and measurements."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct

from specon_lab.engine.outcome import Outcome
from specon_lab.engine.run import preempting_freely, settings_for
from specon_lab.reproduction.experiment import UNBOUNDED_MOVES, Measures, Run
from specon_lab.results.figures import figures_of
from specon_lab.workloads.table import workload_named
from specon_manager.model.settings import Gate, Settings
from specon_sidecar.classify import ClassifierSettings

OURS: Final = "progress"
BASELINES: Final = ("default-scheduler", "quota-fifo")
"""What a cluster does without any of the policies here: pod by pod, and gang by gang in order of arrival."""
QUOTA: Final = BASELINES[1]
BOUND: Final = "srpt"
JOB: Final = "job "
"""Before the name of a job: the measure is its completion time, seconds."""
AVERAGE, INCOMPLETE, TRIALS, BEST_EFFORT = "average", "incomplete", "trials.p95", "best-effort.p95"
CONVERGENCE: Final = "convergence"
"""The average time to convergence, seconds; no run of jobs without curves has it."""
FAIRNESS, PREEMPTIONS, PAUSED = "fairness.p99", "preemptions", "paused"
"""Finish-time fairness; means over the jobs of preemptions, and of seconds placed without training."""
_SEEDS: Final = range(20)
_QUICK: Final = range(2)


class Contest(Struct, frozen=True, kw_only=True):
    """One workload, and the policy of the paper that it is of."""

    name: str
    workload: str
    rival: str
    """A policy with a literal mode; it is run in both."""
    random: bool = True
    """Whether seeds differ."""

    def key(self, policy: str, mode: str = "default") -> str:
        """Return the key of the runs of a policy on it."""
        return f"{self.name}/{policy}/{mode}"


def _contests() -> Iterator[Contest]:
    for name in ("fixed", "random", "mixed-20", "mixed-30", "mixed-50"):
        yield Contest(name=f"specon-{name}", workload=f"specon-{name}", rival="specon")
    for model, batch in (("cnn-rand", 8), ("vgg-16", 32), ("resnet-50", 128), ("resnext-110", 64)):
        workload = f"kod2:model={model},batch={batch}"
        yield Contest(name=f"kod2 {model}, {batch}", workload=workload, rival="kod2")
    yield Contest(name="dragon-table1", workload="dragon-table1", rival="dragon", random=False)
    # Seconds between arrivals: intensity 4, then 1.
    for interarrival in (62, 248):
        workload = f"dragon-random:jobs=50,interarrival={interarrival}"
        yield Contest(name=f"dragon-random, {interarrival} s", workload=workload, rival="dragon")
    # As deep a queue as 3,000 jobs on the paper's 84 nodes.
    for words, extra in (("", ""), (", totals printed", ",prints_total=true")):
        workload = f"fitgpp:jobs=300,nodes=8{extra}"
        yield Contest(name=f"fitgpp{words}", workload=workload, rival="fitgpp")
    for scenario in (1, 2, 3):
        workload = f"kubeflow:scenario={scenario}"
        yield Contest(name=f"kubeflow, scenario {scenario}", workload=workload, rival="kubeflow")
    poisson = "poisson:jobs=80,nodes=8,interarrival=180,curves=0"
    yield Contest(name="poisson", workload=poisson, rival="dragon")


CONTESTS: Final = tuple(_contests())
_FIRST: Final = ("specon-fixed", "specon-random", "kod2 vgg-16, 32", "dragon-table1", "kubeflow, scenario 3")
"""Those of a quick run."""


def runs(quick: bool) -> Sequence[Run]:  # noqa: FBT001  (the signature of Reproduction.runs)
    """Return the runs: 20 seeds of every workload; with `quick` 2 of some."""
    found: list[Run] = []
    for contest in CONTESTS:
        if quick and contest.name not in _FIRST:
            continue
        seeds = (_QUICK if quick else _SEEDS) if contest.random else range(1)
        for seed in seeds:
            found += _of_seed(contest, seed)
    return tuple(found)


def _of_seed(contest: Contest, seed: int) -> Iterator[Run]:
    for policy in (OURS, *BASELINES):
        yield _run(contest, seed, policy, "default")
    unbound = preempting_freely(settings_for(workload_named(contest.workload, seed)))
    yield _run(contest, seed, BOUND, "default", settings=unbound)
    for mode, parameters in (("default", {}), ("literal", {"literal": True})):
        settings = classifier = None
        if contest.rival == "specon":
            # As its paper has it: its own classifier, no gate, and printed no budgets either.
            settings = _without_gate(contest.workload, seed, wide=mode == "literal")
            classifier = ClassifierSettings(classifier="specon", literal=mode == "literal")
        yield _run(
            contest,
            seed,
            contest.rival,
            mode,
            parameters=parameters,
            settings=settings,
            classifier=classifier,
        )


def _run(contest: Contest, seed: int, policy: str, mode: str, **rest: Any) -> Run:
    return Run(
        key=contest.key(policy, mode),
        workload=contest.workload,
        seed=seed,
        policy=policy,
        measure=measure,
        **rest,
    )


def _without_gate(workload: str, seed: int, *, wide: bool) -> Settings:
    settings = settings_for(workload_named(workload, seed))
    return msgspec.structs.replace(
        settings, gate=Gate(enabled=False), budgets=UNBOUNDED_MOVES if wide else settings.budgets
    )


def measure(outcome: Outcome) -> Measures:
    """Return figures of a run, how many jobs did not complete, and the others' completion times, by name."""
    figures = figures_of(outcome)
    count = len(outcome.jobs)
    found = {
        AVERAGE: figures["completion.mean"],
        CONVERGENCE: figures["convergence.mean"],
        FAIRNESS: figures["fairness.p99"],
        PREEMPTIONS: (figures["preemptions"] or 0.0) / count if count else None,
        PAUSED: figures["paused.mean"],
        TRIALS: figures["slowdown.trial.p95"],
        BEST_EFFORT: figures["slowdown.best-effort.p95"],
        INCOMPLETE: float(sum(job.state != "completed" for job in outcome.jobs)),
        **{f"{JOB}{job.name}": job.completion_seconds for job in outcome.jobs},
    }
    return {key: value for key, value in found.items() if value is not None}
