import math
import sys
from datetime import UTC, datetime

import msgspec
import pytest

from specon_sidecar.classify import Category, ClassifierSettings
from specon_sidecar.following.file_position import FilePosition
from specon_sidecar.formats.parser import FormatOptions
from specon_sidecar.formats.table import make_reader
from specon_sidecar.observing.observer import Observer
from specon_sidecar.observing.resume import begin
from specon_sidecar.observing.state_file import load, save
from specon_sidecar.reporting.console import Narrator
from specon_sidecar.settings import Settings
from specon_sidecar.wire import decode_report, encode

SETTINGS = ClassifierSettings(classifier="specon", alpha=0.01, interval=10)


def lines(values, start=1):
    return [f"step={step} loss={value}".encode() for step, value in enumerate(values, start)]


def observer(**changes):
    settings = msgspec.structs.replace(SETTINGS, **changes)
    return Observer(settings, make_reader("auto", FormatOptions()), 0.0)


def report(subject, now=100.0):
    return subject.report(now, replica="ns/job/worker/0", incarnation="uid", session="s")


def test_intervals_are_judged_from_lines():
    """Lines in, a judgement per interval out: the SpeCon example from a log."""
    subject = observer()
    seen = []
    for number, value in enumerate([1.0, 0.5, 0.493, 0.488, 0.485]):
        subject.take(lines([value] * 4, start=4 * number + 1), 10.0 * number + 1)
        seen.append(subject.tick(10.0 * number + 10).category)
    assert seen[1:] == [Category.PROGRESSING, Category.WATCHING, Category.CONVERGED, Category.CONVERGED]
    assert (subject.lines, subject.samples, subject.unparsed, subject.step) == (20, 20, 0, 20)


def test_a_report_tells_first_and_last_with_their_ages():
    """The first sample is the proof of a resume; ages count from when they arrived."""
    subject = observer()
    subject.take(lines([2.0, 1.0, 0.5]), 90.0)
    told = report(subject)
    assert (told.first.step, told.first.age, told.last.value) == (1, 10.0, 0.5)


@pytest.mark.parametrize(
    ("stamp", "age"),
    [
        (b"2026-11-25T12:00:00.600Z ", 10.4),  # it was read 0.4 s late
        (b"", 10.0),  # a log without times: its time is that of the reading
        (b"2026-11-25T12:00:05.000Z ", 10.0),  # nothing is read before it is written
        (b"2026-11-25T11:00:00.000Z ", 20.0),  # nor was it written before this sidecar was started
    ],
)
def test_a_first_sample_has_the_time_that_its_log_gives_it(stamp, age):
    """A trainer may be faster than its sidecar begins to read."""
    subject = observer()
    wall = datetime(2026, 11, 25, 12, 0, 1, tzinfo=UTC).timestamp()
    subject.take([stamp + line for line in lines([2.0, 1.0, 0.5])], 0.0, wall)
    told = report(subject, 10.0)
    assert (told.first.step, told.first.age) == (1, pytest.approx(age))


@pytest.mark.parametrize("value", ["nan", "inf", "1e308", "-1e308", "5e-324"])
def test_reports_keep_to_the_bounds_of_the_wire(value):
    """Whatever a log prints, the report of it is one that a manager takes."""
    subject = observer()
    for number in range(6):
        subject.take(lines([1e-300, value, -1e308, value], start=4 * number), 10.0 * number)
        subject.tick(10.0 * number + 5)
        assert decode_report(encode(report(subject)))


@pytest.mark.parametrize("former", [True, False])
def test_the_largest_number_is_no_value(former):
    """A loop prints it in the place of infinity; no mean of it breaks, however often it comes."""
    subject = observer()
    values = [2 - k / 400 for k in range(400)] + [sys.float_info.max] * 300
    if former:
        subject.take_history(lines(values), 0.0)
        subject.end_history(0.0)
    for number in range(70):
        subject.take(lines(values[10 * number : 10 * number + 10], start=10 * number), 10.0 * number)
        subject.tick(10.0 * number + 5)
    assert subject.judgement.category is Category.DIVERGING
    assert decode_report(encode(report(subject)))


def test_a_log_without_samples_is_not_classifiable():
    """After a thousand lines without a sample the log is given up; its last lines are kept."""
    subject = observer()
    subject.take([b"hello world"] * 1000, 1.0)
    assert subject.tick(10.0).category is Category.NOT_CLASSIFIABLE
    assert subject.examples == ("hello world",) * 3


def test_history_gives_the_scale_and_no_proof():
    """Old lines tell first and last value as one interval; the first fresh line is the first sample."""
    subject = observer()
    subject.take_history(lines([2.0, *([1.0] * 500)]), 0.0)
    subject.end_history(0.0)
    assert (subject.judgement.first, subject.judgement.value) == (2.0, 1.0)
    assert subject.judgement.category is Category.PROGRESSING
    assert report(subject).first is None
    subject.take(lines([0.99], start=502), 1.0)
    assert report(subject).first.step == 502
    assert subject.tick(10.0).gain == pytest.approx(0.005)


def epochs(values, start=1):
    return [f"Epoch {epoch}/40, Loss: {value}".encode() for epoch, value in enumerate(values, start)]


def test_a_log_of_epochs_counts_them_as_steps():
    """Most scripts print no other place: an epoch after the checkpoint's proves a resume as a step does."""
    subject = observer()
    subject.take(epochs([2.0, 1.5, 1.2]), 90.0)
    told = report(subject)
    assert (told.first.step, told.last.step, told.total_steps, subject.step) == (1, 3, 40, 3)
    later = observer()
    later.take_history(epochs([2.0, 1.5, 1.2]), 100.0)
    later.end_former(100.0, 5.0)
    later.take(epochs([1.0], start=4), 101.0)
    told = report(later)
    assert (told.former.step, told.first.step, told.last.step) == (3, 4, 4)


@pytest.mark.parametrize(
    "mixed",
    [
        [b"Epoch 0.5, Loss: 2.0", b"Epoch 1, Loss: 1.5", b"Epoch 1.5, Loss: 1.2", b"Epoch 2, Loss: 1.0"],
        [b"Epoch 1, step 10, Loss: 2.0", b"Epoch 1, step 20, Loss: 1.5", b"Epoch 2, step 30, Loss: 1.0"],
    ],
    ids=["parts of epochs", "steps"],
)
def test_epochs_are_no_steps_where_they_count_otherwise(mixed):
    """Half an epoch is no place that can be compared, and beside steps an epoch is none."""
    subject = observer()
    subject.take(mixed, 90.0)
    assert not subject.by_epochs
    assert subject.step in {None, 30}
    assert report(subject).last.step == subject.step


def test_nan_at_the_end_of_the_history_is_history():
    """A run that diverged and was resumed before that is not diverging."""
    subject = observer()
    subject.take_history(lines([2.0, 1.0, 1.0, *([math.nan] * 9)]), 0.0)
    subject.end_history(0.0)
    assert subject.tick(10.0).category is Category.PROGRESSING


def settings(tmp_path, **changes):
    return Settings(
        log=str(tmp_path / "log"),
        format="key-value",
        state_file=str(tmp_path / "state"),
        classifier=SETTINGS,
        **changes,
    )


def leave_state(tmp_path, incarnation="a"):
    """Follow a converging log as incarnation `a`, and leave its state; return the observer."""
    (tmp_path / "log").write_bytes(b"".join(line + b"\n" for line in lines([1.0, 0.5, 0.493])))
    first, start = begin(settings(tmp_path, incarnation=incarnation), 0.0)
    assert start.offset == 0
    for number, line in enumerate((tmp_path / "log").read_bytes().splitlines()):
        first.take([line], 10.0 * number)
        first.tick(10.0 * number + 5)
    whole = begin(settings(tmp_path, incarnation=incarnation, fresh_from=None), 0.0).start
    save(
        first.state(50.0, incarnation, whole),
        tmp_path / "state",
    )
    return first


def test_state_is_taken_up_by_the_same_incarnation(tmp_path):
    """A restarted sidecar has the same category, since when, counters and first sample, and reads on."""
    before = leave_state(tmp_path)
    after, start = begin(settings(tmp_path, incarnation="a"), 1000.0)
    assert after.judgement.category is before.judgement.category
    assert after.judgement.since == pytest.approx(before.judgement.since)
    # What the trainer gained meanwhile took so many intervals more.
    assert after.judgement.idle_intervals == before.judgement.idle_intervals + (1000 - 50) / SETTINGS.interval
    assert (after.lines, after.samples) == (before.lines, before.samples)
    assert report(after, 1000.0).first.step == 1
    assert start.offset == (tmp_path / "log").stat().st_size


def test_state_is_taken_up_by_the_next_incarnation_without_its_proof(tmp_path):
    """The next incarnation has the curve and the category, but must show a sample of its own."""
    before = leave_state(tmp_path)
    with (tmp_path / "log").open("ab") as log:
        log.write(b"step=5 loss=0.48\n")
    size = (tmp_path / "log").stat().st_size
    after, start = begin(settings(tmp_path, incarnation="b", fresh_from=size), 0.0)
    assert after.judgement.category is before.judgement.category is Category.WATCHING
    assert (after.step, after.samples, after.first_seen) == (5, 0, False)
    assert start.offset == size


def test_without_state_the_log_before_is_history(tmp_path):
    """What was in the log when the incarnation started tells the scale and proves nothing."""
    (tmp_path / "log").write_bytes(b"".join(line + b"\n" for line in lines([2.0, 1.0, 0.9, 0.8])))
    subject, start = begin(settings(tmp_path, incarnation="b", fresh_from=None), 0.0)
    assert (subject.judgement.first, subject.step, subject.first_seen) == (2.0, 4, False)
    assert start.offset == (tmp_path / "log").stat().st_size


def test_a_log_that_was_replaced_has_no_history(tmp_path):
    """A log shorter than it was when the incarnation started is another log."""
    (tmp_path / "log").write_bytes(b"step=1 loss=2\n")
    assert begin(settings(tmp_path, fresh_from=10**6), 0.0).start.offset == 0


@pytest.mark.parametrize("content", [b"", b"{}", b"\xff\xfe", b'{"schema":2}', b"[" * 10**6])
def test_unusable_state_is_started_anew(tmp_path, content, caplog):
    """A damaged state or one of another version costs the curve, not the sidecar."""
    (tmp_path / "state").write_bytes(content)
    assert load(tmp_path / "state") is None
    assert "starting again" in caplog.text


def test_the_classifier_horizon_reports_what_is_to_come():
    """With `classifier: horizon` a report tells the confidence and the share of gain still to come."""
    subject = observer(classifier="horizon")
    values = [1 + 2 * math.exp(-step / 40) for step in range(400)]
    for number in range(40):
        part = range(10 * number, 10 * number + 10)
        subject.take(
            [f"step={step + 1}/420 loss={values[step]}".encode() for step in part], 10.0 * number + 1
        )
        subject.tick(10.0 * number + 10)
    told = decode_report(encode(report(subject, 400.0)))
    assert told.category is Category.CONVERGED
    assert told.confidence > 0.9
    assert told.remaining_gain.value < 0.01
    assert told.remaining_gain.uncertainty > 0


def test_the_verdict_of_horizon_is_taken_up(tmp_path):
    """A restarted sidecar goes on with the verdict and its curve, without a second look from nothing."""
    subject = observer(classifier="horizon")
    values = [1 + 2 * math.exp(-step / 40) for step in range(400)]
    for number in range(40):
        subject.take(lines(values[10 * number : 10 * number + 10], 10 * number + 1), 10.0 * number + 1)
        subject.tick(10.0 * number + 10)
    save(subject.state(400.0, "a", FilePosition(0, 0, 0)), tmp_path / "state")
    successor = Observer(
        ClassifierSettings(interval=10, classifier="horizon"),
        make_reader("auto", FormatOptions()),
        0.0,
        state=load(tmp_path / "state"),
    )
    successor.take(lines([1.0] * 10, 401), 1.0)
    assert successor.tick(10.0).category is subject.judgement.category is Category.CONVERGED


def rising(steps, name="accuracy"):
    return [f"step={n} {name}={1 - math.exp(-n / 50):.5f}".encode() for n in steps]


def feed(subject, lines, per_interval=10):
    """Feed the lines, so many in each interval; return the categories."""
    seen = []
    for at in range(0, len(lines), per_interval):
        now = subject.judgement.since + 10.0 * at
        subject.take(lines[at : at + per_interval], now)
        seen.append(subject.tick(now + 5).category)
    return seen


@pytest.mark.parametrize("classifier", ["specon", "horizon"])
def test_the_name_of_the_metric_says_the_goal(classifier):
    """Without a goal an accuracy that falls for good is diverging, and one that rises is not."""
    subject = observer(classifier=classifier)
    assert Category.DIVERGING not in feed(subject, rising(range(1, 301)))
    assert (subject.goal, subject.goal_from) == ("max", "as its name says")
    falling = [f"step={300 + n} accuracy=0.1".encode() for n in range(100)]
    assert feed(subject, falling)[-1] is Category.DIVERGING


def test_a_name_that_says_nothing_means_less():
    """Where neither the name nor a setting says it, less is better, and that is told."""
    subject = Observer(SETTINGS, make_reader("auto", FormatOptions(metric="badness")), 0.0)
    feed(subject, rising(range(1, 100), "badness"))
    assert (subject.goal, subject.goal_from) == ("min", "assumed: nothing says so; --goal does")


def test_a_loss_that_takes_over_begins_a_new_curve():
    """An accuracy before the first loss is no part of its curve, nor of its judgement."""
    subject = observer()
    feed(subject, rising(range(1, 101)))
    assert (subject.goal, subject.metric) == ("max", "accuracy")
    feed(subject, lines([5.0] * 10, 101))
    assert (subject.goal, subject.metric) == ("min", "loss")
    assert set(subject.curve.values) == {5.0}
    assert subject.judgement.best == 5.0


GAN = [f"step={n} Loss_D={1 / n} Loss_G={1 - 1 / n}".encode() for n in range(1, 200)]


@pytest.mark.parametrize("classifier", ["specon", "horizon"])
def test_a_log_that_cannot_be_judged_never_is(classifier):
    """The losses of a GAN are not classifiable from the first interval on, silent or not, with the reason."""
    subject = observer(classifier=classifier)
    assert set(feed(subject, GAN)) == {Category.NOT_CLASSIFIABLE}
    assert subject.tick(1e6).category is Category.NOT_CLASSIFIABLE
    told = decode_report(encode(report(subject, 1e6)))
    assert "GAN" in told.reason
    assert "name a metric" in told.reason


def test_a_verdict_does_not_outlive_its_metric():
    """A job that had converged, by a state or so far, is not converged once its log cannot be judged."""
    subject = observer(classifier="horizon")
    feed(subject, lines([1 + 2 * math.exp(-step / 40) for step in range(800)]))
    assert subject.judgement.category is Category.CONVERGED
    feed(subject, GAN)
    told = report(subject, 1e6)
    assert (told.category, told.confidence) == (Category.NOT_CLASSIFIABLE, None)


def test_the_goal_is_handed_on():
    """A successor that has read nothing yet knows which way was better."""
    subject = observer()
    feed(subject, rising(range(1, 301)))
    state = subject.state(1000.0, "a", FilePosition(0, 0, 0))
    after = Observer(SETTINGS, make_reader("auto", FormatOptions()), 0.0, state=state)
    assert (after.goal, after.judgement.category) == ("max", subject.judgement.category)
    feed(after, rising(range(301, 331)))
    assert after.judgement.first == subject.judgement.first


def test_a_verdict_for_the_other_goal_is_not_taken_up():
    """Where the owner corrects the goal, the curve goes on and the judgement begins anew."""
    subject = observer(goal="min")
    feed(subject, rising(range(1, 301)))
    assert subject.judgement.category is Category.DIVERGING
    state = subject.state(1000.0, "a", FilePosition(0, 0, 0))
    settings = msgspec.structs.replace(SETTINGS, goal="max")
    after = Observer(settings, make_reader("auto", FormatOptions()), 0.0, state=state)
    assert after.judgement.category is Category.UNKNOWN
    assert after.curve.values == subject.curve.values


def test_epochs_tell_how_much_is_done():
    """Where a log prints the number of epochs but no number of steps, the share done is in epochs."""
    subject = observer(classifier="horizon")
    feed(
        subject,
        [f"Epoch [{n // 10 + 1}/40] loss: {1 + 2 * math.exp(-n / 40):.5f}".encode() for n in range(200)],
    )
    assert subject.curve.total_steps is None
    assert subject.curve.done == pytest.approx(0.5)


def overfit(subject, values, start=0):
    """Feed a falling loss and these values of validation, each in an interval of its own."""
    flags = []
    for number, value in enumerate(values, start):
        subject.take([b"step=%d loss=%f val_loss=%f" % (number, 3 * 0.9**number, value)], 10.0 * number)
        subject.tick(10.0 * number + 5)
        flags.append(subject.overfitting)
    return flags


WORSE = [3.0, 2.0, 1.5, 1.2, *(1.3 + 0.1 * number for number in range(12))]


def test_overfitting_is_told_beside_the_category():
    """Validation that rises sets the flag, and leaves the category as it is without."""
    subject, without = observer(), observer()
    flags = overfit(subject, WORSE)
    overfit(without, [1.0] * len(WORSE))
    assert (flags[0], flags[-1], without.overfitting) == (False, True, False)
    assert subject.judgement == without.judgement
    assert (report(subject).overfitting, report(without).overfitting) == (True, False)


def test_new_bests_of_validation_end_overfitting():
    """The flag is taken back, and the console says so in one line each time."""
    subject, narrator = observer(), Narrator()
    overfit(subject, WORSE)
    told = [line for line in narrator.changes(subject) if "overfitting" in line]
    assert told == ["overfitting: 'val_loss' is worse than its best"]
    assert not [line for line in narrator.changes(subject) if "overfitting" in line]
    overfit(subject, [1.0, 0.9, 0.8, 0.7, 0.6], start=len(WORSE))
    assert [line for line in narrator.changes(subject) if "overfitting" in line] == ["overfitting no more"]


def test_a_successor_knows_of_overfitting():
    """The values of validation move with the state, and the head of the log does not count twice."""
    subject = observer()
    overfit(subject, WORSE)
    state = subject.state(0.0, "uid", FilePosition(1, 1, 1))
    successor = Observer(SETTINGS, make_reader("key-value", FormatOptions()), 0.0, state=state)
    successor.prime([b"step=0 loss=3 val_loss=3", b"step=1 loss=2 val_loss=2"])
    successor.take([b"step=99 loss=0.1"], 1.0)
    assert successor.overfitting
    assert successor.validation == subject.validation


def test_validation_that_is_not_finite_is_left_out():
    """NaN and infinities neither set the flag nor stay in the state."""
    subject = observer()
    overfit(subject, [*WORSE[:6], math.nan, math.inf, *WORSE[6:]])
    assert subject.validation.values == pytest.approx(tuple(WORSE))
