"""The word that was probably meant. Pure."""

import difflib
from collections.abc import Iterable
from typing import Final

_LONGEST: Final = 128
"""Characters of a word that is compared: the time grows with their square."""


def suggest_word(word: str, known: Iterable[str]) -> str:
    """Return `; did you mean X?` with the known word that is most like this one, or nothing."""
    found = difflib.get_close_matches(word[:_LONGEST], list(known), n=1, cutoff=0.7)
    return f"; did you mean {found[0]}?" if found else ""
