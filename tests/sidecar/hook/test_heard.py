"""What a trainer says of itself in place of its log: steps, totals, values; and what a next sidecar knows."""

import math

import pytest

from specon_sidecar.classify import ClassifierSettings
from specon_sidecar.formats.parser import FormatOptions
from specon_sidecar.formats.table import make_reader
from specon_sidecar.hook.messages import Progress
from specon_sidecar.observing.observer import Observer
from specon_sidecar.observing.resume import begin
from specon_sidecar.observing.state import Kept
from specon_sidecar.observing.state_file import save
from specon_sidecar.settings import Settings


@pytest.fixture
def observer():
    return Observer(ClassifierSettings(), make_reader("auto", FormatOptions()), 0.0)


def report(observer, now=100.0):
    return observer.report(now, replica="ns/job/worker/0", incarnation="uid", session="s")


def test_reports_are_told_as_they_are(observer):
    """The exact step and total, the loss, and the format that says where they come from."""
    for step in (12, 13):
        observer.hear(Progress(step, 400, 0.5, {"lr": 0.1, "loss": 1 / step}), float(step))
    told = report(observer)
    assert (told.format, told.total_steps, told.samples) == ("hook", 400, 2)
    assert (told.first.step, told.last.step, told.last.name, told.last.value) == (12, 13, "loss", 1 / 13)


def test_log_is_not_read_beside_reports(observer):
    """What it showed before does not count twice, nor what it prints later; the proof is the report's."""
    observer.take([f"step={step}/400 loss={9 - step}".encode() for step in range(1, 9)], 1.0)
    observer.hear(Progress(20, 400, None, {"loss": 0.5}), 2.0)
    observer.take([b"step=21/400 loss=7"] * 9, 3.0)
    told = report(observer)
    assert (told.first.step, told.last.step, told.last.value) == (20, 20, 0.5)
    assert [point.value for point in observer.curve.points] == [0.5]


def test_step_without_a_value_moves_the_place_alone(observer):
    """Between two values of the metric the steps are exact, and the value is the last one."""
    observer.hear(Progress(5, 100), 1.0)
    first = report(observer)
    assert (first.first.step, first.first.value) == (5, None)
    observer.hear(Progress(6, 100, None, {"loss": 2.0}), 2.0)
    observer.hear(Progress(7, 100, None, {"lr": 1.0}), 3.0)
    told = report(observer)
    assert (told.first.step, told.last.step, told.last.value, told.last.name) == (5, 7, 2.0, "loss")
    assert observer.curve.count == 1
    assert observer.curve.last_at == 3.0


def test_values_come_from_the_log_where_no_report_ever_had_one(observer):
    """A loop whose loss nobody knows reports steps: the log's values stand at those."""
    observer.hear(Progress(30, 100), 1.0)
    observer.take([f"loss: {9 - place} iter: {place}".encode() for place in range(8)], 2.0)
    told = report(observer)
    assert (told.first.step, told.last.step, told.last.value, told.total_steps) == (30, 30, 2.0, 100)


def test_a_value_that_is_not_finite_is_news(observer):
    """It travels as none, and is told as one."""
    observer.hear(Progress(5, 100, None, {"loss": None}), 1.0)
    assert math.isnan(observer.last.value)
    assert report(observer).last.name == "loss"


def test_metric_that_was_named_is_followed(observer):
    """As in a log."""
    chosen = Observer(
        ClassifierSettings(), make_reader("auto", FormatOptions()), 0.0, options=FormatOptions("acc")
    )
    chosen.hear(Progress(5, 100, None, {"loss": 0.1, "acc": 0.7}), 1.0)
    assert (chosen.last.name, chosen.last.value) == ("acc", 0.7)


@pytest.mark.parametrize("values", [{"loss": 0.5}, {}])
def test_checkpoints_are_known_to_the_next_incarnation(tmp_path, values, observer):
    """The state names them; a sidecar that starts anew beside the same trainer offers none of them to it."""
    observer.hear(Progress(5, 100, None, values), 1.0)
    # The first as a sidecar wrote it that did not look.
    kept = observer.kept = (Kept("/c/4", 4), Kept("/c/5", 5, (2**63, 1, 7, 10**18, 10**18)))
    save(observer.state(2.0, "a", None), tmp_path / "state")
    for incarnation, brought_back in (("a", False), ("b", True)):
        given = Settings(
            log=str(tmp_path / "log"), hook="/s", state_file=str(tmp_path / "state"), incarnation=incarnation
        )
        found = begin(given, 3.0).observer
        assert found.kept == kept
        assert found.brought_back is brought_back
        assert found.format == ("hook" if values else None)
