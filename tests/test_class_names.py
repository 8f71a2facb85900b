"""One name of a class or a type means one thing, whichever file of a package one reads."""

import ast
from collections import defaultdict
from collections.abc import Iterator
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


def names_of_types(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Yield the classes and the aliases of types with their lines; other names in capitals are values."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            yield node.name, node.lineno
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Subscript | ast.BinOp | ast.Name):
            for target in node.targets:
                if isinstance(target, ast.Name) and target.id[:1].isupper() and not target.id.isupper():
                    yield target.id, node.lineno


def files_by_name(package: Path) -> dict[str, list[str]]:
    """Return where the types of each name stand; those with an underscore belong to their file alone."""
    found = defaultdict[str, list[str]](list)
    for file in sorted(package.rglob("*.py")):
        for name, line in names_of_types(ast.parse(file.read_text())):
            if not name.startswith("_"):
                found[name].append(f"{file.relative_to(package)}:{line}")
    return found


@pytest.mark.parametrize("package", PACKAGES)
def test_no_two_types_of_a_package_have_one_name(package):
    """A reader of `Queued` in one file need not ask which of two it is."""
    found = files_by_name(ROOT / package)
    assert found, f"{package} has no types: it stands elsewhere by now"
    assert {name: files for name, files in found.items() if len(files) > 1 and name not in ALLOWED} == {}


def test_what_is_allowed_is_needed():
    """A name that stands once by now needs no reason any more."""
    several = {
        name
        for package in PACKAGES
        for name, files in files_by_name(ROOT / package).items()
        if len(files) > 1
    }
    assert several == {*ALLOWED}
