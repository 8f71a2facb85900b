"""The figures of one run."""

import pytest

from specon_lab.results.figures import CLASSES, FIGURES, figures_of
from support.lab.outcomes import job, outcome


def test_every_figure_is_described_and_every_description_has_its_figure():
    """Tables and JSON take their titles and units from one place."""
    assert list(figures_of(outcome(job(0)))) == list(FIGURES)


def test_the_classes_are_those_of_the_model():
    """A class that is added to jobs is added to the figures."""
    from typing import get_args, get_type_hints  # noqa: PLC0415 - used here only

    from specon_manager.model.cluster import JobSpec  # noqa: PLC0415 - the same

    assert set(get_args(get_type_hints(JobSpec)["job_class"])) == set(CLASSES)


def test_completion_times_count_from_submission_over_jobs_that_completed():
    """A job that did not complete has no time, and no average becomes shorter or longer by it."""
    found = figures_of(outcome(job(0, 100.0), job(5, 300.0), job(9, None), job(9, 7.0, state="failed")))
    assert found["completion.mean"] == 200.0
    assert found["completion.p50"] == 200.0
    assert found["completion.p95"] == pytest.approx(290.0)
    counts = {state: found[f"jobs.{state}"] for state in ("completed", "failed", "unfinished", "cannot-run")}
    assert counts == {"completed": 2, "failed": 1, "unfinished": 1, "cannot-run": 0}


def test_times_to_convergence_count_from_submission_over_jobs_that_got_so_far():
    """A job may converge and not complete; one without a curve has no such time."""
    found = figures_of(outcome(job(0), job(5, converged_at=45.0), job(9, None, converged_at=29.0)))
    assert (found["convergence.mean"], found["completion.mean"]) == (30.0, 100.0)
    assert figures_of(outcome(job(0)))["convergence.p95"] is None


def test_slowdowns_are_told_by_class():
    """Completion over the time alone; a class without jobs is unknown."""
    found = figures_of(outcome(job(0, 100.0), job(1, 400.0)))
    assert found["slowdown.best-effort.p50"] == 5.0
    assert found["slowdown.trial.p50"] is None
    trial = figures_of(outcome(job(0, 75.0, job_class="trial")))
    assert (trial["slowdown.trial.p99"], trial["slowdown.best-effort.p99"]) == (1.5, None)


def test_a_job_larger_than_the_cluster_waits_for_nobody():
    """It is counted, and in no average."""
    found = figures_of(
        outcome(job(0, 10.0, waited_seconds=4.0), job(1, None, state="cannot-run", waited_seconds=1000.0))
    )
    assert found["jobs.cannot-run"] == 1
    assert found["waiting.mean"] == 4.0


def test_what_is_counted_is_summed_over_all_jobs():
    """Moves, preemptions, scalings, lost training; the share of preempted jobs counts each once."""
    found = figures_of(
        outcome(
            job(0, moves=2, preemptions=3, lost_seconds=1.5, intervals=(60.0, 120.0, 180.0)),
            job(1, scale_outs=1, scale_ins=4, lost_seconds=2.0),
            moves_failed=5,
            decisions=70,
        )
    )
    expected = {
        "moves": 2,
        "moves.failed": 5,
        "preemptions": 3,
        "preempted": 0.5,
        "lost.total": 3.5,
        "scale-outs": 1,
        "scale-ins": 4,
        "interval.p50": 120.0,
        "decisions": 70,
    }
    assert {key: found[key] for key in expected} == expected


def test_a_run_without_jobs_knows_nothing_but_counts():
    """There is no average of nothing, and no division by it."""
    found = figures_of(outcome())
    assert found["completion.mean"] is None
    assert found["makespan"] is None
    assert found["waiting.mean"] is None
    assert found["moves"] == 0
