"""Label selectors as the API server reads them. Pure."""

import re
from collections.abc import Mapping
from typing import Any, Final

from specon_manager.backends.kube.objects.fields import mapping, mappings

_KEY: Final = r"(?:[a-zA-Z0-9.-]{1,253}/)?[a-zA-Z0-9](?:[a-zA-Z0-9_.-]{0,61}[a-zA-Z0-9])?"
_VALUE: Final = r"(?:[a-zA-Z0-9](?:[a-zA-Z0-9_.-]{0,61}[a-zA-Z0-9])?)?"
_TERM: Final = re.compile(
    rf"\s*(?:(?P<set>{_KEY})\s+(?P<how>in|notin)\s*\((?P<values>[^()]*)\)"
    rf"|(?P<key>{_KEY})\s*(?P<sign>==|=|!=)\s*(?P<value>{_VALUE})"
    rf"|(?P<no>!?)\s*(?P<there>{_KEY}))\s*(?:,|\Z)"
)


def read_selector(text: str) -> Mapping[str, Any]:
    """Return the LabelSelector that `kubectl --selector` would understand by this.

    Terms with `=`, `==`, `!=`, `in (..)`, `notin (..)`, `KEY` and `!KEY`, between commas. Raises ValueError
    with the term that cannot be read.
    """
    terms: list[dict[str, Any]] = []
    at = 0
    while at < len(text) or not terms:
        found = _TERM.match(text, at)
        if found is None:
            raise ValueError(f"{text[at:][:80]!r} is no term of a label selector, such as app=train")
        at = found.end()
        terms.append(_term(found))
    return {"matchExpressions": terms}


def _term(found: "re.Match[str]") -> dict[str, Any]:
    if found["set"]:
        operator = {"in": "In", "notin": "NotIn"}[found["how"]]
        values = [each.strip() for each in found["values"].split(",")]
        return {"key": found["set"], "operator": operator, "values": values}
    if found["key"]:
        operator = "NotIn" if found["sign"] == "!=" else "In"
        return {"key": found["key"], "operator": operator, "values": [found["value"]]}
    return {"key": found["there"], "operator": "DoesNotExist" if found["no"] else "Exists"}


def selects(selector: object, labels: Mapping[str, Any], *, unknown: bool) -> bool:
    """Whether a LabelSelector means objects with these labels: an empty one all of them, none at all none.

    An operator that is not known selects as `unknown` says: it is the caller who knows which is harmless.
    """
    if not isinstance(selector, dict):
        return False
    exact = mapping(selector.get("matchLabels"))
    return all(key in labels and labels[key] == value for key, value in exact.items()) and all(
        _holds(term, labels, unknown=unknown) for term in mappings(selector.get("matchExpressions"))
    )


def _holds(term: Mapping[str, Any], labels: Mapping[str, Any], *, unknown: bool) -> bool:
    key, given = str(term.get("key", "")), term.get("values")
    values = given if isinstance(given, list) else ()
    match term.get("operator"):
        case "In":
            return key in labels and labels[key] in values
        case "NotIn":  # a label that is not there is not among them
            return key not in labels or labels[key] not in values
        case "Exists":
            return key in labels
        case "DoesNotExist":
            return key not in labels
        case _:
            return unknown
