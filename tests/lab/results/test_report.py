"""Runs over several seeds, and against a baseline."""

import math
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specon_lab.results.report import MAX_TROUBLES, Verdicts, condense, report_on, verdicts
from support.lab.outcomes import filled, job, outcome

pytest.importorskip("scipy")


def run(policy, *seconds, seed=0, **fields):
    """Return a run whose jobs took so long; None: unfinished."""
    jobs = [job(number, each) for number, each in enumerate(seconds)]
    return condense(outcome(*jobs, **fields), policy, seed=seed)


def test_what_is_kept_of_a_run_survives_the_way_between_processes():
    """The columns, the figures and the stays come back as they were."""
    kept = condense(filled(), "specon:literal=true", seed=4, seconds=1.5)
    assert pickle.loads(pickle.dumps(kept)) == kept
    assert (kept.policy, kept.seed, list(kept.completion)[:2]) == ("specon:literal=true", 4, [100.0, 110.0])


@pytest.mark.parametrize(
    ("seconds", "baseline", "expected"),
    [
        (100.0, 100.0, Verdicts(unchanged=1)),
        (101.0, 100.0, Verdicts(unchanged=1)),
        (101.1, 100.0, Verdicts(hurt=1)),
        (99.0, 100.0, Verdicts(unchanged=1)),
        (98.9, 100.0, Verdicts(helped=1)),
        (None, 100.0, Verdicts(hurt=1)),
        (100.0, None, Verdicts(helped=1)),
        (None, None, Verdicts(not_comparable=1)),
    ],
)
def test_a_job_is_hurt_when_it_finishes_later_by_more_than_the_margin(seconds, baseline, expected):
    """And helped when earlier; not to complete at all is later than any time."""
    assert verdicts(run("a", seconds), run("b", baseline), 1.0) == expected


def test_the_margin_is_a_parameter():
    """With 50 % only large differences count, with 0 each one."""
    runs = run("a", 120.0, 170.0), run("b", 100.0, 100.0)
    assert verdicts(*runs, margin_percent=50) == Verdicts(hurt=1, unchanged=1)
    assert verdicts(*runs, margin_percent=0) == Verdicts(hurt=2)


times = st.lists(st.tuples(*[st.none() | st.floats(min_value=1, max_value=1e6)] * 2), max_size=20)


@given(times)
def test_every_job_has_one_verdict_and_the_other_view_is_the_mirror(pairs):
    """With no margin, who is helped under one policy is hurt under the other."""
    one, other = run("a", *[a for a, _ in pairs]), run("b", *[b for _, b in pairs])
    there, back = verdicts(one, other, 0), verdicts(other, one, 0)
    assert there.helped + there.hurt + there.unchanged + there.not_comparable == len(pairs)
    assert (there.helped, there.hurt, there.unchanged) == (back.hurt, back.helped, back.unchanged)


def test_runs_of_other_jobs_are_not_compared():
    """A pair that is none would tell nonsense."""
    other = condense(outcome(job(0, ideal_seconds=7.0)), "b", seed=0)
    with pytest.raises(ValueError, match="seed 0: a and b did not run the same jobs"):
        verdicts(run("a", 100.0), other)


def test_a_policy_is_condensed_over_its_seeds():
    """Mean and interval of the runs' figures, in the order in which policies were asked for."""
    report = report_on(
        [run("b", 100.0, seed=1), run("a", 10.0, seed=0), run("b", 300.0, seed=0), run("a", 30.0, seed=1)]
    )
    assert [summary.policy for summary in report.policies] == ["b", "a"]
    first = report.policies[0]
    assert first.seeds == (0, 1)
    assert first.figures["completion.mean"].mean == 200.0
    # s = 141.42, t(1, 0.975) = 12.706: half a width of 1270.6
    assert first.figures["completion.mean"].half_width == pytest.approx(1270.62, rel=1e-4)
    assert first.figures["slowdown.trial.p50"] is None
    assert first.against is None


def test_a_policy_is_compared_with_the_baseline_seed_by_seed():
    """Helped and hurt are counted per run; the baseline is not compared with itself."""
    report = report_on(
        [
            run("b", 100.0, 100.0, seed=0),
            run("b", 200.0, 200.0, seed=1),
            run("a", 50.0, 110.0, seed=0),
            run("a", 100.0, 200.0, seed=1),
            run("a", 1.0, 1.0, seed=2),
        ],
        baseline="b",
    )
    assert report.policies[0].against is None
    against = report.policies[1].against
    assert against.seeds == (0, 1)
    assert (against.helped.mean, against.hurt.mean, against.unchanged.mean) == (1.0, 0.5, 0.5)
    assert (against.helped_share.mean, against.hurt_share.mean) == (0.5, 0.25)
    assert against.changes["completion.mean"].difference.mean == -35.0
    assert against.changes["completion.mean"].percent.mean == pytest.approx((-20 - 25) / 2)


def test_a_policy_does_not_look_faster_for_the_jobs_that_it_leaves():
    """Completion times are compared over the jobs that completed under both."""
    report = report_on([run("b", 100.0, 900.0), run("a", 110.0, None)], baseline="b")
    against = report.policies[1].against
    assert report.policies[1].figures["completion.mean"].mean == 110.0
    assert against.changes["completion.mean"].difference.mean == 10.0
    assert against.hurt.mean == 2.0


def test_times_to_convergence_are_compared_over_the_jobs_that_converged_under_both():
    """The third job, which one of them leaves, changes nothing."""
    ours = [job(0, converged_at=40.0), job(0, converged_at=60.0), job(0)]
    theirs = [job(0, converged_at=50.0), job(0, converged_at=70.0), job(0, converged_at=1.0)]
    runs = [condense(outcome(*jobs), policy, seed=0) for policy, jobs in (("b", theirs), ("a", ours))]
    against = report_on(runs, baseline="b").policies[1].against
    assert against.changes["convergence.mean"].difference.mean == -10.0


def test_jobs_that_did_not_complete_are_listed_with_their_reason_and_bounded():
    """Twenty by name, the rest as a number."""
    report = report_on([run("a", *[None] * 25, seed=0), run("a", None, 1.0, seed=1)])
    summary = report.policies[0]
    assert len(summary.troubles) == MAX_TROUBLES
    assert summary.troubles_not_listed == 26 - MAX_TROUBLES
    first = summary.troubles[0]
    assert (first.seed, first.job, first.state) == (0, "default/job-0", "unfinished")
    assert first.reason == "waited until the end for 0 GPUs"


def test_refusals_are_added_up_the_most_frequent_first():
    """Over all runs of the policy."""
    report = report_on(
        [run("a", 1.0, refusals={"no room": 1, "budget": 5}), run("a", 1.0, seed=1, refusals={"no room": 9})]
    )
    assert list(report.policies[0].refusals.items()) == [("no room", 10), ("budget", 5)]


def test_one_seed_is_run_once():
    """Two runs of a policy with a seed would count it twice."""
    with pytest.raises(ValueError, match="seed 3: there are two runs of a"):
        report_on([run("a", 1.0, seed=3), run("a", 1.0, seed=3)])


def test_a_baseline_that_did_not_run_compares_nothing():
    """After an interruption, for instance."""
    report = report_on([run("a", 1.0)], baseline="b")
    assert report.policies[0].against is None


def test_a_job_without_completion_time_is_not_a_number_in_the_column():
    """So that the column stays one of plain numbers."""
    kept = run("a", None, 5.0)
    assert math.isnan(kept.completion[0])
    assert kept.completion[1] == 5.0
