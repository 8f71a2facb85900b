"""Pods that are as dear to review as anybody knows to make them."""

import copy
from collections.abc import Callable, Mapping
from typing import Any, Final

from support.kube.pods import annotated, pod

Object = dict[str, Any]

PATTERNS: Final[Mapping[str, str]] = {
    "too large a repetition": "(?P<value>a{99999999999})",
    "nested groups": "(?P<value>x)a?" + "(" * 9 + ")" * 9 + "b",
    "very nested groups": "(?P<value>x)" + "(" * 240 + ")" * 240,
    "nested optional groups": "(?P<value>x)" + "(?:" * 90 + "a" + ")?" * 90,
    "optional letters": "(?P<value>x)" + "a?" * 90,
    "optional sets": "(?P<value>x)" + "[^a]?" * 45,
    "wide ranges": "(?i)(?P<value>x)" + "[\0-\uffff]" * 90,
    "wide ranges of bytes": "(?i)(?P<value>x)" + "[\\x00-\\xff]" * 20,
    "boundaries": "(?P<value>x)" + "\\b" * 90,
    "alternatives": "(?P<value>x)(?:" + "a|" * 90 + "b)",
    "repetitions": "(?P<value>x)" + "a{1,9}" * 60,
    "a long text": "(?P<value>x)" + "a" * 490,
    "three megabytes": "a" * 2_900_000,
}


def _with_pattern(pattern: str) -> Callable[[], Object]:
    return lambda: pod(annotations=annotated(pattern=pattern))


def _many_keys(count: int) -> Object:
    return pod(annotations={**annotated(), **{f"specon.io/log-pat{index}": "" for index in range(count)}})


def _many(place: str, item: Object, count: int = 29_000) -> Object:
    made = pod(annotations=annotated())
    holder = made["spec"] if place in made["spec"] else made["spec"]["containers"][0]
    holder[place] = [*holder.get(place, []), *(dict(item, name=f"n{index}") for index in range(count))]
    return made


def _nested(around: Callable[[Any], Any]) -> Object:
    """Return a pod with very many values, and hardly a comma between them."""
    made = pod(annotations=annotated())
    inner: Any = None
    for _ in range(200):
        inner = around(inner)
    made["spec"]["x"] = [copy.deepcopy(inner) for _ in range(2000)]
    return made


def _deep() -> Object:
    made = pod(annotations=annotated())
    inner: Object = {}
    made["spec"]["containers"][0]["securityContext"] = inner
    for _ in range(900):
        inner["a"] = {}
        inner = inner["a"]
    return made


DEAREST: Final[Mapping[str, Callable[[], Object]]] = {
    "80,000 keys that are not known": lambda: _many_keys(80_000),
    "50 keys that are almost known": lambda: _many_keys(50),
    "28,000 containers": lambda: _many("containers", {}, 14_000),
    "variables": lambda: _many("env", {}, 14_000),
    "mounts": lambda: _many("volumeMounts", {"mountPath": "/x"}, 9_000),
    "volumes": lambda: _many("volumes", {"persistentVolumeClaim": {}}, 7_000),
    "lists in lists": lambda: _nested(lambda inner: [inner]),
    "objects in objects": lambda: _nested(lambda inner: {"a": inner}),
    "an object in an object": _deep,
    "labels": lambda: pod(annotations=annotated(), labels={f"k{index}": "" for index in range(29_000)}),
    **{f"a pattern: {name}": _with_pattern(pattern) for name, pattern in PATTERNS.items()},
}
