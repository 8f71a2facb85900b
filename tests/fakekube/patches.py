"""The ways to change an object: JSON patch (RFC 6902), merge patch (RFC 7396), strategic merge patch.

Strategic: lists that have a merge key in Kubernetes' types are merged by it, `$patch: delete` takes one away,
`$patch: replace` replaces the whole, `$retainKeys`, `$setElementOrder` and the like are passed over.
"""

from typing import Any

import msgspec

from fakekube import failures

_MERGE_KEYS = {
    "containers": "name",
    "initContainers": "name",
    "ephemeralContainers": "name",
    "env": "name",
    "volumes": "name",
    "volumeMounts": "mountPath",
    "schedulingGates": "name",
    "conditions": "type",
    "imagePullSecrets": "name",
    "ownerReferences": "uid",
    "hostAliases": "ip",
    "webhooks": "name",
    "addresses": "type",
    "ports": "containerPort",
    "topologySpreadConstraints": "topologyKey",
    "resourceClaims": "name",
    "podIPs": "ip",
}
_SETS = frozenset({"finalizers"})
"""Lists of plain values that are merged as sets; every other list is replaced (tolerations too)."""


def apply(form: str, value: Any, body: Any) -> Any:
    """Return the changed value; `form` is json, merge or strategic.

    Raises a 400 for a body of the wrong shape, a 422 for a JSON patch that does not fit.
    """
    if form == "json":
        if not isinstance(body, list):
            raise failures.bad_request("json: cannot unmarshal object into Go value of type jsonpatch.Patch")
        return json_patch(value, body)
    if not isinstance(body, dict):
        raise failures.bad_request(
            "json: cannot unmarshal array into Go value of type map[string]interface {}"
        )
    return merge(value, body) if form == "merge" else strategic(value, body)


def merge(value: Any, patch: Any) -> Any:
    """Apply a merge patch."""
    if not isinstance(patch, dict):
        return patch
    result = dict(value) if isinstance(value, dict) else {}
    for key, change in patch.items():
        if change is None:
            result.pop(key, None)
        else:
            result[key] = merge(result.get(key), change)
    return result


def strategic(value: Any, patch: Any) -> Any:
    """Apply a strategic merge patch to an object."""
    if not isinstance(patch, dict):
        return patch
    if patch.get("$patch") == "replace":
        return {key: change for key, change in patch.items() if key != "$patch"}
    result = dict(value) if isinstance(value, dict) else {}
    for key, change in patch.items():
        if key.startswith("$deleteFromPrimitiveList/"):
            name = key.split("/", 1)[1]
            result[name] = [item for item in result.get(name) or [] if item not in change]
        elif key.startswith("$"):
            continue
        elif change is None:
            result.pop(key, None)
        elif isinstance(change, list):
            result[key] = _strategic_list(key, result.get(key) or [], change)
        else:
            result[key] = strategic(result.get(key), change)
    return result


def _strategic_list(name: str, old: list[Any], patch: list[Any]) -> list[Any]:
    if name in _SETS:
        return [*old, *(item for item in patch if item not in old)]
    key = _MERGE_KEYS.get(name)
    if any(isinstance(item, dict) and item.get("$patch") == "replace" for item in patch):
        return [item for item in patch if "$patch" not in item]
    if key is None or not all(isinstance(item, dict) for item in (*old, *patch)):
        return patch
    result = list(old)
    added = []
    for change in patch:
        at = next((n for n, item in enumerate(result) if item.get(key) == change.get(key)), None)
        if change.get("$patch") == "delete":
            if at is not None:
                del result[at]
        elif at is None:
            added.append(strategic({}, change))
        else:
            result[at] = strategic(result[at], change)
    return [*added, *result] if name != "conditions" else [*result, *added]


def json_patch(value: Any, operations: list[Any]) -> Any:
    """Apply a JSON patch: all of it or nothing."""
    value = msgspec.json.decode(msgspec.json.encode(value))
    for operation in operations:
        try:
            value = _operate(value, operation)
        except (KeyError, IndexError, TypeError, ValueError) as error:
            message = f"the server rejected our request due to an error in our request: {error}"
            raise failures.FailureError(422, "Invalid", message) from error
    return value


def _operate(value: Any, operation: dict[str, Any]) -> Any:
    kind, path = operation["op"], _parts(operation["path"])
    if kind == "test":
        if _read(value, path) != operation.get("value"):
            raise ValueError(f"testing value {operation['path']} failed")
        return value
    if kind == "remove":
        return _write(value, path, "remove", None)
    if kind in {"move", "copy"}:
        moved = _read(value, _parts(operation["from"]))
        if kind == "move":
            value = _write(value, _parts(operation["from"]), "remove", None)
        return _write(value, path, "add", moved)
    if kind not in {"add", "replace"}:
        raise ValueError(f"unexpected kind: {kind}")
    return _write(value, path, kind, operation["value"])


def _parts(pointer: str) -> list[str]:
    if pointer and not pointer.startswith("/"):
        raise ValueError(f"path {pointer!r} does not start with /")
    return [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]]


def _read(value: Any, path: list[str]) -> Any:
    for part in path:
        value = value[int(part)] if isinstance(value, list) else value[part]
    return value


def _write(value: Any, path: list[str], kind: str, new: Any) -> Any:
    if not path:
        return new
    parent = _read(value, path[:-1])
    last = path[-1]
    if isinstance(parent, list):
        _write_item(parent, last, kind, new)
    elif kind == "remove":
        del parent[last]
    elif kind == "replace" and last not in parent:
        raise KeyError(f"replace operation does not apply: doc is missing key: {last}")
    else:
        parent[last] = new
    return value


def _write_item(items: list[Any], last: str, kind: str, new: Any) -> None:
    at = len(items) if last == "-" else int(last)
    if kind == "add":
        if at > len(items):
            raise IndexError(f"add operation does not apply: index {at} is out of bounds")
        items.insert(at, new)
    elif kind == "remove":
        del items[at]
    else:
        items[at] = new
