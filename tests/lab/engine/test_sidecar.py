"""The simulated sidecar: real judgements in virtual time."""

import itertools
import math
from statistics import fmean, median

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specon_lab.engine.loss import value
from specon_lab.engine.remaining import deviation
from specon_lab.engine.sidecar import Sidecar
from specon_lab.workloads.workload import LossCurve, Submission, Training
from specon_manager.model.cluster import JobSpec
from specon_sidecar import wire
from specon_sidecar.classify import Category, ClassifierSettings

VAE = LossCurve(rate=5.2)
SECONDS = 215.0


def sidecar(*, job="job", classifier=None, seed=1, oracle=False, interval=30.0, **training):
    replicas = tuple(f"ns/{job}/worker/{index}" for index in range(2))
    spec = JobSpec(name=f"ns/{job}", replicas=replicas)
    training = {"seconds": SECONDS, "steps": 5000} | training
    submission = Submission(at=0.0, spec=spec, training=Training(**training))
    return Sidecar(submission, seed=seed, oracle=oracle, interval=interval, classifier=classifier)


def specon(alpha, **settings):
    return ClassifierSettings(classifier="specon", alpha=alpha, **settings)


def follow(one, rate, *, begin=0.0):
    """Return the reports from an undisturbed run, each asked for when it is due."""
    now, reports = begin, [one.report(begin, 0.0, rate, "i-1", first=True)]
    while (now := one.next_due(now, (now - begin) * rate, rate)) < begin + 1 / rate:
        reports.append(one.report(now, (now - begin) * rate, rate, "i-1", first=False))
        assert len(reports) < 1000
    return reports


def algorithm_1(curve, rate, interval, alpha):
    """Return after how many intervals Algorithm 1 says converged, from the exact means of the curve."""
    count = int(1 / (rate * interval))
    means = [
        fmean(value(curve, (k + part / 1000) * rate * interval) for part in range(1000)) for k in range(count)
    ]
    gains = [None, *(abs(now - before) / means[0] for before, now in itertools.pairwise(means))]
    state = 0
    for k in range(1, count):
        falling = gains[k] < (gains[k - 1] or math.inf)
        state = 0 if gains[k] >= alpha else min(2, state + falling)
        if state == 2:
            return k + 1
    return None


@pytest.mark.parametrize(("sharing", "alpha", "expected"), [(1, 0.05, 7), (4, 0.01, 19), (1, 0.01, None)])
def test_a_vae_converges_after_as_many_intervals_as_algorithm_1_says(sharing, alpha, expected):
    """At a share of 1 / n of its node, intervals of 30 s: means that fall by exp(-5.2 * 30 / 215 / n) each.

    The gain relative to the first mean is 0.0585, 0.0283 and 0.0137 in the intervals 5 to 7 of a VAE that
    runs alone: watching in the 6th and converged in the 7th for alpha 0.05, never for 0.01.
    """
    rate = 1 / SECONDS / sharing
    assert algorithm_1(VAE, rate, 30.0, alpha) == expected
    reports = follow(sidecar(curve=VAE, classifier=specon(alpha)), rate)[1:]
    converged = [k + 1 for k, report in enumerate(reports) if report.category is Category.CONVERGED]
    assert (converged[0] if converged else None) == expected
    if expected:
        assert reports[expected - 2].category is Category.WATCHING
        assert reports[expected - 1].category_age == 0.0


def test_the_interval_given_counts_and_not_the_classifiers_own():
    """Twice as long intervals: half as many reports at the same progress."""
    rate = 1 / SECONDS / 4
    short = follow(sidecar(curve=VAE, classifier=specon(0.01)), rate)
    long = follow(sidecar(curve=VAE, classifier=specon(0.01), interval=60.0), rate)
    assert len(short) - 1 == 2 * (len(long) - 1) == 28


def test_horizon_says_converged_when_little_is_to_come():
    """The default classifier's verdict comes when at most a few percent of the gain are left, and stays."""
    rate = 1 / 3000.0
    reports = follow(sidecar(seconds=3000.0, curve=LossCurve(rate=8.0, noise=0.005)), rate)
    categories = [report.category for report in reports]
    first = categories.index(Category.CONVERGED)
    assert value(LossCurve(rate=8.0), first * 30.0 * rate) < 0.05
    assert set(categories[first:]) == {Category.CONVERGED}
    assert reports[first].confidence is not None
    assert reports[first].remaining_gain is not None


def test_literal_judges_by_last_values():
    """With `literal`, Algorithm 1 begins in progressing and takes the last samples, absolutely."""
    reports = follow(sidecar(curve=VAE, classifier=specon(0.01, literal=True)), 1 / SECONDS)
    assert reports[0].category is Category.PROGRESSING
    last = [report.last.value for report in reports[1:]]
    assert [report.gain for report in reports[2:]] == pytest.approx(
        [before - now for before, now in itertools.pairwise(last)]
    )


def test_a_rising_curve_is_an_accuracy_and_converges_as_well():
    """More is better where the floor is above the first value."""
    reports = follow(sidecar(seconds=3000.0, curve=LossCurve(first=0.1, floor=0.9)), 1 / 3000.0)
    assert reports[-1].category is Category.CONVERGED
    assert reports[-1].last.name == "accuracy"
    assert all(report.category is not Category.DIVERGING for report in reports)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.floats(0.5, 45.0), min_size=1, max_size=40))
def test_verdicts_do_not_depend_on_how_often_one_asks(pauses):
    """Reports in between, or later than due, change no judgement: intervals end when they end."""
    rate = 1 / SECONDS / 4
    curve = LossCurve(rate=5.2, noise=0.01)
    steady, other = (sidecar(curve=curve, classifier=specon(0.01), steps=1000) for _ in range(2))
    steady.report(0.0, 0.0, rate, "i", first=True)
    other.report(0.0, 0.0, rate, "i", first=True)
    now = 0.0
    for pause in pauses:
        now = min(now + pause, 830.0)
        other.report(now, now * rate, rate, "i", first=False)
    end = math.ceil(now / 30.0) * 30.0
    for k in range(1, round(end / 30.0) + 1):
        expected = steady.report(k * 30.0, k * 30.0 * rate, rate, "i", first=False)
    if end:
        found = other.report(end, end * rate, rate, "i", first=False)
        assert (found.category, found.last.step) == (expected.category, expected.last.step)
        assert (found.gain or 0.0) == pytest.approx(expected.gain or 0.0, rel=1e-9)
        assert found.samples == expected.samples


@given(
    st.booleans(), st.booleans(), st.booleans(), st.lists(st.floats(0.0, 1000.0), max_size=12), st.randoms()
)
@settings(max_examples=60, deadline=None)
def test_every_report_is_one_that_a_manager_takes(curve, total, oracle, pauses, random):
    """Whatever happens (pauses, restarts, work lost), reports are valid on the wire and never contradict."""
    one = sidecar(curve=VAE if curve else None, prints_total=total, oracle=oracle)
    now, done, sequence = 0.0, 0.0, 0
    for pause in pauses:
        first = random.random() < 0.3
        rate = random.choice([0.0, 0.001, 0.01])
        now += pause
        done = done * random.random() if first else min(1.0, done + rate * pause)
        report = one.report(now, done, rate, "i", first=first)
        assert wire.decode_report(wire.encode(report)) == report
        assert report.sequence == (sequence := sequence + 1)
        assert (report.total_steps is None) or total or oracle
        assert report.last is None or report.last.step <= round(done * 5000) + 1
        assert one.next_due(now, done, rate) >= now
        assert one.next_step(now, done, rate) >= now


def test_a_resume_is_proven_at_the_next_step():
    """After a move the new incarnation shows a step after the saved one, as soon as one is printed."""
    for curve in (None, VAE):
        one, rate = sidecar(curve=curve), 1 / SECONDS
        one.report(0.0, 0.0, rate, "i-1", first=True)
        one.report(30.0, 30.0 * rate, rate, "i-1", first=False)
        saved = 40.0 * rate
        at_once = one.report(50.0, saved, rate, "i-2", first=True)
        assert at_once.incarnation == "i-2"
        assert at_once.last.step <= int(saved * 5000)
        due = one.next_due(50.0, saved, rate)
        assert 50.0 < due == one.next_step(50.0, saved, rate) <= 52.0
        proof = one.report(due, saved + (due - 50.0) * rate, rate, "i-2", first=False)
        assert proof.last.step > int(saved * 5000)
        assert proof.first.step == at_once.first.step
        assert one.next_due(due, saved + (due - 50.0) * rate, rate) > due + 20.0


def test_a_single_report_at_the_next_step_proves_a_resume_too():
    """A first request at the time of the printed step has its proof in that report."""
    for curve in (None, VAE):
        one, rate = sidecar(curve=curve), 1 / SECONDS
        one.report(30.0, 30.0 * rate, rate, "i-1", first=True)
        due = one.next_step(40.0, 40.0 * rate, rate)
        proof = one.report(due, due * rate, rate, "i-2", first=True)
        assert proof.first == proof.last
        assert proof.last.step > int(40.0 * rate * 5000)


def test_a_verdict_outlives_a_move():
    """As with the state file: a job that converged is converged after a move, its age without the pause."""
    one, rate = sidecar(curve=VAE, classifier=specon(0.01)), 1 / SECONDS / 4
    for k in range(21):
        before = one.report(30.0 * k, 30.0 * k * rate, rate, "i-1", first=k == 0)
    assert (before.category, before.category_age) == (Category.CONVERGED, 30.0)
    after = one.report(605.0, 600.0 * rate, rate, "i-2", first=True)
    assert (after.category, after.category_age) == (Category.CONVERGED, 30.0)
    later = one.report(635.0, 630.0 * rate, rate, "i-2", first=False)
    assert (later.category, later.category_age) == (Category.CONVERGED, 60.0)


def test_a_training_that_pauses_long_is_stalled():
    """Silence for ten intervals is a stall, and the sidecar of a paused incarnation says so."""
    one, rate = sidecar(curve=VAE), 1 / SECONDS
    one.report(0.0, 0.0, rate, "i", first=True)
    one.report(60.0, 60.0 * rate, rate, "i", first=False)
    assert one.report(400.0, 60.0 * rate, 0.0, "i", first=False).category is Category.STALLED


def test_years_without_a_question_are_caught_up_in_no_time():
    """The intervals that are closed in one call are bounded."""
    one = sidecar(seconds=1e9, curve=VAE)
    one.report(0.0, 0.0, 1e-9, "i", first=True)
    report = one.report(5e8, 0.5, 1e-9, "i", first=False)
    assert report.last.step == 2500
    assert report.samples < 3000


def test_the_last_step_is_printed():
    """A complete training shows its total, whatever the steps between two lines."""
    one = sidecar(curve=VAE, steps=997)
    one.report(0.0, 0.0, 1 / SECONDS, "i", first=True)
    report = one.report(SECONDS, 1.0, 1 / SECONDS, "i", first=False)
    assert report.last.step == report.total_steps == 997
    assert one.next_due(SECONDS, 1.0, 0.0) == math.inf


@pytest.mark.parametrize("curve", [None, VAE])
def test_an_oracle_knows_exactly(curve):
    """With `oracle` the remaining time is the truth, at once, and due again when the rate changes."""
    one, rate = sidecar(curve=curve, oracle=True, prints_total=False), 1 / SECONDS
    first = one.report(0.0, 0.0, rate, "i", first=True)
    assert (first.remaining_seconds.value, first.remaining_seconds.uncertainty) == (
        pytest.approx(SECONDS),
        0.0,
    )
    assert one.next_due(10.0, 10.0 * rate, rate / 2) == 10.0
    slower = one.report(10.0, 10.0 * rate, rate / 2, "i", first=False)
    assert slower.remaining_seconds.value == pytest.approx(2 * (SECONDS - 10.0))
    assert one.next_due(10.0, 10.0 * rate, rate / 2) > 10.0


def test_what_no_log_says_nobody_knows():
    """No total, no remaining time, and no report but the first; an oracle aside."""
    one, rate = sidecar(prints_total=False, seconds=1e5), 1e-5
    report = one.report(0.0, 0.0, rate, "i", first=True)
    assert (report.total_steps, report.remaining_seconds, report.category) == (None, None, Category.UNKNOWN)
    assert one.next_due(0.0, 0.0, rate) == math.inf
    assert one.report(5e4, 0.5, rate, "i", first=False).remaining_seconds is None


def test_a_job_without_a_curve_reports_rarely():
    """Once there is a pace, then at twice the time in training, at most 64 intervals later."""
    one, rate, now = sidecar(seconds=20000.0), 1 / 20000.0, 0.0
    one.report(now, 0.0, rate, "i", first=True)
    times = []
    while (now := one.next_due(now, now * rate, rate)) < 20000.0:
        times.append(now)
        one.report(now, now * rate, rate, "i", first=False)
    assert times[:7] == [60.0, 120.0, 240.0, 480.0, 960.0, 1920.0, 3840.0]
    assert max(after - before for before, after in itertools.pairwise(times)) == 64 * 30.0


def test_another_speed_is_news_within_an_interval():
    """Without a curve, too, a new speed is reported soon; a pause is no speed."""
    one, rate = sidecar(seconds=1e5), 1e-5
    one.report(0.0, 0.0, rate, "i", first=True)
    one.report(1000.0, 0.01, rate, "i", first=False)
    assert one.next_due(1000.0, 0.01, rate) == 2000.0
    assert one.next_due(1000.0, 0.01, rate / 2) == 1030.0
    assert one.next_due(1000.0, 0.01, 0.0) == math.inf


@pytest.mark.parametrize("done", [0.05, 0.5, 0.9])
def test_the_remaining_time_is_as_wrong_as_the_real_one(done):
    """Over many jobs the error is that of recorded runs, larger early, never nothing, and mostly admitted."""
    rate, errors, inside = 1e-4, [], 0
    for k in range(400):
        one = sidecar(job=f"job-{k}", seconds=1e4)
        one.report(0.0, 0.0, rate, "i", first=True)
        left = (1 - done) * 1e4
        estimate = one.report(done * 1e4, done, rate, "i", first=False).remaining_seconds
        errors.append(abs(estimate.value - left) / left)
        inside += abs(estimate.value - left) <= estimate.uncertainty
    assert 0 not in errors
    assert median(errors) == pytest.approx(0.6745 * deviation(done), rel=0.15)
    assert inside > 0.9 * 400


def test_a_curve_has_the_same_kind_of_error():
    """A steady pace would be measured exactly; a report is not that good, nor what is to come."""
    reports = follow(sidecar(curve=LossCurve(rate=5.2), steps=50000, seconds=3000.0), 1 / 3000.0)
    report, left = reports[50], 1500.0
    error = abs(report.remaining_seconds.value - left) / left
    assert 0.001 < error < 0.1
    assert report.expected_gain.value == pytest.approx(
        report.gain * report.remaining_seconds.value / 30.0 / 2
    )


def test_same_seed_same_reports_other_seed_others():
    """All that is random comes from the seed and the job's name."""
    curve = LossCurve(rate=5.2, noise=0.02)
    one, same, other = (follow(sidecar(curve=curve, seed=seed), 1 / SECONDS) for seed in (1, 1, 2))
    assert one == same
    assert [report.last and report.last.value for report in one] != [
        report.last and report.last.value for report in other
    ]


def test_a_report_can_be_of_another_replica():
    """A gang has one curve, and each of its workers may be heard with it."""
    one = sidecar(curve=VAE)
    first = one.report(0.0, 0.0, 1 / SECONDS, "i-0", first=True)
    second = one.report(0.0, 0.0, 1 / SECONDS, "i-1", first=False, replica="ns/job/worker/1")
    assert (first.replica, second.replica) == ("ns/job/worker/0", "ns/job/worker/1")


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ((5.0, 0.1, 0.1), "now 5.0"),
        ((20.0, 1.5, 0.1), "done 1.5"),
        ((20.0, math.nan, 0.1), "done nan"),
        ((20.0, 0.1, -1.0), "rate -1.0"),
    ],
)
def test_an_argument_out_of_bounds_is_named(arguments, named):
    """Bad input is an error with the argument and its value."""
    one = sidecar()
    one.report(10.0, 0.1, 0.1, "i", first=True)
    with pytest.raises(ValueError, match=named):
        one.report(*arguments, "i", first=False)


def test_an_interval_of_nothing_is_refused():
    """The interval is a positive time."""
    with pytest.raises(ValueError, match=r"interval 0\.0"):
        sidecar(interval=0.0)


def test_a_job_without_a_curve_converges_where_it_is_said_to():
    """From its first pace on it says how much of the rest is before that, and at that moment that it has."""
    rate = 1 / 1000
    reports = follow(sidecar(converges=0.4, seconds=1000.0), rate)
    assert reports[0].category is Category.UNKNOWN
    told = [report for report in reports if report.until_converged is not None]
    for report in told:
        done = report.last.step / 5000
        assert report.category is Category.PROGRESSING
        assert report.until_converged == pytest.approx((0.4 - done) / (1 - done), abs=1e-3)
    converged = [report for report in reports if report.category is Category.CONVERGED]
    assert told
    assert converged[0].last.step == pytest.approx(0.4 * 5000, abs=1)
    assert {report.until_converged for report in converged} == {None}


def test_a_job_that_is_never_said_to_converge_has_no_category():
    """Whose log holds no value cannot be judged."""
    assert {report.category for report in follow(sidecar(), 1 / SECONDS)} == {Category.UNKNOWN}


def test_one_that_trained_before_is_measured_a_minute_after_it_began():
    """Heard the first time when 41 s are over, it is heard again 19 s later, with its pace."""
    rate = 1 / 1000
    one = sidecar(seconds=1000.0)
    assert one.report(0.0, 0.041, rate, "i-1", first=True).remaining_seconds is None
    due = one.next_due(0.0, 0.041, rate)
    assert due == pytest.approx(19.0)
    assert one.report(due, 0.06, rate, "i-1", first=False).remaining_seconds is not None
