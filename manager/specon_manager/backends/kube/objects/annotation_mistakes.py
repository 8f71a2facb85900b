"""Mistakes in annotations, in words that are never longer than a person reads. Pure."""

from collections.abc import Sequence
from typing import Final

LONGEST_KEY: Final = 128
"""Characters of a key as it is shown."""
LONGEST_MISTAKE: Final = 1024
_LONGEST_SHOWN: Final = 80


class AnnotationError(ValueError):
    """Annotations that cannot be used; each of `mistakes` names one with its value and the reason."""

    def __init__(self, mistakes: Sequence[str]) -> None:
        super().__init__("; ".join(mistakes))
        self.mistakes = tuple(mistakes)


def show_value(value: str) -> str:
    """Return a value as a message shows it."""
    return repr(cut_text(value, _LONGEST_SHOWN))


def cut_text(text: str, longest: int) -> str:
    """Return the text, cut after so many characters, with a sign that it was."""
    return text if len(text) <= longest else f"{text[:longest]}…"


def describe_error(error: Exception) -> str:
    """Return what a reader says; of an error that it does not promise, which it is."""
    return str(error) if type(error) is ValueError else f"cannot be read: {type(error).__name__}: {error}"
