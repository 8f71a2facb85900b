"""Which images the chart names: one value moves both to another registry, and earlier names still hold."""

import pytest
import yaml

from support.packaging.helm import CHART, refusal, render, the

VERSION = yaml.safe_load((CHART / "Chart.yaml").read_text())["appVersion"]
DIGEST = "sha256:" + "2" * 64


def images(values):
    """Return the images of the manager and of the sidecar."""
    objects = render(values)
    (container,) = the(objects, "Deployment")["spec"]["template"]["spec"]["containers"]
    configured = yaml.safe_load(the(objects, "ConfigMap")["data"]["config.yaml"])
    return container["image"], configured["sidecar"]["image"]


@pytest.mark.parametrize(
    ("values", "manager", "sidecar"),
    [
        ({}, f"docker.io/specon/manager:{VERSION}", f"docker.io/specon/sidecar:{VERSION}"),
        (
            {"image": {"registry": "r.example:5000/team"}},
            f"r.example:5000/team/manager:{VERSION}",
            f"r.example:5000/team/sidecar:{VERSION}",
        ),
        (
            {"image": {"repository": "r.example/a", "tag": "1"}, "sidecar": {"image": {"digest": DIGEST}}},
            "r.example/a:1",
            f"docker.io/specon/sidecar@{DIGEST}",
        ),
        (
            {"image": {"repository": "team/a"}, "sidecar": {"image": {"repository": "team/b", "tag": "2"}}},
            f"team/a:{VERSION}",
            "team/b:2",
        ),
        ({"image": {"registry": "", "digest": DIGEST}}, f"manager@{DIGEST}", f"sidecar:{VERSION}"),
        ({"image": {"registry": None}}, f"manager:{VERSION}", f"sidecar:{VERSION}"),
    ],
    ids=[
        "defaults",
        "registry",
        "whole name and digest",
        "names of Docker Hub",
        "no registry",
        "values kept",
    ],
)
def test_images_are_named(values, manager, sidecar):
    """Registry and prefix before a name without a slash; a whole name as it is; a digest, not a tag."""
    assert images(values) == (manager, sidecar)


def test_an_observer_runs_the_managers_image():
    """From the same registry."""
    values = {"observe": {"enabled": True, "selector": "a=b"}, "image": {"registry": "r.example"}}
    assert images(values)[0] == f"r.example/manager:{VERSION}"


@pytest.mark.parametrize("registry", ["https://r.example", "r.example/", "R.example", "r.example/a:1"])
def test_a_registry_that_no_image_can_have_is_refused(registry):
    """With the name of the value."""
    assert "registry" in refusal({"image": {"registry": registry}})
