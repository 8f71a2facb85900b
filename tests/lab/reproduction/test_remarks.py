"""The remarks beside the figures: each file is read whole, and all that it says is on the page."""

import re
from importlib.resources import files
from pathlib import Path

import pytest

from specon_lab import reproduction
from specon_lab.reproduction.fitgpp_runs import TRACE
from specon_lab.reproduction.remarks import remarks_of
from specon_lab.reproduction.specon_runs import EXPERIMENTS
from specon_lab.reproduction.table import NAMES

PAGES = Path(__file__).parents[3] / "docs" / "results"
WRITTEN = {**{name: name for name in NAMES}, "dragon": "elastic", "kod2": "elastic", "ours_traces": "ours"}
"""Files of remarks, and the pages that have them."""


def test_every_file_is_of_a_page():
    """None is left over, and none is missing."""
    found = {Path(each.name).stem for each in files(reproduction).iterdir() if each.name.endswith(".md")}
    assert found == WRITTEN.keys()


@pytest.mark.parametrize(("name", "page"), WRITTEN.items())
def test_a_page_has_every_remark_word_for_word(name, page):
    """On one line each, however the file is wrapped."""
    lines = (PAGES / f"{page}.md").read_text("utf-8").splitlines()
    said = [remark for remarks in remarks_of(name).values() for remark in remarks]
    assert said
    for remark in said:
        assert any(line.endswith(remark.replace("{trace}", TRACE)) for line in lines), remark


@pytest.mark.parametrize("name", WRITTEN)
def test_every_heading_is_asked_for_by_name(name):
    """A remark below a heading that no table has would be read by nobody."""
    source = (Path(reproduction.__file__).parent / f"{name}.py").read_text("utf-8")
    if name == "fitgpp":
        source += (Path(reproduction.__file__).parent / "fitgpp_trends.py").read_text("utf-8")
    asked = set(re.findall(r'(?:_REMARKS|remarks_of\("\w+"\))\["([^"]+)"\]', source))
    cells = {cell.name for cell in EXPERIMENTS} if name == "specon" else set()
    assert asked <= remarks_of(name).keys() <= asked | cells


def test_what_is_not_there_is_an_error():
    """Neither a paper without remarks nor a table without them is passed over."""
    with pytest.raises(FileNotFoundError, match="nobody"):
        remarks_of("nobody")
    with pytest.raises(KeyError, match="Figure 99"):
        remarks_of("kod2")["Figure 99"]
