"""Helm 3 and Helm 4 make the same of the chart; the other tests use whichever is there."""

import pytest

from support.packaging.helm import CHART, helm, refusal, render

VALUES = {
    "defaults": {},
    "much": {
        "replicas": 3,
        "watchNamespaces": ["team-a", "team-b"],
        "settings": {"gate": {"horizon": 1_000_000}, "signals": ["priority-boost"]},
        "networkPolicy": {
            "enabled": True,
            "webhookFrom": [{"ipBlock": {"cidr": "10.0.0.1/32"}}],
            "apiServerAddresses": ["10.0.0.1/32"],
        },
        "metrics": {
            "serviceMonitor": {"enabled": True},
            "prometheusRule": {"enabled": True},
            "dashboards": {"enabled": True},
        },
    },
    "cert-manager": {"webhook": {"certificates": {"mode": "cert-manager"}}},
    "provided": {"webhook": {"certificates": {"mode": "provided", "secretName": "tls", "caBundle": "PEM"}}},
}


def by_name(objects):
    return {(one["kind"], one["metadata"].get("namespace"), one["metadata"]["name"]): one for one in objects}


@pytest.mark.parametrize("major", [3, 4])
def test_neither_finds_anything_to_complain_of(major):
    """Strictly."""
    answer = helm("lint", "--strict", str(CHART), major=major)
    assert answer.returncode == 0, answer.stdout + answer.stderr


@pytest.mark.parametrize("major", [3, 4])
def test_each_is_the_version_that_was_asked_for(major):
    """What these tests compare are two programs."""
    assert helm("version", "--short", major=major).stdout.startswith(f"v{major}.")


@pytest.mark.parametrize("values", VALUES)
def test_both_render_the_same_objects(values):
    """Up to their order."""
    objects = [render(VALUES[values], "--include-crds", major=major) for major in (3, 4)]
    assert by_name(objects[0]) == by_name(objects[1])
    assert len(objects[0]) == len(by_name(objects[0])) > 10


@pytest.mark.parametrize("major", [3, 4])
@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"replica": 3}, "replica"),
        ({"settings": {"gate": {"horizon": 0}}}, "horizon"),
        ({"networkPolicy": {"apiServerPorts": [0]}}, "apiServerPorts"),
        ({"webhook": {"certificates": {"mode": "provided"}}}, "webhook.certificates.caBundle"),
    ],
)
def test_both_refuse_wrong_values_by_name(values, named, major):
    """The schema is read by each in its own way."""
    assert named in refusal(values, major=major)
