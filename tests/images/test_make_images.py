"""`make images` calls the builder that works, with the commands that build and push each image."""

import json
import os
import subprocess
import sys

import pytest
import yaml

from specon_manager import __version__
from specon_tools.release.images import LOCAL, NAMES, UnusableError, check_prefix
from support.packaging.dockerfile import ROOT

VERSION = __version__
DIGEST = "sha256:" + "1" * 64
FAKE = """#!/bin/sh
echo "${0##*/} $*" >> "$CALLS"
case "${0##*/} $1" in "BROKEN") echo "cannot connect to the daemon" >&2; exit 1;; esac
case "$1 $2" in
  "image inspect") for last; do :; done; echo "[\\"${last%:*}@DIGEST\\"]";;
  "push --digestfile") echo DIGEST > "$3";;
esac
"""


@pytest.fixture
def stage(tmp_path):
    return Stage(tmp_path)


class Stage:
    """A PATH with fakes of builders, which write down how they are called."""

    def __init__(self, folder):
        self.folder, self.calls = folder, folder / "calls"
        (folder / "bin").mkdir()

    def has(self, *names, broken=""):
        for name in names:
            program = self.folder / "bin" / name
            program.write_text(FAKE.replace("DIGEST", DIGEST).replace("BROKEN", broken or "-"))
            program.chmod(0o755)

    def images(self, *arguments):
        return subprocess.run(
            [sys.executable, "-m", "specon_tools.release.images", f"--output={self.output}", *arguments],
            cwd=ROOT,
            env={"PATH": f"{self.folder}/bin", "PYTHONPATH": str(ROOT / "tools"), "CALLS": str(self.calls)},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    @property
    def output(self):
        return self.folder / "images.json"

    def called(self):
        return self.calls.read_text().splitlines() if self.calls.exists() else []


def build(builder, name, *further):
    tags = " ".join(f"--tag {prefix}/{name}:{VERSION}" for prefix in (LOCAL, *further))
    layers = "--layers " if builder == "buildah" else ""
    return f"{builder} build {layers}--file {name}/Dockerfile {tags} ."


@pytest.mark.parametrize("builder", ["docker", "podman", "buildah"])
def test_all_images_are_built_with_the_one_that_is_there(stage, builder):
    """By the names that the chart and the samples use; nothing is pushed."""
    stage.has(builder)
    done = stage.images()
    assert done.returncode == 0, done.stderr
    assert stage.called()[1:] == [build(builder, name) for name in NAMES]
    assert done.stdout.splitlines() == [f"{LOCAL}/{name}:{VERSION}" for name in NAMES]
    assert not stage.output.exists()


def test_one_that_does_not_work_is_passed_over(stage):
    """A client of docker without its daemon is of no use."""
    stage.has("docker", "buildah", broken="docker version")
    done = stage.images("sidecar")
    assert done.returncode == 0, done.stderr
    assert stage.called()[1:] == ["buildah info", build("buildah", "sidecar")]


@pytest.mark.parametrize(
    ("builder", "pushes"),
    [
        ("docker", ["docker push {0}", "docker image inspect --format {{{{json .RepoDigests}}}} {0}"]),
        ("podman", ["podman push --digestfile {1} {0}"]),
        ("buildah", ["buildah push --digestfile {1} {0}"]),
    ],
)
def test_what_is_pushed_is_told_by_its_digest(stage, builder, pushes):
    """Each image under the registry and prefix, and in a file for the chart."""
    stage.has(builder)
    done = stage.images("--push=registry.example:5000/team", "manager", "sidecar")
    assert done.returncode == 0, done.stderr
    calls = []
    for name in ("manager", "sidecar"):
        reference = f"registry.example:5000/team/{name}:{VERSION}"
        calls.append(build(builder, name, "registry.example:5000/team"))
        calls += [push.format(reference, stage.folder / "digest") for push in pushes]
        assert f"{reference}@{DIGEST}\n" in done.stdout
    assert stage.called()[1:] == calls
    assert json.loads(stage.output.read_text()) == {
        "registry": "registry.example:5000/team",
        "version": VERSION,
        "digests": {"manager": DIGEST, "sidecar": DIGEST},
    }


def test_flags_for_pip_reach_the_build(stage):
    """An index of one's own, with PyTorch for CPUs."""
    stage.has("podman")
    assert stage.images("--pip-flags=--extra-index-url https://index", "samples").returncode == 0
    assert "--build-arg PIP_FLAGS=--extra-index-url https://index ." in stage.called()[-1]


def test_without_a_builder_it_says_what_to_install(stage):
    """And why each of the three is of no use."""
    stage.has("docker", broken="docker version")
    done = stage.images()
    assert (done.returncode, done.stdout) == (2, "")
    first, *refused = done.stderr.splitlines()
    assert "Install docker, podman or buildah" in first
    assert refused == [
        "  docker: cannot connect to the daemon",
        "  podman: is not in PATH",
        "  buildah: is not in PATH",
    ]


def test_a_failed_build_ends_it(stage):
    """With the command that failed; later images are not built."""
    stage.has("podman", broken="podman build")
    done = stage.images()
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("failed with 1: podman build --file manager/Dockerfile")
    assert len(stage.called()) == 2


@pytest.mark.parametrize(
    "prefix", ["https://registry.example", "team", "registry.example/", "r.example/a:1", ""]
)
def test_a_name_that_cannot_be_pushed_to_is_refused(prefix):
    """Before anything is built, with the name as it was given."""
    with pytest.raises(UnusableError, match="PUSH: "):
        check_prefix(prefix)


def test_a_builder_that_is_not_known_is_refused(stage):
    """With those that are."""
    done = stage.images("--builder=kaniko")
    assert (done.returncode, done.stderr) == (2, "BUILDER: 'kaniko' is not one of docker, podman, buildah\n")


def test_the_target_of_make_calls_the_script():
    """With what make is given, and without an environment: Python alone is needed."""
    told = subprocess.run(
        [
            "make",
            "--dry-run",
            "images",
            "PUSH=r.example/team",
            "BUILDER=podman",
            "IMAGES=manager sidecar",
        ],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert told.stdout.split() == [
        "PYTHONPATH=tools",
        "python3",
        "-m",
        "specon_tools.release.images",
        "--push=r.example/team",
        "--builder=podman",
        '--pip-flags=""',
        "manager",
        "sidecar",
    ]


def test_the_names_are_those_of_the_chart_and_the_samples():
    """What is built here is what a cluster is told to run."""
    values = yaml.safe_load((ROOT / "charts/specon/values.yaml").read_text())
    assert values["image"]["registry"] == LOCAL
    assert (values["image"]["repository"], values["sidecar"]["image"]["repository"]) == NAMES[:2]
    assert yaml.safe_load((ROOT / "charts/specon/Chart.yaml").read_text())["appVersion"] == VERSION
    assert f"image: {LOCAL}/samples:{VERSION}\n" in (ROOT / "samples/jobs/job.yaml").read_text()
