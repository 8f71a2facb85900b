"""Label and field selectors, in the text form of a URL and in the object form of a manifest."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from fakekube import failures
from fakekube.kinds import Kind, Object

Match = Callable[[Object], bool]

_FIELDS = {
    "pods": {"spec.nodeName", "status.phase", "spec.schedulerName", "spec.restartPolicy"},
    "events": {
        "involvedObject.name",
        "involvedObject.uid",
        "reason",
        "type",
        "regarding.name",
        "regarding.uid",
    },
    "nodes": {"spec.unschedulable"},
    "jobs": {"status.successful"},
    "secrets": {"type"},
    "namespaces": {"status.phase"},
}
_SET = re.compile(r"^\s*(\S+)\s+(in|notin)\s+\(([^)]*)\)\s*$")


def by_text(kind: Kind, labels: str, fields: str) -> Match:
    """Return the test for `labelSelector` and `fieldSelector`; raises a 400 for what cannot be read."""
    wanted = [_label_term(term) for term in _split(labels)]
    exact = [_field_term(kind, term) for term in _split(fields)]

    def match(value: Object) -> bool:
        own = value["metadata"].get("labels") or {}
        return all(term(own) for term in wanted) and all(term(value) for term in exact)

    return match


def by_object(selector: Object | None) -> Callable[[Mapping[str, str]], bool]:
    """Return the test for a LabelSelector of a manifest; an empty one matches all, None nothing."""
    if selector is None:
        return lambda labels: False
    exact = selector.get("matchLabels") or {}
    terms = selector.get("matchExpressions") or []
    return lambda labels: (
        all(labels.get(key) == value for key, value in exact.items())
        and all(expression(term, labels) for term in terms)
    )


def expression(term: Object, labels: Mapping[str, str]) -> bool:
    """Return whether labels satisfy one requirement, also of a node affinity (Gt and Lt compare integers)."""
    own = labels.get(term["key"])
    values = term.get("values") or []
    operator = term["operator"]
    if operator == "In":
        return own in values
    if operator == "NotIn":
        return own not in values
    if operator == "Exists":
        return own is not None
    if operator == "DoesNotExist":
        return own is None
    if own is None or not own.lstrip("-").isdigit():
        return False
    return int(own) > int(values[0]) if operator == "Gt" else int(own) < int(values[0])


def field(value: Any, path: str) -> str:
    """Return a field as a field selector sees it: a word, empty where it is missing."""
    for part in path.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)


def _split(text: str) -> list[str]:
    return [term for term in re.split(r",(?![^(]*\))", text) if term.strip()]


def _label_term(term: str) -> Callable[[Mapping[str, str]], bool]:
    found = _SET.match(term)
    if found:
        key, operator, listed = found.groups()
        values = {value.strip() for value in listed.split(",")}
        if operator == "in":
            return lambda labels: labels.get(key) in values
        return lambda labels: labels.get(key) not in values
    for sign, equal in (("!=", False), ("==", True), ("=", True)):
        if sign in term:
            key, value = (part.strip() for part in term.split(sign, 1))
            return lambda labels: (labels.get(key) == value) is equal
    key = term.strip()
    if key.startswith("!"):
        return lambda labels: key[1:].strip() not in labels
    if re.search(r"[\s()!]", key):
        raise failures.bad_request(f"unable to parse requirement: {term!r}")
    return lambda labels: key in labels


def _field_term(kind: Kind, term: str) -> Match:
    for sign, equal in (("!=", False), ("==", True), ("=", True)):
        if sign in term:
            path, value = term.split(sign, 1)
            known = {"metadata.name", "metadata.namespace"} | _FIELDS.get(kind.plural, set())
            if path not in known:
                raise failures.bad_request(f"field label not supported: {path}")
            return lambda whole: (field(whole, path) == value) is equal
    raise failures.bad_request(f"invalid selector: {term!r}; can't understand {term!r}")
