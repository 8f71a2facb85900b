"""What a report changes, and which reports change nothing."""

import msgspec
import pytest

from specon_manager.model import events as ev
from specon_manager.model.progress import Progress
from specon_sidecar.classify import Category
from specon_sidecar.classify.curve import Estimate
from specon_sidecar.wire import Checkpoint, Observation, Report
from support.decisions.cluster import DIGEST, Cluster, replica_of

A = replica_of("a")


@pytest.fixture
def cluster():
    cluster = Cluster()
    cluster.run("a")
    return cluster


def report(sequence=1, session="one", incarnation=f"{A}.1", category=Category.PROGRESSING, **changes):
    return Report(
        schema=1,
        replica=A,
        incarnation=incarnation,
        session=session,
        sequence=sequence,
        category=category,
        **changes,
    )


def seen(step=None, value=0.5, age=0.0, name="loss"):
    return Observation(name=name, value=value, age=age, step=step)


def tell(cluster, message) -> Progress:
    cluster.post(ev.ReportReceived(message))
    return cluster.state.replicas[A].progress


def test_a_report_is_what_is_known_then(cluster):
    """Every field of it; ages become times on the manager's clock."""
    progress = tell(
        cluster,
        report(
            category=Category.WATCHING,
            category_age=3.0,
            reason="slow",
            last=seen(step=70, age=2.0),
            gain=0.004,
            total_steps=100,
            expected_gain=Estimate(value=0.1, uncertainty=0.01),
            remaining_seconds=Estimate(value=30.0, uncertainty=1.0),
            checkpoint=Checkpoint(step=60, path="/c"),
        ),
    )
    assert (progress.category, progress.category_since) == (Category.WATCHING, cluster.now - 3.0)
    assert (progress.metric, progress.value, progress.step) == ("loss", 0.5, 70)
    assert progress.step_at == cluster.now - 2.0
    assert (progress.reason, progress.gain, progress.total_steps) == ("slow", 0.004, 100)
    assert progress.expected_gain == Estimate(value=0.1, uncertainty=0.01)
    assert progress.remaining_seconds == Estimate(value=30.0, uncertainty=1.0)
    assert progress.checkpoint == Checkpoint(step=60, path="/c")
    assert progress.reported_at == cluster.now


def test_a_converged_job_falls_on_while_its_gain_falls_once_more(cluster):
    """Compared from interval to interval, from the one in which it converged on; repeated reports keep it."""
    told = ((Category.WATCHING, 0.009), (Category.CONVERGED, 0.008), (Category.CONVERGED, 0.008))
    told += ((Category.CONVERGED, 0.007), (Category.CONVERGED, 0.007), (Category.CONVERGED, None))
    told += ((Category.CONVERGED, 0.0075), (Category.CONVERGED, 0.001), (Category.PROGRESSING, 0.0005))
    found = [
        tell(cluster, report(number, category=category, gain=gain)).falls_on
        for number, (category, gain) in enumerate(told, start=1)
    ]
    assert found == [False, False, False, True, True, True, False, True, False]


def test_what_a_report_does_not_say_is_kept_where_it_still_holds(cluster):
    """Step, value, total and gain stay; estimates are of the moment and do not."""
    estimate = Estimate(value=1.0, uncertainty=0.1)
    before = tell(
        cluster,
        report(
            last=seen(step=70), gain=0.1, total_steps=100, expected_gain=estimate, remaining_seconds=estimate
        ),
    )
    after = tell(cluster, report(2))
    for name in ("step", "step_at", "value", "metric", "gain", "total_steps"):
        assert getattr(after, name) == getattr(before, name), name
    assert after.expected_gain is after.remaining_seconds is None
    assert tell(cluster, report(3, last=seen(value=None))).step == 70


@pytest.mark.parametrize("sequence", [5, 4, 0])
def test_a_doubled_or_late_report_changes_nothing(cluster, sequence):
    """Within one session only a higher number is news."""
    tell(cluster, report(5, last=seen(step=50)))
    before = cluster.state
    tell(cluster, report(sequence, last=seen(step=40), category=Category.CONVERGED))
    assert cluster.state == before


def test_lost_reports_leave_a_gap_and_nothing_else(cluster):
    """Numbers need not follow each other."""
    tell(cluster, report(1, last=seen(step=1)))
    assert tell(cluster, report(1000, last=seen(step=9))).step == 9


@pytest.mark.parametrize("incarnation", [f"{A}.0", f"{A}.2", "x"])
def test_a_report_of_another_incarnation_changes_nothing(cluster, incarnation):
    """Neither of a former one, nor of one that nobody has seen start."""
    before = cluster.state
    tell(cluster, report(99, incarnation=incarnation, last=seen(step=99)))
    assert cluster.state == before


def test_a_report_of_a_replica_that_does_not_run_changes_nothing(cluster):
    """It comes from a sidecar that outlived its trainer, or from nobody's."""
    cluster.die(A, 1)
    before = cluster.state
    tell(cluster, report(99, last=seen(step=99)))
    cluster.post(ev.ReportReceived(msgspec.structs.replace(report(1), replica=replica_of("nobody"))))
    assert cluster.state == before


def test_a_restarted_sidecar_begins_to_count_anew(cluster):
    """A new session is heard from its first report on; late ones of the former are not."""
    tell(cluster, report(50, "one", last=seen(step=50)))
    assert tell(cluster, report(1, "two", last=seen(step=51))).step == 51
    assert tell(cluster, report(51, "one", last=seen(step=49))).step == 51
    assert tell(cluster, report(2, "two", last=seen(step=52))).step == 52


def test_several_former_sessions_are_remembered(cluster):
    """A sidecar may be restarted more than once."""
    for number, session in enumerate(["one", "two", "three", "four", "five"]):
        tell(cluster, report(1, session, last=seen(step=number)))
    for session in ["one", "two", "three", "four"]:
        assert tell(cluster, report(99, session, last=seen(step=77))).step == 4


def test_a_late_first_report_of_a_dead_sidecar_silences_the_living_for_one_report_only(cluster):
    """It cannot be told from a new process, but the living one goes on reporting, and is believed again."""
    tell(cluster, report(1, "living", last=seen(step=50)))
    tell(cluster, report(1, "dead", last=seen(step=10)))
    tell(cluster, report(2, "living", last=seen(step=51)))
    assert tell(cluster, report(3, "living", last=seen(step=52))).step == 52
    assert tell(cluster, report(4, "living", last=seen(step=53))).step == 53


def test_a_former_report_that_comes_twice_is_late_and_not_alive(cluster):
    """Only a newer report of a former process counts towards its being alive."""
    tell(cluster, report(1, "one", last=seen(step=50)))
    tell(cluster, report(1, "two", last=seen(step=60)))
    for _ in range(3):
        assert tell(cluster, report(2, "one", last=seen(step=51))).step == 60


def test_a_new_incarnation_begins_a_new_session(cluster):
    """After a restart of the replica the numbers of its former sidecar mean nothing."""
    tell(cluster, report(50, "one", last=seen(step=50)))
    cluster.die(A, 1)
    cluster.settle()
    incarnation = f"{A}.2"
    assert tell(cluster, report(1, "one", incarnation, last=seen(step=7))).step == 7


def test_a_sidecar_that_knows_nothing_yet_does_not_take_back_what_was_known(cluster):
    """`unknown` from a new sidecar leaves `converged` as it is, and since when."""
    since = tell(cluster, report(1, category=Category.CONVERGED, category_age=9.0, reason="flat"))
    cluster.now += 60
    after = tell(cluster, report(1, "two", category=Category.UNKNOWN, category_age=1.0, reason="new"))
    for name in ("category", "category_since", "reason"):
        assert getattr(after, name) == getattr(since, name), name
    assert tell(cluster, report(2, "two", category=Category.PROGRESSING)).category is Category.PROGRESSING


def test_since_when_a_category_holds_does_not_jitter(cluster):
    """Heartbeats with ages that are a little off leave it alone; another category sets it."""
    first = tell(cluster, report(1, category=Category.CONVERGED, category_age=9.0)).category_since
    cluster.now += 10
    assert tell(cluster, report(2, category=Category.CONVERGED, category_age=18.2)).category_since == first
    cluster.now += 10
    after = tell(cluster, report(3, category=Category.PROGRESSING, category_age=1.0))
    assert after.category_since == cluster.now - 1.0


@pytest.mark.parametrize(
    ("known", "reported", "kept"),
    [
        ((100, True), (90, True), (100, True)),
        ((100, True), (100, False), (100, True)),
        ((100, False), (100, True), (100, True)),
        ((100, True), (110, False), (110, False)),
        (None, (5, False), (5, False)),
        ((5, False), None, (5, False)),
    ],
)
def test_the_latest_checkpoint_is_kept_and_of_the_same_step_the_verified_one(cluster, known, reported, kept):
    """A report may come without one, or with an older one; neither takes a better one away."""

    def made(what):
        return what and Checkpoint(step=what[0], path="/c", digest=DIGEST if what[1] else None)

    tell(cluster, report(1, checkpoint=made(known)))
    assert tell(cluster, report(2, checkpoint=made(reported))).checkpoint == made(kept)


def test_steps_are_no_further_apart_for_a_trainer_that_was_stopped(cluster):
    """The time it was stopped between two reports does not count; an older sidecar does not report it."""
    tell(cluster, report(1, last=seen(step=10)))
    cluster.now += 100.0
    assert tell(cluster, report(2, last=seen(step=11), stopped_seconds=80.0)).step_interval == 20.0
    cluster.now += 100.0
    assert tell(cluster, report(3, last=seen(step=12), stopped_seconds=150.0)).step_interval == 30.0
    cluster.now += 10.0
    assert tell(cluster, report(4, last=seen(step=13))).step_interval == 10.0


def test_the_first_report_of_an_unknown_replica_says_since_when(cluster):
    """Else each that starts would be unknown since ever, and its log not understood at once."""
    first = tell(cluster, report(1, category=Category.UNKNOWN, category_age=2.0)).category_since
    assert first == cluster.now - 2.0
    cluster.now += 9
    assert tell(cluster, report(2, category=Category.UNKNOWN, category_age=11.2)).category_since == first
