"""The metrics as such: names and labels."""

import subprocess
from pathlib import Path

import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from specon_manager.backends.kube.transport.api_metrics import ApiMetrics
from specon_manager.runtime.cluster_metrics import ClusterMetrics
from specon_sidecar.classify import Category
from specon_sidecar.classify.curve import Estimate
from specon_tools.observability.catalogue import EVERYWHERE, SIDECAR, catalogue
from support.decisions.changed_jobs import changing
from support.decisions.observed import Observed, moved
from support.packaging.programs import program

DOCS = Path(__file__).parents[2] / "docs"
BOUNDED = {
    *("category", "phase", "state", "outcome", "purpose", "policy", "proposal", "part", "effect"),
    *("direction", "entry", "verb", "resource", "code", "format", "metric", "goal"),
    *("kind", "result", "reason", "queue"),
}
NAMES = {"job_namespace", "job_name", "replica", "node"}


@pytest.fixture
def scraped():
    """Return what a manager that moved something says."""
    cluster = Observed()
    replica = moved(cluster)
    cluster.carry_out()
    judged = {"gain": 0.01, "confidence": 0.9, "remaining_gain": Estimate(value=0.02, uncertainty=0.01)}
    cluster.report(replica, Category.CONVERGED, step=201, lines=9, samples=8, unparsed=1, **judged)
    cluster.tick()
    cluster.metrics._state = changing()  # which has a queue
    ClusterMetrics(cluster.registry)
    of_the_api = ApiMetrics(cluster.registry)
    of_the_api("get", "pods", "200", 0.1)
    of_the_api.unreadable("Pod")
    return generate_latest(cluster.registry).decode()


def test_every_series_that_is_scraped_is_in_the_catalogue(scraped):
    """With exactly the labels that stand there."""
    known = {name: set(labels) for info in catalogue() for name, labels in info.series.items()}
    found = 0
    for family in text_string_to_metric_families(scraped):
        for sample in family.samples:
            if not sample.name.endswith("_created"):  # when a counter began: the library adds it
                assert set(sample.labels) == known[sample.name], sample
                found += 1
    assert found > 100


def test_everything_of_the_manager_is_scraped(scraped):
    """Nothing in the table is without a series once something has moved."""
    names = {sample.name for family in text_string_to_metric_families(scraped) for sample in family.samples}
    for info in catalogue():
        if info.told_by != SIDECAR:
            assert set(info.series) <= names, info.name


def test_names_follow_the_conventions():
    """A prefix, base units, `_total` on counters and on nothing else; each is explained in a sentence."""
    for info in catalogue():
        assert info.name.startswith("specon_sidecar_" if info.told_by == SIDECAR else "specon_"), info
        assert info.name.endswith("_total") == (info.kind == "counter"), info
        assert not info.name.endswith(("_ms", "_milliseconds", "_minutes", "_percent", "_kb")), info
        assert info.text[0].isupper() or info.text[0].isdigit(), info
        assert len(info.text) > 10, info
        assert "|" not in info.text, info


def test_labels_are_bounded():
    """Names of replicas are labels of specon_job_* alone, of nodes of one metric, of pods of none."""
    for info in catalogue():
        named = set(info.labels) & NAMES
        assert set(info.labels) <= BOUNDED | NAMES, info
        assert bool(named - {"node"}) == (info.name.startswith("specon_job_") and bool(info.labels)), info
        assert ("node" in named) == (info.name == "specon_node_replicas"), info


def test_no_label_is_one_that_prometheus_gives():
    """It would be renamed to exported_...: the label of the target wins."""
    given = {"job", "instance", "namespace", "pod", "service", "container", "endpoint"}
    assert not [info for info in catalogue() if given & set(info.labels)]


def test_names_are_told_once():
    """No two metrics have a series in common."""
    series = [name for info in catalogue() for name in info.series]
    assert len(series) == len(set(series))
    assert {info.told_by for info in catalogue()} > {EVERYWHERE, SIDECAR}


def test_promtool_finds_nothing_to_complain_of(scraped):
    """In what is scraped."""
    lines = [line for line in scraped.splitlines() if "_created" not in line]  # those are of the library
    answer = subprocess.run(
        [program("promtool"), "check", "metrics"],
        input="\n".join(lines) + "\n",
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert answer.returncode == 0, answer.stdout + answer.stderr
