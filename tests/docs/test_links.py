"""No link of the documentation leads nowhere; no address is asked."""

import re

import pytest

from support.packaging.documents import ROOT, anchors, links, name_of, pages

PAGES = pages()
TEST = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+))?`")


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_link_leads_to_a_file_and_a_heading(page):
    """Relative, to what is there, and to a heading of it where one is named."""
    for target in links(page):
        if re.match(r"[a-z]+:", target):
            assert re.match(r"(https?|mailto):", target), target
            continue
        path, _, anchor = target.partition("#")
        assert not path.startswith("/"), target
        found = (page.parent / path).resolve() if path else page
        assert found.exists(), f"{name_of(page)}: {target}"
        assert found.is_relative_to(ROOT), target
        if anchor and found.suffix == ".md":
            assert anchor in anchors(found), f"{name_of(page)}: {target}"


def test_there_are_links():
    """What finds no link checks none."""
    assert sum(len(list(links(page))) for page in PAGES) > 50


def test_every_threat_has_a_test_that_exists():
    """docs/security.md names tests; each is there, and so is each row's."""
    page = (ROOT / "docs" / "security.md").read_text()
    named = TEST.findall(page)
    assert len(named) > 40
    for path, function in named:
        file = ROOT / path
        assert file.exists(), path
        if function:
            assert re.search(rf"def {function}\(", file.read_text()), f"{path}::{function}"
    for row in re.findall(r"^\| (?!they|it |what|a |---)[^|]+\|([^|]+)\|([^|]*)\|$", page, re.MULTILINE):
        assert TEST.search(row[1]) or row[0].strip().startswith("nothing"), row


def test_the_readme_stays_short(root):
    """It is read in a minute: under ninety lines, and none longer than the others of the project."""
    lines = (root / "README.md").read_text().splitlines()
    assert len(lines) < 90
    prose = [line for line in lines if "](" not in line and not line.startswith("|")]
    assert max(map(len, prose)) <= 130
