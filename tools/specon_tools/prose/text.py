"""A piece of text with its place, its sentences and their words."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

CODE: Final = "\N{OBJECT REPLACEMENT CHARACTER}"
"""Stands for code, an address or a placeholder: one word, and none of its letters is judged."""

_END: Final = re.compile(r"(?<=[.!?])[\"')\]]*\s+(?=[\"'(\[]*(?:[A-Z0-9\ufffc]|specon\b))")
_WORD: Final = re.compile(r"[\w\ufffc][\w\ufffc'/.,-]*")
_LIST: Final = re.compile(r"\ufffc(?:[ ,();]+(?:and |or |as of )?\ufffc)+")


@dataclass(frozen=True)
class Text:
    """What somebody reads in one go: a paragraph, a list item, a cell of a table, the help of a flag."""

    place: str
    """File and first line, or the name of the command, alert or panel."""
    content: str
    line: int | None = None
    """The line on which it starts; None where the place has no lines."""

    def sentences(self) -> Iterator[tuple[str, str]]:
        """Yield each sentence, on one line, with its place."""
        start = 0
        for end in [*_END.finditer(self.content), None]:
            sentence = self.content[start : end.start() if end else None]
            if sentence.strip():
                yield self._place(start), " ".join(sentence.split())
            start = end.end() if end else 0

    def _place(self, offset: int) -> str:
        if self.line is None:
            return self.place
        return f"{self.place}:{self.line + self.content.count(chr(10), 0, offset)}"


def words(sentence: str) -> int:
    """Return how many words it has; a piece of code is one, and so is a list of them."""
    return len(_WORD.findall(_LIST.sub(CODE, sentence)))


def show_sentence(sentence: str) -> str:
    """Return the sentence for a message: code is left out."""
    return sentence.replace(CODE, "`…`")
