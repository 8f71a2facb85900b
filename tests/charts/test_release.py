"""What tells people about the chart, and what a release writes into it."""

import base64
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile

import pytest
import yaml

from specon_tools.release.chart import put_images
from support.packaging.helm import CHART
from support.packaging.helm_binary import find_helm

ROOT = CHART.parents[1]
DIGESTS = {"manager": "sha256:" + "3" * 64, "sidecar": "sha256:" + "4" * 64}
SOURCE = "https://code.example/team/specon"


@pytest.fixture
def chart():
    return yaml.safe_load((CHART / "Chart.yaml").read_text())


def annotated(chart, name):
    return yaml.safe_load(chart["annotations"][f"artifacthub.io/{name}"])


def test_the_icon_is_the_one_of_the_documentation(chart):
    """In the chart itself: nothing is asked of another host."""
    head, _, data = chart["icon"].partition(",")
    assert head == "data:image/svg+xml;base64"
    assert base64.b64decode(data) == (ROOT / "docs/images/icon.svg").read_bytes()


def test_annotations_tell_what_is_there(chart):
    """Each definition, and the images of this version; values of annotations are texts."""
    assert all(isinstance(value, str) for value in chart["annotations"].values())
    definitions = [yaml.safe_load(path.read_text()) for path in sorted((CHART / "crds").glob("*.yaml"))]
    assert [(one["kind"], one["name"], one["version"]) for one in annotated(chart, "crds")] == [
        (one["spec"]["names"]["kind"], one["metadata"]["name"], one["spec"]["versions"][0]["name"])
        for one in definitions
    ]
    assert [one["image"] for one in annotated(chart, "images")] == [
        f"docker.io/specon/{name}:{chart['appVersion']}" for name in ("manager", "sidecar")
    ]


class Checkout:
    """What `make chart` reads, in a folder of its own."""

    def __init__(self, folder):
        self.folder = folder
        shutil.copytree(CHART, folder / "charts" / "specon")
        shutil.copy(ROOT / "pyproject.toml", folder)
        (folder / "build").mkdir()

    def pushed(self, **told):
        (self.folder / "build" / "images.json").write_text(json.dumps(told))

    def make(self, *arguments):
        return subprocess.run(
            [sys.executable, "-m", "specon_tools.release.chart", *arguments],
            cwd=self.folder,
            env={"PATH": os.environ["PATH"], "HOME": "/nonexistent", "PYTHONPATH": str(ROOT / "tools")},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def packaged(self, name):
        (package,) = (self.folder / "build").glob("specon-*.tgz")
        with tarfile.open(package) as archive:
            return yaml.safe_load(archive.extractfile(f"specon/{name}").read())


@pytest.fixture
def checkout(tmp_path):
    return Checkout(tmp_path)


def test_a_released_chart_names_what_was_pushed(checkout, chart):
    """Registry and digests in its values, registry in its annotations, and where it comes from."""
    helm = find_helm() or pytest.skip("no helm: name one in $HELM, or put it in PATH")
    checkout.pushed(registry="r.example/team", version=chart["version"], digests=DIGESTS)
    done = checkout.make(f"--helm={helm}", f"--source={SOURCE}")
    assert done.returncode == 0, done.stderr
    values, told = checkout.packaged("values.yaml"), checkout.packaged("Chart.yaml")
    before = yaml.safe_load((CHART / "values.yaml").read_text())
    before["image"] |= {"registry": "r.example/team", "digest": DIGESTS["manager"]}
    before["sidecar"]["image"]["digest"] = DIGESTS["sidecar"]
    assert values == before
    assert (told["home"], told["sources"]) == (SOURCE, [SOURCE])
    assert [one["image"].split("/")[0] for one in annotated(told, "images")] == ["r.example", "r.example"]


def test_a_chart_of_a_checkout_is_as_it_is_there(checkout, chart):
    """Nothing was pushed: names and defaults stay."""
    helm = find_helm() or pytest.skip("no helm: name one in $HELM, or put it in PATH")
    assert checkout.make(f"--helm={helm}").returncode == 0
    assert checkout.packaged("values.yaml") == yaml.safe_load((CHART / "values.yaml").read_text())
    assert checkout.packaged("Chart.yaml") == chart


def test_digests_of_another_version_are_refused(checkout):
    """What is left of an earlier push names other images."""
    checkout.pushed(registry="r.example", version="0.1.0", digests=DIGESTS)
    done = checkout.make("--helm=true")
    assert done.returncode == 2
    assert re.search(r"images.json: does not tell of manager and sidecar \d", done.stderr)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--helm=no-such-helm"], "no-such-helm is not in PATH"),
        (["--source=code.example"], "SOURCE: 'code.example'"),
    ],
)
def test_what_cannot_be_packaged_is_said(checkout, arguments, told):
    """In one line, with what to do."""
    done = checkout.make("--helm=true", *arguments)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert told in done.stderr


def test_values_without_a_place_for_digests_are_refused():
    """A chart that changed is not released with the images of nobody."""
    with pytest.raises(ValueError, match=r"registry: docker\.io/specon"):
        put_images("image: {}\n", "r.example", DIGESTS)
