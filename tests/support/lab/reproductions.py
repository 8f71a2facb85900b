"""A reproduction that takes milliseconds. In a module of its own: other processes import it by name."""

from collections.abc import Sequence

import msgspec

from specon_lab.engine.outcome import Outcome
from specon_lab.reproduction.experiment import (
    Collected,
    Line,
    Measures,
    Reproduction,
    Row,
    Run,
    Section,
)
from specon_lab.results.statistics import mean

WORKLOAD = "poisson:jobs={},nodes=2,curves=0"


def count(outcome: Outcome) -> Measures:
    """Measure how many jobs completed, and the seed."""
    completed = sum(job.state == "completed" for job in outcome.jobs)
    return {"completed": float(completed), "seed": float(outcome.seed)}


def refuse(outcome: Outcome) -> Measures:
    """Measure nothing."""
    raise LookupError(f"nothing to measure in {outcome.workload}")


def interrupt(outcome: Outcome) -> Measures:
    """End as Ctrl-C would."""
    raise KeyboardInterrupt


def runs(quick: bool) -> Sequence[Run]:
    """Return two policies with one seed, or with two; the second workload is the larger one."""
    return [
        Run(key=key, workload=WORKLOAD.format(jobs), seed=seed, policy=policy, measure=count)
        for key, policy, jobs in (("fifo", "fifo", 3), ("srpt", "srpt", 5))
        for seed in range(1 if quick else 2)
    ]


def sections(collected: Collected) -> Sequence[Section]:
    """Return a table of one figure for each policy that was measured, and one without a figure."""
    ours = {
        key: mean([each["completed"] + each["seed"] for each in seeds]) for key, seeds in collected.items()
    }
    return [
        Section(
            title="Table 1",
            rows=[
                Row(
                    what="first in, first out",
                    paper=4.0,
                    literal=ours.get("fifo"),
                    spread=1.25,
                    unit="s",
                    tolerance="within 1000 %",
                    reproduced=True,
                    runs=5,
                    note="it | differs",
                ),
                Row(
                    what="the bound",
                    paper=2000.0,
                    default=ours.get("srpt"),
                    reproduced=False,
                    runs=5,
                    note="it | differs",
                ),
                Row(what="share", paper=None, default=12.5, unit="%"),
            ],
            columns=["a | b (s)", "c"],
            lines=[Line(what="one", figures=(1234.5, None)), Line(what="other", figures=(0.25, 101.0))],
            remarks=["Nothing could be read off the bars."],
        )
    ]


TINY = Reproduction(
    name="tiny",
    title="A. Author, B. Author: On the Smallest of Things, Proc. of Nowhere 2020",
    runs=runs,
    sections=sections,
    remarks=["The last page is missing."],
)


def with_measure(measure, key: str, seed: int) -> Reproduction:
    """Return the same, with one run measured in another way."""

    def changed(quick: bool) -> Sequence[Run]:
        return [
            msgspec.structs.replace(run, measure=measure) if (run.key, run.seed) == (key, seed) else run
            for run in runs(quick)
        ]

    return msgspec.structs.replace(TINY, runs=changed)
