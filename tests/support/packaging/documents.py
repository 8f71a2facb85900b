"""The project's Markdown: its files, links, headings and the commands in it."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[3]
_FENCE = re.compile(
    r"^(?P<indent> *)```(?P<kind>[\w-]*)\n(?P<text>.*?)^(?P=indent)```", re.MULTILINE | re.DOTALL
)
_NEEDS = re.compile(r"<!-- needs: (\w+) -->\n\s*$")
_LINK = re.compile(r"!?\[(?:[^\]\[]|\[[^\]]*\])*\]\((?P<target>[^()\s]+)\)")
_CODE = re.compile(r"`[^`\n]*`")


@dataclass(frozen=True)
class Command:
    """A line after a `$ ` in a block of the kind `console`."""

    page: str
    line: int
    text: str
    needs: str
    """What the comment before the block says that it needs; empty where there is none."""


def pages() -> list[Path]:
    """Return every Markdown file of the project."""
    folders = ("docs", "samples", "charts", "lab", "manager", "sidecar", "benchmarks")
    found = {*ROOT.glob("*.md"), *(page for folder in folders for page in (ROOT / folder).rglob("*.md"))}
    return sorted(found)


def name_of(page: Path) -> str:
    """Return the path within the project."""
    return page.relative_to(ROOT).as_posix()


def commands(page: Path) -> Iterator[Command]:
    """Yield the commands of a page; a line that ends in a backslash goes on with the next."""
    text = page.read_text()
    for block in _FENCE.finditer(text):
        if block["kind"] != "console":
            continue
        needs = _NEEDS.search(text[: block.start()])
        first = text[: block.start("text")].count("\n") + 1
        lines = block["text"].splitlines()
        for number, line in enumerate(lines):
            if line.strip().startswith("$ "):
                whole, after = line.strip()[2:], number
                while whole.endswith("\\"):
                    after += 1
                    whole = whole[:-1] + lines[after].strip()
                yield Command(name_of(page), first + number, _bare(whole), needs[1] if needs else "")


def _bare(text: str) -> str:
    """Return a command without its remark; an environment of its own is not part of it."""
    return re.sub(r"\s{2,}#.*$", "", text).strip()


def links(page: Path) -> Iterator[str]:
    """Yield the targets of the links and pictures of a page."""
    text = _CODE.sub("", _FENCE.sub("", page.read_text()))
    for found in _LINK.finditer(text):
        yield found["target"]


def anchors(page: Path) -> set[str]:
    """Return what may follow a # in a link to the page."""
    headings = re.findall(r"^#+ +(.+?) *#*$", _FENCE.sub("", page.read_text()), re.MULTILINE)
    return {_anchor(heading) for heading in headings}


def _anchor(heading: str) -> str:
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "")
    kept = re.sub(r"[^\w\s-]", "", plain).strip().lower()
    return re.sub(r"[-\s]+", "-", kept)
