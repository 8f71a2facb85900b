"""One class name means one thing, whichever file of a package one reads."""

import ast
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = (
    "manager/specon_manager",
    "sidecar/specon_sidecar",
    "lab/specon_lab",
    "tools/specon_tools",
    "trainer/specon",
)
ALLOWED = {
    "SpeconCallback": "who trains imports the one of their own framework, and reads one name in all guides",
}
"""Names that stand several times, each with its reason."""


def files_by_class(package: Path) -> dict[str, list[str]]:
    """Return where the classes of each name stand; those with an underscore belong to their file alone."""
    found = defaultdict[str, list[str]](list)
    for file in sorted(package.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(f"{file.relative_to(package)}:{node.lineno}")
    return found


@pytest.mark.parametrize("package", PACKAGES)
def test_no_two_classes_of_a_package_have_one_name(package):
    """A reader of `Queued` in one file need not ask which of two it is."""
    found = files_by_class(ROOT / package)
    assert found, f"{package} has no classes: it stands elsewhere by now"
    assert {name: files for name, files in found.items() if len(files) > 1 and name not in ALLOWED} == {}


def test_what_is_allowed_is_needed():
    """A name that stands once by now needs no reason any more."""
    several = {
        name
        for package in PACKAGES
        for name, files in files_by_class(ROOT / package).items()
        if len(files) > 1
    }
    assert several == {*ALLOWED}
