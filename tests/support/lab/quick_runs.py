"""What the quick runs of a reproduction measure."""

from collections import defaultdict

from specon_lab.engine.run import simulate
from specon_lab.workloads.table import workload_named


def carry_out(run):
    """Return what one run measures, as the command runs it."""
    outcome = simulate(
        workload_named(run.workload, run.seed),
        run.policy,
        parameters=run.parameters,
        settings=run.settings,
        classifier=run.classifier,
        ticks_only=run.ticks_only,
    )
    return run.measure(outcome)


def measure_quick_runs(reproduction):
    """Return the measures of all quick runs, by key."""
    found = defaultdict(list)
    for run in reproduction.runs(True):
        found[run.key].append(carry_out(run))
    return dict(found)
