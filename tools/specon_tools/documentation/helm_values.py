"""The table of the chart's values, from values.yaml (names, defaults, comments) and its schema."""

import json
from collections.abc import Iterator, Sequence
from typing import Any, Final

import yaml

from specon_manager.backends.kube.transport.resources import Object

_HEAD: Final = (
    "# Helm values",
    "",
    "Generated from the chart's `values.yaml` and `values.schema.json`:",
    "`python -m specon_tools.documentation`. A value that is not of this list, or not as its last column",
    "says, is refused with its name.",
    "",
    "",
)


def page(values: str, schema: Object) -> str:
    """Return the page, as Markdown. Raises TypeError where values.yaml is no mapping."""
    return "\n".join(_HEAD) + table(values, schema)


def table(values: str, schema: Object) -> str:
    """Return all values as a table in Markdown. Raises TypeError where values.yaml is no mapping."""
    root = yaml.compose(values)
    if not isinstance(root, yaml.MappingNode):
        raise TypeError("values.yaml: is no mapping")
    lines = values.splitlines()
    rows = [
        f"| `{path}` | {_default(node)} | {_cell(_comment(lines, line))} | {_cell(_allow(schema, path))} |"
        for path, node, line in _leaves(root)
    ]
    return "\n".join(["| value | default | meaning | may be |", "|---|---|---|---|", *rows, ""])


def _leaves(node: yaml.MappingNode, above: str = "") -> Iterator[tuple[str, yaml.Node, int]]:
    """Yield path, value and line of each value that stands for itself: a mapping in braces is one value."""
    for key, value in node.value:
        path = f"{above}{key.value}"
        if isinstance(value, yaml.MappingNode) and not value.flow_style:
            yield from _leaves(value, f"{path}.")
        else:
            yield path, value, key.start_mark.line


def _default(node: yaml.Node) -> str:
    value = yaml.safe_load(yaml.serialize(node))
    return "" if value == "" else f"`{_cell(json.dumps(value))}`"


def _comment(lines: Sequence[str], line: int) -> str:
    """Return the comment that ends right above a line."""
    words: list[str] = []
    while line > 0 and lines[line - 1].strip().startswith("#"):
        line -= 1
        words.insert(0, lines[line].strip().lstrip("#").strip())
    return " ".join(words)


def _allow(schema: Object, path: str) -> str:
    """Return in words what the schema lets a value be."""
    found: Any = schema
    for part in path.split("."):
        found = _follow(schema, found).get("properties", {}).get(part, {})
    found = _follow(schema, found)
    if "enum" in found:
        return ", ".join(f"`{one}`" for one in found["enum"])
    kind = found.get("type", "")
    text = " or ".join(kind) if isinstance(kind, list) else str(kind)
    bounds = [
        f"{words} {found[name]}"
        for name, words in (
            ("minimum", "from"),
            ("exclusiveMinimum", "above"),
            ("maximum", "to"),
            ("exclusiveMaximum", "below"),
        )
        if name in found
    ]
    items = _follow(schema, found.get("items", {})).get("enum")
    if items:
        bounds.append(f"of {', '.join(f'`{one}`' for one in items)}")
    return " ".join([text, *bounds]).strip()


def _follow(schema: Object, found: Object) -> Object:
    while "$ref" in found:
        found = schema["definitions"][str(found["$ref"]).rpartition("/")[2]]
    return found


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
