"""Custom resource definitions as files: prunes what they do not name and checks what they do."""

import functools
import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import yaml

from fakekube import conditions
from fakekube.clock import seconds_of
from fakekube.failures import Cause
from fakekube.kinds import Object

_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
}
_META = ("apiVersion", "kind", "metadata")


@functools.cache
def read(folder: Path) -> Mapping[str, "Definition"]:
    """Return the definitions in a folder by their plural; none where there is no folder.

    They are read once: every cluster of a test run has the same.
    """
    found = {}
    for path in sorted(folder.glob("*.yaml")):
        for document in yaml.safe_load_all(path.read_text()):
            if document and document.get("kind") == "CustomResourceDefinition":
                found[document["spec"]["names"]["plural"]] = Definition(document)
    return MappingProxyType(found)


class Definition:
    """One definition's first served version, called with an object before and after a change."""

    def __init__(self, document: Object) -> None:
        version = next(entry for entry in document["spec"]["versions"] if entry["served"])
        schema: Object = version["schema"]["openAPIV3Schema"]
        parts = {name: part for name, part in (schema.get("properties") or {}).items() if name not in _META}
        self.schema: Object = {**schema, "properties": parts}

    def __call__(self, before: Object | None, after: Object) -> tuple[Object, list[Cause]]:
        """Return the pruned object with what is wrong with it."""
        kept = {field: after[field] for field in _META if field in after}
        rest = {field: value for field, value in after.items() if field not in _META}
        whole = {**kept, **_prune(self.schema, rest)}
        return whole, _check(self.schema, whole, before, "")


def _prune(schema: Object, value: Any) -> Any:
    if isinstance(value, list):
        return [_prune(schema.get("items") or {}, item) for item in value]
    if not isinstance(value, dict):
        return value
    more = schema.get("additionalProperties")
    if isinstance(more, dict):
        return {key: _prune(more, item) for key, item in value.items()}
    if schema.get("x-kubernetes-preserve-unknown-fields") or more is True:
        return value
    known = schema.get("properties") or {}
    filled = {key: part["default"] for key, part in known.items() if "default" in part and key not in value}
    # A null for a field that may not be null is dropped before defaults, as the real server does.
    kept = {
        key: _prune(known[key], item)
        for key, item in value.items()
        if key in known and not (item is None and not known[key].get("nullable"))
    }
    return {**kept, **filled}


def _check(schema: Object, value: Any, before: Any, path: str) -> list[Cause]:
    if value is None:
        return []
    wrong = _type(schema, value, path) or _bounds(schema, value, path)
    if wrong:
        return wrong
    causes: list[Cause] = []
    if isinstance(value, dict):
        causes += [
            ("FieldValueRequired", "Required value", _join(path, name))
            for name in schema.get("required") or []
            if name not in value
        ]
        old = before if isinstance(before, dict) else {}
        more = schema.get("additionalProperties")
        for name, item in value.items():
            part = (schema.get("properties") or {}).get(name, more if isinstance(more, dict) else {})
            causes += _check(part, item, old.get(name), _join(path, name))
    if isinstance(value, list):
        for at, item in enumerate(value):
            causes += _check(schema.get("items") or {}, item, None, f"{path}[{at}]")
    return causes + _rules(schema, value, before, path)


def _type(schema: Object, value: Any, path: str) -> list[Cause]:
    if schema.get("x-kubernetes-int-or-string"):
        fitting: tuple[type, ...] = (int, str)
    else:
        fitting = _TYPES.get(schema.get("type", ""), (object,))
    odd = isinstance(value, bool) and bool not in fitting and object not in fitting
    if isinstance(value, fitting) and not odd:
        return []
    named = {dict: "object", list: "array", str: "string", bool: "boolean", int: "integer", float: "number"}
    word, wanted = named.get(type(value), "null"), schema.get("type")
    told = f'Invalid value: "{word}": {path} in body must be of type {wanted}: "{word}"'
    return [("FieldValueTypeInvalid", told, path)]


def _bounds(schema: Object, value: Any, path: str) -> list[Cause]:
    if "enum" in schema and value not in schema["enum"]:
        listed = ", ".join(f'"{word}"' for word in schema["enum"])
        told = f'Unsupported value: "{value}": supported values: {listed}'
        return [("FieldValueNotSupported", told, path)]
    length = len(value) if isinstance(value, (str, list, dict)) else 0
    most = {str: "maxLength", list: "maxItems", dict: "maxProperties"}.get(type(value), "")
    least = {str: "minLength", list: "minItems", dict: "minProperties"}.get(type(value), "")
    if length > schema.get(most, length):
        reason = "FieldValueTooLong" if most == "maxLength" else "FieldValueTooMany"
        return [(reason, f"Too long: may not be more than {schema[most]}", path)]
    if length < schema.get(least, 0):
        return [("FieldValueInvalid", f"Invalid value: should be at least {schema[least]} long", path)]
    if isinstance(value, (int, float)) and not (
        schema.get("minimum", value) <= value <= schema.get("maximum", value)
    ):
        limits = f"{schema.get('minimum')} to {schema.get('maximum')}"
        return [("FieldValueInvalid", f"Invalid value: {value}: should be within {limits}", path)]
    return _text(schema, value, path) if isinstance(value, str) else []


def _text(schema: Object, value: str, path: str) -> list[Cause]:
    if "pattern" in schema and not re.search(schema["pattern"], value):
        told = f"Invalid value: \"{value}\": {path} in body should match '{schema['pattern']}'"
        return [("FieldValueInvalid", told, path)]
    if schema.get("format") == "date-time":
        try:
            seconds_of(value)
        except ValueError:
            told = f'Invalid value: "{value}": {path} in body must be of type date-time: "{value}"'
            return [("FieldValueInvalid", told, path)]
    return []


def _rules(schema: Object, value: Any, before: Any, path: str) -> list[Cause]:
    """Check the CEL rules that `conditions` can read; a rule about the old value needs one."""
    causes: list[Cause] = []
    for rule in schema.get("x-kubernetes-validations") or []:
        if "oldSelf" in rule["rule"] and before is None:
            continue
        if not conditions.evaluate(rule["rule"], {"self": value, "oldSelf": before}):
            told = rule.get("message") or f"failed rule: {rule['rule']}"
            causes.append(("FieldValueInvalid", f"Invalid value: {told}", path))
    return causes


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
