"""How much a job has left: measured, else as long as its kind takes, else a guess."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specon_manager.model.cluster import Phase
from specon_manager.policies.expectation import Expectation, residual
from specon_manager.policies.progress import ProgressSettings, propose
from specon_sidecar.classify import Category
from support.decisions.expected import in_place, left, left_alone, served, sharing, worlds
from support.decisions.gang_worlds import NOW, Layout, nodes_of, spec_of

CORES = {"cpu": 8.0}


def remaining(layout, job, prior=600.0):
    snapshot = layout.snapshot
    return Expectation(snapshot, prior_seconds=prior).remaining(snapshot.jobs[f"default/{job}"])


def shared(*places):
    """Return jobs j0, j1, ... that share nodes of eight cores, and trained from now on."""
    layout = Layout(nodes_of(2, **CORES))
    for number, place in enumerate(places):
        layout.add(sharing(f"j{number}"), place, trains_since=NOW)
    return layout


def test_where_nothing_was_learnt_the_prior_counts():
    """`prior_seconds`, for a job that waits and has never trained."""
    assert remaining(Layout().add(spec_of("j")), "j", prior=42.0) == 42.0


@pytest.mark.parametrize(("jobs", "seconds"), [(2, 600.0), (3, 100.0)])
def test_the_mean_of_a_kind_counts_from_three_jobs_on(jobs, seconds):
    """One or two may have been anything."""
    layout = served(Layout().add(spec_of("j", kind="vae")), vae=(jobs, 100.0))
    assert remaining(layout, "j") == seconds


def test_an_unknown_kind_takes_as_long_as_all_known_jobs_do():
    """The mean over jobs, not over kinds."""
    layout = served(Layout().add(spec_of("j", kind="new")), vae=(3, 100.0), gan=(9, 500.0))
    assert remaining(layout, "j") == 400.0


def test_a_job_without_a_kind_is_of_the_kind_of_its_class():
    """As the core learns it."""
    layout = served(Layout().add(spec_of("j")), **{"best-effort": (3, 70.0), "trial": (9, 5.0)})
    assert remaining(layout, "j") == 70.0


@pytest.mark.parametrize(("trained", "seconds"), [(0, 600), (200, 400), (300, 300), (700, 700)])
def test_what_was_trained_counts_until_half_the_mean_then_against_it(trained, seconds):
    """A job that outlives the expectation has as much to come as it had already: a heavy tail."""
    layout = Layout().add(spec_of("j"), "0", trains_since=NOW - trained)
    assert remaining(layout, "j") == seconds


def test_a_reported_time_comes_before_the_mean_and_counts_down():
    """500 s left, said 30 s ago."""
    layout = served(left(Layout().add(spec_of("j"), "0"), "j", 500.0, at=NOW - 30), trial=(9, 5.0))
    assert remaining(layout, "j") == 470.0


def test_time_in_the_queue_does_not_shorten_what_is_left():
    """A job that was preempted has after an hour of waiting what it had before."""
    layout = left(Layout().add(spec_of("j")), "j", 500.0, at=NOW - 3600)
    assert remaining(layout, "j") == 500.0


def test_time_in_the_queue_does_not_shorten_what_is_left_after_the_start_either():
    """Until the next report only what it trained since it goes on counts."""
    layout = Layout().add(spec_of("j"), "0", trains_since=NOW - 20)
    assert remaining(left(layout, "j", 500.0, at=NOW - 3600), "j") == 480.0
    alone = left_alone(shared("0"), "j0", 100.0, at=NOW - 3600)
    assert remaining(alone, "j0") == 100.0


def test_cpu_seconds_say_how_long_a_sharing_job_takes_alone():
    """Steps left, times CPU seconds of a step, on all cores of its node; whatever time it got so far."""
    layout = left_alone(left(shared("0", "0"), "j0", 9000.0), "j0", 100.0)
    assert remaining(layout, "j0") == pytest.approx(100.0)


@pytest.mark.parametrize(("weight", "done"), [(1.0, 10.0), (1 / 3, 5.0)])
def test_cpu_seconds_count_down_by_the_share_of_the_weight(weight, done):
    """What a job did within 20 s beside another of the same weight, or of thrice that."""
    layout = left_alone(shared("0", "0"), "j0", 100.0, at=NOW - 20)
    for number in range(2):
        record = layout.state.jobs[f"default/j{number}"]
        layout.state = layout.state.with_job(msgspec.structs.replace(record, trains_since=NOW - 50))
    layout.change("j0/worker/0", weight=weight)
    assert remaining(layout, "j0") == pytest.approx(100.0 - done)


def test_a_job_that_reserves_cores_goes_by_time():
    """Its CPU seconds are spent on its own cores, not on all of the node."""
    layout = left_alone(Layout(nodes_of(1, **CORES)).add(spec_of("j"), "0"), "j", 100.0)
    assert remaining(layout, "j") == 900.0  # it trained for 900 s, the prior is 600


def test_a_total_that_is_not_known_leaves_nothing_measured():
    """Steps without an end say nothing."""
    layout = left(Layout().add(spec_of("j"), "0", trains_since=NOW), "j", 500.0)
    record = layout.state.replicas["default/j/worker/0"].progress
    changed = type(record)(step=record.step, remaining_seconds=record.remaining_seconds, reported_at=NOW)
    layout.change("j/worker/0", progress=changed)
    assert remaining(layout, "j") == 600.0


def test_a_sharing_job_that_never_got_its_turn_has_trained_for_what_it_did():
    """900 s beside others, in which it did ten seconds of work: the rest of the mean is to come."""
    layout = Layout(nodes_of(1, **CORES)).add(sharing("j"), "0")
    record = layout.state.replicas["default/j/worker/0"].progress
    layout.change("j/worker/0", progress=type(record)(step=100, cpu_per_step=0.8, reported_at=NOW))
    assert remaining(layout, "j") == pytest.approx(590.0)


@given(worlds(), st.sampled_from([1.0, 600.0]))
def test_everybody_has_something_left(layout, prior):
    """It is above 0 and finite for any reports, and the order of the questions does not matter."""
    snapshot = layout.snapshot
    expected = Expectation(snapshot, prior_seconds=prior)
    found = {job.name: expected.remaining(job) for job in snapshot.jobs.values()}
    assert all(0 < seconds < 1e9 for seconds in found.values())
    again = Expectation(snapshot, prior_seconds=prior)
    assert {job.name: again.remaining(job) for job in reversed(snapshot.jobs.values())} == found
    waits = [
        job
        for job in snapshot.jobs.values()
        if not any(snapshot.replicas[name].phase is Phase.RUNNING for name in job.spec.replicas)
    ]
    assert all(expected.attained(job) == 0 for job in waits)


# -- the rest of a kind ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("attained", "left_then"),
    [(0.0, 200.0), (150.0, 100.0), (250.0, 50.0), (300.0, pytest.approx(122.5, 0.01))],
)
def test_what_is_left_is_what_longer_jobs_of_the_kind_had_left_then(attained, left_then):
    """Of 100, 200 and 300 s; who has outlived them all needs the longer, the more they differ."""
    assert residual([100.0, 200.0, 300.0], attained) == left_then


def test_a_well_known_kind_has_little_left_at_its_end():
    """At 95 % of 1,000 s that is 50 s, and not 950 s."""
    assert residual([1000.0] * 5, 950.0) == 50.0


# -- the objective ---------------------------------------------------------------------------------


def ranked(layout, job, objective):
    snapshot = layout.snapshot
    expected = Expectation(snapshot, prior_seconds=600.0, objective=objective)
    return expected.rank(snapshot.jobs[f"default/{job}"])


def curve(layout, job, category, until=None):
    """Let the sidecar say how far the job is from convergence."""
    for name in layout.state.jobs[f"default/{job}"].spec.replicas:
        told = msgspec.structs.replace(
            layout.state.replicas[name].progress, category=category, until_converged=until
        )
        layout.change(name.removeprefix("default/"), progress=told)
    return layout


@pytest.mark.parametrize(
    ("objective", "gains", "converged"),
    [("completion", 100.0, 100.0), ("balanced", 40.0, 200.0), ("quality", 20.0, 1e8)],
)
def test_a_job_ranks_by_its_end_by_its_convergence_or_by_both(objective, gains, converged):
    """100 s left, of them 20 until it has converged: min(20 / w, 100), and then 100 / (1 - w)."""
    layout = left(Layout().add(spec_of("j"), "0"), "j", 100.0)
    assert ranked(curve(layout, "j", Category.PROGRESSING, 0.2), "j", objective) == pytest.approx(gains)
    assert ranked(curve(layout, "j", Category.CONVERGED, 0.0), "j", objective) == pytest.approx(converged)


@pytest.mark.parametrize("category", [Category.UNKNOWN, Category.STALLED, Category.DIVERGING])
@pytest.mark.parametrize("objective", ["completion", "balanced", "quality"])
def test_a_job_that_cannot_be_classified_ranks_by_its_end(category, objective):
    """Whatever was said of its curve before."""
    layout = left(Layout().add(spec_of("j"), "0"), "j", 100.0)
    assert ranked(curve(layout, "j", category, 0.2), "j", objective) == 100.0


@given(st.floats(1.0, 1e6), st.floats(0.0, 1.0), st.booleans())
def test_a_verdict_alone_at_most_doubles_what_a_job_counts_as_having_left(seconds, until, converged):
    """So a wrong one puts it behind jobs that take up to twice as long, and behind no others."""
    layout = left(Layout().add(spec_of("j"), "0"), "j", seconds)
    category = Category.CONVERGED if converged else Category.WATCHING
    assert ranked(curve(layout, "j", category, until), "j", "balanced") <= 2 * seconds * (1 + 1e-9)


def test_a_converged_job_gives_its_turn_on_a_node_to_one_that_gains():
    """Both have 100 s left; which of them that is changes with the verdict, in place."""
    layout = in_place(Layout(nodes_of(1, **CORES)))
    for name in ("a", "b"):
        left_alone(layout.add(sharing(name), "0", trains_since=NOW), name, 100.0)
    curve(layout, "a", Category.CONVERGED)
    curve(layout, "b", Category.PROGRESSING, 0.5)
    weights = {each.replica: each.weight for each in propose(layout.snapshot, ProgressSettings())}
    assert weights == {"default/a/worker/0": 0.02}
