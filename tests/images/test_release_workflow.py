"""The release workflow is off until it is switched on, calls what is there, and may do no more than it needs.

GitHub alone can run it; here it is read.
"""

import re

import pytest
import yaml

from specon_tools.release.images import NAMES
from support.packaging.dockerfile import ROOT

FILE = ROOT / ".github" / "workflows" / "release.yaml"
TEXT = FILE.read_text()
# YAML 1.1 takes the key `on` for true.
WORKFLOW = yaml.safe_load(TEXT)
JOBS = WORKFLOW["jobs"]
STEPS = [(name, step) for name, job in JOBS.items() for step in job["steps"]]
USES = [line.strip(" -") for line in TEXT.splitlines() if line.strip(" -").startswith("uses:")]


def needed(job):
    """Return the jobs that a job waits for, by way of others too."""
    needs = job.get("needs", [])
    direct = [needs] if isinstance(needs, str) else needs
    return {*direct, *(one for name in direct for one in needed(JOBS[name]))}


def test_it_runs_for_tags_of_versions_where_it_is_switched_on():
    """No job runs without the variable: the first one asks for it, and the others wait for that one."""
    assert WORKFLOW[True] == {"push": {"tags": ["v*"]}}
    assert JOBS["check"]["if"] == "vars.RELEASE == 'on'"
    for name, job in JOBS.items():
        assert name == "check" or "check" in needed(job)
        assert "always()" not in str(job.get("if", ""))


def test_nothing_is_published_before_it_was_checked_and_scanned():
    """Tests come first, a scan of each image before its push, and PyPI last: nothing is taken back there."""
    checks = {"make check", "make test", "make test-long", "make audit"}
    assert checks <= {step.get("run") for step in JOBS["check"]["steps"]}
    steps = [step.get("uses", step.get("run", "")).partition("@")[0] for step in JOBS["images"]["steps"]]
    push = next(number for number, text in enumerate(steps) if "PUSH=" in text)
    scans = [number for number, text in enumerate(steps) if text == "anchore/scan-action"]
    assert len(scans) == len(NAMES)
    assert max(scans) < push
    assert needed(JOBS["pypi"]) == JOBS.keys() - {"pypi"}


@pytest.mark.parametrize("name", NAMES)
def test_each_image_is_scanned_signed_and_attested(name):
    """By its name; with what it is made of and where it comes from."""
    scanned = [step["with"]["image"] for _, step in STEPS if "scan-action" in step.get("uses", "")]
    assert f"${{{{ steps.build.outputs.{name} }}}}" in scanned
    (sign,) = [step["run"] for step in JOBS["images"]["steps"] if step.get("name") == "Sign"]
    assert name in sign
    assert name in JOBS["attest"]["strategy"]["matrix"]["name"]
    attested = [
        step["with"] for step in JOBS["attest"]["steps"] if step.get("uses", "").startswith("actions/attest@")
    ]
    assert ["sbom-path" in one for one in attested] == [False, True]


def test_its_targets_of_make_are_there():
    """With the variables that they know."""
    makefile = (ROOT / "Makefile").read_text()
    called = re.findall(
        r"\bmake ([a-z-]+)((?: [A-Z]+=\S+)*)", "\n".join(step.get("run", "") for _, step in STEPS)
    )
    assert {target for target, _ in called} >= {"check", "test", "audit", "images", "chart", "wheel", "sbom"}
    for target, given in called:
        assert re.search(rf"^{target}:.*## ", makefile, re.MULTILINE), target
        for variable in re.findall(r"([A-Z]+)=", given):
            assert re.search(rf"^{variable} \?=", makefile, re.MULTILINE), variable
    assert "PIP_FLAGS ?=" in makefile, "it comes from the environment"


@pytest.mark.parametrize("uses", sorted(set(USES)))
def test_an_action_is_pinned_by_hash_or_says_why_not(uses):
    """The owner of an action, or a thief, can move a tag."""
    if re.fullmatch(r"uses: [\w./-]+@[0-9a-f]{40}  # v\d+\.\d+\.\d+", uses):
        return
    before = TEXT[: TEXT.index(uses)].splitlines()[-2]
    assert before.strip().startswith("# ")
    assert "hash" in before


def test_a_job_may_do_no_more_than_it_needs():
    """Nothing by default; only jobs that push packages may write them, and none writes to the repository."""
    assert WORKFLOW["permissions"] == {}
    for name, job in JOBS.items():
        permissions = job["permissions"]
        assert permissions.get("contents", "read") == "read", name
        assert ("packages" in permissions) == (name in {"images", "attest", "chart"})
        assert job["timeout-minutes"] <= 120
    for _, step in STEPS:
        if step.get("uses", "").startswith("actions/checkout@"):
            assert step["with"] == {"persist-credentials": False}


def test_no_script_is_put_together_from_what_others_write():
    """Values reach scripts as variables: a name of a branch or a tag is never a part of a command."""
    for name, step in STEPS:
        assert "${{" not in step.get("run", ""), (name, step)


def test_outputs_that_are_read_are_written():
    """By a step or a job of that name."""
    for job, output in re.findall(r"needs\.(\w+)\.outputs\.(\w+)", TEXT):
        assert output in JOBS[job]["outputs"], (job, output)
    for name, job in JOBS.items():
        written = {step["id"]: step["run"] for step in job["steps"] if "id" in step}
        for step, output in re.findall(r"steps\.(\w+)\.outputs\.(\w+)", yaml.safe_dump(job)):
            assert f"{output}=" in written[step] or '"$name=' in written[step], (name, step, output)
