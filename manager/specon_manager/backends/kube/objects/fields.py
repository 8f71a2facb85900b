"""Parts of decoded objects: anything may be missing or of another form. Pure."""

from collections.abc import Mapping
from typing import Any


def mapping(given: object) -> Mapping[str, Any]:
    """Return the mapping that this is, or an empty one."""
    return given if isinstance(given, dict) else {}


def mappings(given: object) -> list[dict[str, Any]]:
    """Return the mappings of the list that this is; other items in it are left out."""
    return [each for each in given if isinstance(each, dict)] if isinstance(given, list) else []


def count(given: object, default: int) -> int:
    """Return the natural number that this is, or `default`."""
    return given if isinstance(given, int) and not isinstance(given, bool) and given >= 0 else default
