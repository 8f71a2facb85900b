"""What the code writes into docs/ is there, as the code writes it."""

import json
import re
from xml.etree import ElementTree as ET

import pytest
import yaml

from specon_tools.documentation.__main__ import pages
from specon_tools.documentation.helm_values import page
from specon_tools.documentation.marked import put_table
from specon_tools.documentation.results_pictures import PICTURES, draw, path_of


@pytest.mark.parametrize(
    "name",
    [
        *("docs/openapi.yaml", "docs/reference/values.md", "charts/specon/README.md", "docs/architecture.md"),
        *("docs/commands.md", "docs/kubernetes.md", "docs/logs-and-checkpoints.md", "docs/metrics.md"),
        *(path_of(each) for each in PICTURES),
        *sorted({f"docs/results/{each.page}.md" for each in PICTURES}),
    ],
)
def test_a_generated_page_is_up_to_date(root, name):
    """`python -m specon_tools.documentation` would change nothing."""
    generated = pages(root)
    assert set(generated) >= {name}
    assert (root / name).read_text() == generated[name], "run python -m specon_tools.documentation"


def test_a_page_without_the_marks_is_refused():
    """Nothing is written anywhere else in it."""
    with pytest.raises(ValueError, match="metrics: begin"):
        put_table("# Metrics\n", "metrics", "| metric |\n")


def test_each_value_of_the_chart_is_in_the_table(root):
    """Defaults, comments and what the schema allows are all there."""
    values = "# Colour of it.\npaint:\n  # Which one.\n  colour: red\n  tins: 2\nextra: {a: 1}\n"
    schema = {
        "definitions": {"tins": {"type": "integer", "minimum": 1}},
        "properties": {
            "paint": {
                "properties": {"colour": {"enum": ["red", "blue"]}, "tins": {"$ref": "#/definitions/tins"}}
            },
            "extra": {"type": "object"},
        },
    }
    rows = [line for line in page(values, schema).splitlines() if line.startswith("| `")]
    assert rows == [
        '| `paint.colour` | `"red"` | Which one. | `red`, `blue` |',
        "| `paint.tins` | `2` |  | integer from 1 |",
        '| `extra` | `{"a": 1}` |  | object |',
    ]
    text = (root / "docs/reference/values.md").read_text()
    chart = yaml.safe_load((root / "charts/specon/values.yaml").read_text())
    for name, value in chart["settings"]["budgets"].items():
        assert f"| `settings.budgets.{name}` | `{json.dumps(value)}` |" in text


@pytest.mark.parametrize("picture", PICTURES, ids=lambda each: each.name)
def test_a_picture_shows_what_a_table_of_its_page_prints(root, picture):
    """Another figure in the table makes another picture; readers who cannot see it get title and figures."""
    page = (root / "docs/results" / f"{picture.page}.md").read_text()
    content = draw(page, picture)
    read = ET.fromstring(content)
    name = "{http://www.w3.org/2000/svg}"
    assert read.get("aria-labelledby") == "t d"
    assert read.findtext(f"{name}title") == picture.title
    figures = [each.text for each in read.iter(f"{name}text") if each.get("class") == "v"]
    said = read.findtext(f"{name}desc")
    assert all(each in said for each in figures[len(picture.columns) :])
    assert len(content) < 10_000
    assert "prefers-color-scheme:dark" in content
    head, heading, tables = page.partition(picture.heading)
    others = re.sub(r"\| (\d)(?=[\d.,]* \|)", lambda digit: f"| {int(digit[1]) % 9 + 1}", tables)
    assert draw(f"{head}{heading}{others}", picture) != content


def test_every_page_of_results_begins_with_its_picture(root):
    """The picture comes first, then the tables."""
    for each in (root / "docs/results").glob("*.md"):
        first = next(line for line in each.read_text().splitlines()[1:] if line and "<!--" not in line)
        assert first.startswith("!["), each


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("## Table 1: slowdowns", "## Table 2"), "there is no heading"),
        (("95th percentile", "last"), "no row"),
        (("| default |", "| other |"), "no column default"),
    ],
)
def test_a_picture_without_its_table_is_refused(root, change, words):
    """A table that was renamed takes its picture along, or the command says what is missing."""
    (picture,) = (each for each in PICTURES if each.name == "fitgpp")
    page = (root / "docs/results/fitgpp.md").read_text().replace(*change)
    with pytest.raises(ValueError, match=words):
        draw(page, picture)
