"""`pip install specon` alone: what runs without any extra, and what names the extra that it lacks."""

import importlib.metadata
import json
import subprocess
import sys
import tomllib
from pathlib import Path

import msgspec
import pytest
from packaging.requirements import Requirement

from specon_manager.cli.commands import _EXTRAS
from specon_manager.cli.look.bundle import archive

PROJECT = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]
RUN = """
import contextlib, importlib.abc, io, json, sys
allowed, commands = json.loads(sys.argv[1])
class Small(importlib.abc.MetaPathFinder):
    def find_spec(self, fullname, path, target=None):
        top = fullname.partition(".")[0]
        if top not in allowed and top not in sys.stdlib_module_names and not top.startswith(("specon", "_")):
            return None
        return next((spec for one in finders if (spec := one.find_spec(fullname, path, target))), None)
finders, sys.meta_path = sys.meta_path, [Small()]
from specon_manager.__main__ import main
told = []
for command in commands:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = main(command)
        except SystemExit as ended:
            code = ended.code
    told.append([code, out.getvalue(), err.getvalue()])
json.dump(told, sys.stdout)
"""


def base_packages():
    """Return the import names of what the base dependencies bring."""
    environment = {"extra": ""}
    waiting = [Requirement(each).name for each in PROJECT["dependencies"]]
    brought = set()
    while waiting:
        name = waiting.pop().lower().replace("_", "-")
        if name in brought:
            continue
        brought.add(name)
        needed = map(Requirement, importlib.metadata.requires(name) or ())
        waiting += [each.name for each in needed if each.marker is None or each.marker.evaluate(environment)]
    names = importlib.metadata.packages_distributions()
    return sorted(
        top for top, owners in names.items() if {each.lower().replace("_", "-") for each in owners} & brought
    )


@pytest.fixture
def small(tmp_path):
    """Run commands in an installation without extras; return code, output and errors of each."""

    def run(*commands):
        script = [sys.executable, "-c", RUN, json.dumps([base_packages(), commands])]
        ran = subprocess.run(script, cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False)
        assert ran.returncode == 0, ran.stderr
        return json.loads(ran.stdout)

    return run


def test_the_small_installation_reads_logs_policies_and_bundles(small, scene, tmp_path):
    """`--help`, `--version`, `classify`, `policies`, and what looks at a bundle, as text and as JSON."""
    (tmp_path / "train.log").write_text("".join(f"step={i} loss={9 / (i + 1):.4f}\n" for i in range(99)))
    scene.running(scene.job(), step=3)
    (tmp_path / "b.tar.gz").write_bytes(archive({"state.json": msgspec.json.encode(scene.state)}))
    bundle = ["--bundle", "b.tar.gz"]
    told = small(
        ["--version"],
        ["--help"],
        ["classify", "train.log"],
        ["classify", "train.log", "-o", "json"],
        ["policies"],
        ["explain", "mnist", *bundle],
        ["explain", "mnist", *bundle, "-o", "json"],
        ["doctor", "mnist", *bundle],
    )
    assert [code for code, _, _ in told] == [0] * 8
    assert "verdict" in told[2][1]
    assert json.loads(told[3][1])["metric"] == "loss"
    assert "progress" in told[4][1]
    assert "default/mnist/worker/0: Running on node-0" in told[5][1]
    assert not any(errors for _, _, errors in told)


def test_each_command_that_needs_an_extra_names_it(small, tmp_path):
    """One sentence, exit code 2, and nothing of Python's."""
    (tmp_path / "jobs.yaml").write_text("jobs: []\n")
    told = small(
        *(["demo"], ["local", "jobs.yaml"], ["serve"], ["observe"], ["completion", "bash"], ["init"]),
        *(["top"], ["simulate"], ["reproduce"], ["doctor", "--file", "jobs.yaml"]),
    )
    assert "'specon[demo]'" in told[0][2]
    assert "'specon[simulate]'" in told[7][2]
    for code, _, errors in told:
        assert code == 2
        words = errors.splitlines()
        assert len(words) == 1
        assert words[0].startswith("specon: ")
        assert "is not installed: pip install 'specon[" in words[0]


def test_the_extras_are_those_of_the_project():
    """Each package that is asked for by name is in the extra that is named."""
    for package, extra in _EXTRAS.items():
        names = {"yaml": "pyyaml"}
        brought = {Requirement(each).name for each in PROJECT["optional-dependencies"][extra]}
        assert names.get(package, package) in brought
