"""What the chart renders, against the schemas of the Kubernetes versions that it supports."""

import kubernetes_validate
import pytest
import yaml

from support.helm import CHART, render

RELEASES = {
    "defaults": {},
    "everything": {
        "replicas": 3,
        "imagePullSecrets": [{"name": "pull"}],
        "priorityClassName": "system-cluster-critical",
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "tolerations": [{"key": "control", "operator": "Exists"}],
        "topologySpreadConstraints": [
            {"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway"}
        ],
        "podAnnotations": {"a": "b"},
        "podLabels": {"c": "d"},
        "watchNamespaces": ["team-a"],
        "settings": {"signals": ["priority-boost", "eviction-cost"]},
        "webhook": {"failurePolicy": "Fail", "excludedNamespaces": ["kube-node-lease"]},
    },
    "cert-manager": {"webhook": {"certificates": {"mode": "cert-manager"}}},
    "provided": {"webhook": {"certificates": {"mode": "provided", "secretName": "tls", "caBundle": "PEM"}}},
}
SAMPLES = CHART.parents[1] / "samples" / "jobs"
FOREIGN = {"Certificate", "Issuer", "ServiceMonitor", "PodMonitor", "PrometheusRule"}
"""Kinds of others, whose schemas do not come with Kubernetes."""


@pytest.mark.parametrize("version", ["1.30", "1.32", "1.34", "1.36", "1.37"])
@pytest.mark.parametrize("release", RELEASES)
def test_every_object_is_what_the_server_takes(release: str, version: str) -> None:
    """Strictly: a field that this version does not know is a mistake."""
    objects = [one for one in render(RELEASES[release]) if one["kind"] not in FOREIGN]
    assert {one["kind"] for one in objects} >= {"Deployment", "Service", "ClusterRole"}
    for one in objects:
        kubernetes_validate.validate(one, version, strict=True)


def test_a_field_that_nobody_knows_is_found() -> None:
    """The check can fail."""
    deployment = next(one for one in render() if one["kind"] == "Deployment")
    deployment["spec"]["template"]["spec"]["containers"][0]["imagePullPolice"] = "Always"
    with pytest.raises(kubernetes_validate.ValidationError, match="imagePullPolice"):
        kubernetes_validate.validate(deployment, "1.37", strict=True)


@pytest.mark.parametrize("path", sorted((CHART / "crds").glob("*.yaml")), ids=lambda path: path.stem)
def test_the_definitions_are_what_the_server_takes(path) -> None:
    """CustomResourceDefinitions have a schema as well."""
    kubernetes_validate.validate(yaml.safe_load(path.read_text()), "1.37", strict=True)


@pytest.mark.parametrize("path", sorted(SAMPLES.glob("*.yaml")), ids=lambda path: path.stem)
def test_the_samples_are_what_the_server_takes(path) -> None:
    """What people copy has no misspelt field."""
    for one in yaml.safe_load_all(path.read_text()):
        if "apiVersion" in one:  # demo.yaml is a job file of `specon local`
            kubernetes_validate.validate(one, "1.30", strict=True)
