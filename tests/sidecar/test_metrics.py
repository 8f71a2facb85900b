import math
import urllib.request

import msgspec
import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from specon_sidecar.classify import Category
from specon_sidecar.classify.curve import Estimate
from specon_sidecar.reporting.metrics import SidecarCollector, serve
from specon_sidecar.reporting.snapshot import Snapshot
from specon_sidecar.wire import Observation, Report


def snapshot_of(category=Category.UNKNOWN, *, goal=None, metric=None, **changes):
    last = None if metric is None else Observation(name=metric, value=1.5, age=2.0)
    report = Report(
        schema=1, replica="ns/job/worker/0", incarnation="a", session="s", sequence=0,
        category=category, last=last, **changes,
    )  # fmt: skip
    return Snapshot(report=report, goal=goal)


def scraped(snapshot):
    registry = CollectorRegistry()
    registry.register(SidecarCollector(lambda: snapshot))
    families = text_string_to_metric_families(generate_latest(registry).decode())
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in families
        for sample in family.samples
    }


def test_exactly_one_category_is_one():
    """Each category is a series, so that a change is a step in two of them."""
    found = scraped(snapshot_of(Category.WATCHING))
    categories = {key[1]: value for key, value in found.items() if key[0] == "specon_sidecar_category"}
    assert categories == {category.value: float(category is Category.WATCHING) for category in Category}


def test_what_is_not_known_is_not_told():
    """A gain of 0 would be a lie before there is one."""
    assert ("specon_sidecar_gain_ratio",) not in scraped(snapshot_of(Category.UNKNOWN))
    assert scraped(snapshot_of(Category.UNKNOWN, gain=0.5))["specon_sidecar_gain_ratio",] == 0.5


def test_counters_and_labels_follow_the_conventions():
    """Counters end in _total, and the only labels are bounded."""
    found = scraped(snapshot_of(Category.UNKNOWN, lines=7, format="csv"))
    assert found["specon_sidecar_lines_total",] == 7.0
    assert found["specon_sidecar_log_info", "csv", "unknown", "unknown"] == 1.0
    assert {key[0] for key in found if len(key) > 1} == {
        "specon_sidecar_category",
        "specon_sidecar_log_info",
    }


def test_what_the_log_names_is_bounded():
    """The name of a metric comes from the log: as a label it is short and can be printed."""
    snapshot = snapshot_of(Category.UNKNOWN, format="csv", metric="a\n\ud800" + "b" * 500, goal="min")
    (labels,) = (key[1:] for key in scraped(snapshot) if key[0] == "specon_sidecar_log_info")
    assert set(labels) == {"csv", "a??" + "b" * 61, "min"}


def test_the_outlook_is_told_where_there_is_one():
    """Confidence and the share still to come are gauges of the classifier `horizon` alone."""
    names = {"specon_sidecar_confidence", "specon_sidecar_remaining_gain_ratio"}
    assert not names & {key[0] for key in scraped(snapshot_of(Category.UNKNOWN))}
    found = scraped(
        snapshot_of(Category.CONVERGED, confidence=0.75, remaining_gain=Estimate(value=0.5, uncertainty=0.1))
    )
    assert [found[name,] for name in sorted(names)] == [0.75, 0.5]


@pytest.mark.processes
def test_metrics_are_served(unused_tcp_port):
    """The port answers with the text format, from the snapshot of now."""
    end = serve(unused_tcp_port, lambda: snapshot_of(Category.STALLED))
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{unused_tcp_port}/metrics", timeout=5) as answer:
            assert b'specon_sidecar_category{category="stalled"} 1.0' in answer.read()
    finally:
        end()


def test_overfitting_is_zero_or_one():
    """The flag is always there, so that an alert can rest on it."""
    for flag in (False, True):
        found = scraped(snapshot_of(Category.CONVERGED, overfitting=flag))
        assert found["specon_sidecar_overfitting",] == float(flag)


def test_a_value_that_is_not_finite_is_told_as_such():
    """A loss of NaN travels without a number, and is shown as what it was."""
    report = msgspec.structs.replace(
        snapshot_of(Category.DIVERGING, metric="loss").report,
        last=Observation(name="loss", value=None, age=3.0, step=7),
    )
    found = scraped(Snapshot(report=report, step=7))
    assert math.isnan(found["specon_sidecar_value",])
    assert found["specon_sidecar_last_sample_age_seconds",] == 3.0
    assert found["specon_sidecar_step",] == 7.0
