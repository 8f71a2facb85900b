"""Everything that is read by somebody who uses specon, as texts with their places."""

import argparse
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import yaml

from specon_manager.backends.kube.objects.annotations import ANNOTATIONS
from specon_manager.cli.command_parser import make_parser
from specon_tools.prose import markdown
from specon_tools.prose.text import CODE, Text

_PAGES: Final = ("*.md", "docs/**/*.md", "charts/**/*.md", "samples/**/*.md")
_WRITTEN: Final = ("docs/reference/",)
"""Pages that the code writes: their texts are found where they come from."""
_CHANGELOG: Final = "CHANGELOG.md"
_CHART: Final = "charts/specon"
_SPAN: Final = re.compile(r"`[^`\n]+`|\{\{.*?\}\}|%\(\w+\)s|https?://\S+|\{[^}]*\}", re.DOTALL)
_DESCRIBED: Final = ("title", "description")


def pages(root: Path) -> Iterator[Text]:
    """Yield the prose of README, docs and the other pages; of the changelog the unreleased part."""
    for pattern in _PAGES:
        for path in sorted(root.glob(pattern)):
            name = path.relative_to(root).as_posix()
            if name.startswith(_WRITTEN):
                continue
            page = path.read_text()
            if name == _CHANGELOG:
                page = "\n## ".join(page.split("\n## ")[:2])
            yield from markdown.texts(name, page)


def helps() -> Iterator[Text]:
    """Yield the descriptions of the commands and the helps of their flags, and the annotations' meanings."""
    yield from _help(make_parser(), "specon")
    for one in ANNOTATIONS:
        yield Text(one.key, _without_code(one.meaning))


def _help(parser: argparse.ArgumentParser, name: str) -> Iterator[Text]:
    yield Text(f"{name} --help", _without_code(f"{parser.description or ''}\n{parser.epilog or ''}"))
    for action in parser._actions:  # noqa: SLF001  (the only way to all of them)
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001  (as above)
            for word, below in action.choices.items():
                yield from _help(below, f"{name} {word}")
        elif action.help and action.help != argparse.SUPPRESS:
            shown = action.option_strings[0] if action.option_strings else action.dest
            yield Text(f"{name} {shown}", _without_code(action.help))


def chart(root: Path) -> Iterator[Text]:
    """Yield the comments of values.yaml, the notes, the alerts and the panels."""
    folder = root / _CHART
    yield from _comments(f"{_CHART}/values.yaml", (folder / "values.yaml").read_text())
    notes = folder / "templates/NOTES.txt"
    for number, line in enumerate(notes.read_text().splitlines(), 1):
        yield Text(f"{_CHART}/templates/NOTES.txt", _without_code(line), number)
    for group in yaml.safe_load((folder / "files/alerts.yaml").read_text())["groups"]:
        for rule in group["rules"]:
            for field in ("summary", "description"):
                yield Text(f"alert {rule['alert']}", _without_code(rule["annotations"][field]))
    for path in sorted((folder / "files/dashboards").glob("*.json")):
        yield from _describe(f"dashboard {path.stem}", json.loads(path.read_text()))


def _comments(name: str, content: str) -> Iterator[Text]:
    """Yield each block of comment lines as one text."""
    block: list[str] = []
    for number, line in enumerate([*content.splitlines(), ""], 1):
        if line.strip().startswith("#"):
            block.append(line.strip().lstrip("# "))
        elif block:
            yield Text(name, _without_code("\n".join(block)), number - len(block))
            block = []


def _describe(place: str, node: Any) -> Iterator[Text]:
    if isinstance(node, dict):
        below = f"{place}, {node['title']}" if node.get("title") else place
        for field in _DESCRIBED:
            if isinstance(node.get(field), str):
                yield Text(below, _without_code(node[field]))
        for value in node.values():
            yield from _describe(below, value)
    elif isinstance(node, list):
        for value in node:
            yield from _describe(place, value)


def _without_code(text: str) -> str:
    """Return the text with a mark for each piece of code; its lines stay where they are."""
    return _SPAN.sub(lambda found: CODE + "\n" * found[0].count("\n"), text)
