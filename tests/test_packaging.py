"""What the distribution promises: versions, commands, types, reasons, and a light sidecar."""

import ast
import importlib.metadata
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import specon_lab
import specon_manager
import specon_sidecar
from specon_sidecar.copy_helper import helper_folder

ROOT = Path(__file__).parents[1]
CONFIGURATION = tomllib.loads((ROOT / "pyproject.toml").read_text())
HELPER = sorted((ROOT / "trainer").rglob("*.py"))
PROJECT, BUILD = CONFIGURATION["project"], CONFIGURATION["tool"]["hatch"]["build"]


def test_the_version_is_the_same_everywhere():
    """The metadata, the package, and the newest entry of the changelog name one version."""
    assert importlib.metadata.version("specon") == PROJECT["version"] == specon_manager.__version__
    newest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert newest is not None
    assert newest[1] == PROJECT["version"]


def test_all_packages_are_typed():
    """Type checkers of those who import them see the annotations."""
    for package in (specon_lab, specon_manager, specon_sidecar):
        assert package.__file__ is not None
        assert (Path(package.__file__).parent / "py.typed").exists()


def test_the_wheel_holds_the_packages_and_no_tool():
    """What writes documentation and dashboards is for those who have a checkout."""
    wheel = BUILD["targets"]["wheel"]
    assert wheel["packages"] == ["sidecar/specon_sidecar", "manager/specon_manager", "lab/specon_lab"]
    assert wheel["force-include"] == {"samples": "specon_manager/samples"}
    assert BUILD["dev-mode-dirs"] == ["sidecar", "manager", "lab", "tools"]


def test_the_trainers_helper_is_shipped_and_installs_alone():
    """The wheel has it where any interpreter can be pointed to it; alone it needs nothing but Python 3.8."""
    shared = BUILD["targets"]["wheel"]["shared-data"]
    assert shared == {
        f"trainer/{name}": f"share/specon/trainer/{name}" for name in ("sitecustomize.py", "specon")
    }
    assert helper_folder() == ROOT / "trainer"
    alone = tomllib.loads((ROOT / "trainer/pyproject.toml").read_text())["project"]
    assert (alone["version"], alone["dependencies"]) == (PROJECT["version"], [])
    assert alone["requires-python"] == ">=3.8"


@pytest.mark.parametrize("file", HELPER, ids=lambda file: file.name)
def test_the_trainers_helper_is_readable_by_python_3_8_and_knows_nothing_of_ours(file):
    """It runs in the trainer's Python, and imports a framework only where that is in use."""
    tree = ast.parse(file.read_text(), feature_version=(3, 8))
    assert not {name for name in _imported(ast.walk(tree)) if name.startswith("specon_")}
    assert _imported(tree.body) <= sys.stdlib_module_names | {"specon"}


def _imported(nodes):
    found = set()
    for node in nodes:
        if isinstance(node, ast.ImportFrom):
            found.add((node.module or "").split(".")[0])
        elif isinstance(node, ast.Import):
            found |= {one.name.split(".")[0] for one in node.names}
    return found


def test_what_python_runs_at_its_start_is_readable_by_any_python():
    """No syntax of later ones stands in it: an interpreter that cannot read it would say so at each start."""
    text = (ROOT / "trainer/sitecustomize.py").read_text()
    assert not re.search(r"\bf['\"]|:=|->|\bnonlocal\b|\basync\b|\byield from\b|\bfrom None\b", text)
    assert text.isascii()


def test_every_dependency_has_its_reason():
    """Each line of a dependency ends in a comment that says what it is for."""
    listed = [name for names in PROJECT["optional-dependencies"].values() for name in names]
    listed += PROJECT["dependencies"]
    lines = (ROOT / "pyproject.toml").read_text().splitlines()
    for name in listed:
        if name.startswith("specon["):
            continue
        (line,) = {line for line in lines if line.strip().startswith(f'"{name}"')}
        assert re.search(r"#\s+\S+", line), name


@pytest.mark.parametrize("module", ["specon_sidecar.__main__", "specon_sidecar.run"])
def test_a_sidecar_imports_only_what_it_needs(module):
    """One lives beside every training job: nothing of the extras is imported with it."""
    ours = ["specon_lab", "specon_manager"]
    extras = "kubernetes matplotlib numpy psutil rich sklearn tensorboard torch yaml"
    program = f"import sys, {module}; print(*sorted(set({[*ours, *extras.split()]!r}) & set(sys.modules)))"
    found = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert found.stdout.strip() == ""


@pytest.mark.parametrize("command", ["specon", "specon-sidecar"])
def test_the_commands_are_installed(command):
    """Each answers to --help."""
    path = Path(sys.executable).parent / command
    answer = subprocess.run([path, "--help"], check=True, capture_output=True, text=True)
    assert command in answer.stdout
