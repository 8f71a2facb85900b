"""The JSON Patch (RFC 6902) from one JSON value to another. Pure."""

from typing import Any, Final

_NOTHING: Final = object()


def json_patch(before: Any, after: Any, path: str = "") -> list[dict[str, Any]]:
    """Return the operations that turn `before` into `after`; none where they are equal.

    Mappings are compared key by key. A list that only grew at its end is appended to, one of the same length
    is compared item by item, any other is replaced whole.
    """
    if before == after and type(before) is type(after):
        return []
    if isinstance(before, dict) and isinstance(after, dict):
        # The same object is equal, however much is in it. One pass over all keys finds the few that differ.
        differs = [key for key, old in before.items() if after.get(key, _NOTHING) is not old]
        removed = [{"op": "remove", "path": _at(path, key)} for key in differs if key not in after]
        common = [key for key in differs if key in after]
        added = [
            {"op": "add", "path": _at(path, key), "value": after[key]} for key in after if key not in before
        ]
        return [
            *removed,
            *(step for key in common for step in json_patch(before[key], after[key], _at(path, key))),
            *added,
        ]
    if isinstance(before, list) and isinstance(after, list):
        kept = len(before)
        if len(after) > kept and after[:kept] == before:
            return [{"op": "add", "path": f"{path}/-", "value": value} for value in after[kept:]]
        if len(after) == kept:
            return [
                step
                for index, (old, new) in enumerate(zip(before, after, strict=True))
                for step in json_patch(old, new, f"{path}/{index}")
            ]
    return [{"op": "replace", "path": path, "value": after}]


def _at(path: str, key: str) -> str:
    return f"{path}/{key.replace('~', '~0').replace('/', '~1')}"
