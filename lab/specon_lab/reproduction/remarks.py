"""The remarks beside the figures: NAME.md in this folder, one heading for each table."""

import functools
import re
from collections.abc import Mapping
from importlib.resources import files
from types import MappingProxyType

_HEADING = re.compile(r"^## (.+)$", re.MULTILINE)


@functools.cache
def remarks_of(name: str) -> Mapping[str, tuple[str, ...]]:
    """Return the paragraphs of NAME.md by the heading above them, each on one line.

    What stands above the first heading is for who reads the file. Raises FileNotFoundError where no file is.
    """
    _, *parts = _HEADING.split(files(__package__).joinpath(f"{name}.md").read_text("utf-8"))
    return MappingProxyType(
        {
            heading: tuple(" ".join(paragraph.split()) for paragraph in text.strip().split("\n\n"))
            for heading, text in zip(parts[::2], parts[1::2], strict=True)
        }
    )
