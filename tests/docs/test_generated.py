"""What the code writes into docs/ is there, as the code writes it."""

import json

import pytest
import yaml

from specon_tools.documentation.__main__ import pages
from specon_tools.documentation.helm_values import page
from specon_tools.documentation.marked import with_table


@pytest.mark.parametrize(
    "name",
    [
        *("docs/openapi.yaml", "docs/reference/values.md", "charts/specon/README.md", "docs/architecture.md"),
        *("docs/commands.md", "docs/kubernetes.md", "docs/logs-and-checkpoints.md", "docs/metrics.md"),
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
        with_table("# Metrics\n", "metrics", "| metric |\n")


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
