"""What the benchmark of expected starts takes for the truth."""

from pathlib import Path

import msgspec

from specon_lab.forecasts.start import Budget
from specon_manager.model.cluster import Served
from support.decisions.changed_jobs import NOW, elastic, nodes
from support.decisions.gangs import with_gang

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
JOB = "default/w"
KNOWN = {"other": Served(jobs=4, mean_seconds=100.0, latest=(50.0, 100.0, 100.0, 150.0))}


def test_a_start_at_the_very_moment_counts_and_one_before_it_does_not(monkeypatch):
    """Who is preempted at a Tick may be gone in the step after it, at the same time: its room is taken then.

    Such starts were left out, and a later one, after another preemption, was taken for the truth.
    """
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import starts  # noqa: PLC0415 - it is no package

    state = msgspec.structs.replace(with_gang(nodes(), elastic("w"), {}), served=KNOWN)
    truth = starts.Truth([starts.Snapshot(NOW, state)], {JOB: [NOW - 300.0, NOW, NOW + 900.0]}, [])
    answers = starts.told(truth, "progress", Budget(work=20_000, seconds=60.0))
    (told,) = answers.given
    assert told.case.truth == 0.0
    assert told.case.inside
