"""What the chart renders, against the schemas of the Kubernetes versions that it supports."""

from pathlib import Path

import kubernetes_validate
import pytest
import yaml

from fakekube import schemas
from support.packaging.helm import CHART, render

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
CUSTOM = schemas.read(CHART / "crds") | schemas.read(Path(schemas.__file__).parent / "definitions")
"""Definitions of our own kinds, and what jobs of other projects must be like."""
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
        if "apiVersion" not in one:  # demo.yaml is a job file of `specon local`
            continue
        if (
            "." in one["apiVersion"].partition("/")[0]
        ):  # no group of Kubernetes itself that samples use has a dot
            kept, causes = CUSTOM[f"{one['kind'].lower()}s"](None, one)
            assert not causes
            assert _within(one["spec"], kept["spec"]), "nothing in it is unknown"
        else:
            kubernetes_validate.validate(one, "1.30", strict=True)


def _within(part, whole):
    """Whether all of the part is in the whole, which may have defaults beside it."""
    if isinstance(part, dict) and isinstance(whole, dict):
        return all(key in whole and _within(value, whole[key]) for key, value in part.items())
    return part == whole
