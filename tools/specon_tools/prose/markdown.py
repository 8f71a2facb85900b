"""The prose of a page in Markdown: paragraphs, headings, list items and cells, without code."""

from collections.abc import Iterator, Sequence
from typing import Final

from markdown_it import MarkdownIt
from markdown_it.token import Token

from specon_tools.prose.text import CODE, Text

_PARSER: Final = MarkdownIt("commonmark").enable("table")


def texts(place: str, page: str, first_line: int = 1) -> Iterator[Text]:
    """Yield the prose of a page whose first line has the given number."""
    line = 0
    for token in _PARSER.parse(page):
        if token.map:
            line = token.map[0]
        if token.type == "inline" and token.children:
            content = _prose(token.children)
            if content.strip():
                yield Text(place, content, first_line + line)


def _prose(children: Sequence[Token]) -> str:
    parts = {"code_inline": CODE, "softbreak": "\n", "hardbreak": "\n", "image": "", "html_inline": ""}
    return "".join(parts.get(child.type, child.content) for child in children)
