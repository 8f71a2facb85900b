"""Objects as hostile tenants write them: those that everybody writes, with nonsense at any place of them."""

import copy
import json
from collections.abc import Sequence
from random import Random
from typing import Any, Final

import msgspec

from fuzz.object_seeds import ANNOTATIONS
from specon_manager.backends.kube.objects.annotations import ANNOTATIONS as TABLE
from support.kube.hostile_objects import PATTERNS

Object = dict[str, Any]

_MOST_CHANGES: Final = 6
_SCALARS: Final[Sequence[Any]] = (
    None, True, False, 0, -1, 1, 2**31, 2**63, -(2**63), 10**30, 1e308, -1e308, 1e-320, 0.1, 3.0,
    "", " ", "\0", "a", "A" * 300, "x" * 20_000, "é\u202e\U0001f600", "9" * 400, "-1", "1e999", "nan", "inf",
    "true", "null", "a/b/c/d", "../..", "$(X)", "{}", "[]", "0x10", "1Ei", "1e300", "9999-12-31T23:59:59Z",
    "0000-00-00", "2026-01-01", "100%", "-5%", "worker", "0:0", "held-", "Pod", "Job", "specon.io/inject",
)  # fmt: skip
_KEYS: Final = ("name", "uid", "labels", "annotations", "spec", "status", "metadata", "", "x" * 300, "é", "0")


def mutated(item: Object, others: Sequence[Object], random: Random) -> Object:
    """Return the object with some changes, as it is once the API has told it in JSON."""
    made = copy.deepcopy(item)
    for _ in range(random.randint(1, _MOST_CHANGES)):
        random.choice(_CHANGES)(made, others, random)
    found: Object = msgspec.json.decode(json.dumps(made))
    return found


def _replace(item: Object, others: Sequence[Object], random: Random) -> None:
    del others
    holder, key = _place(item, random)
    holder[key] = _value(random, holder[key])


def _drop(item: Object, others: Sequence[Object], random: Random) -> None:
    del others
    holder, key = _place(item, random)
    if holder is not item or key != "metadata":
        del holder[key]


def _grow(item: Object, others: Sequence[Object], random: Random) -> None:
    """Add what was not there, or the same many times."""
    del others
    holder, key = _place(item, random)
    if isinstance(holder, dict):
        holder[random.choice(_KEYS)] = _value(random, None)
    else:
        holder += [holder[key]] * random.choice((1, 2, 50))


def _annotate(item: Object, others: Sequence[Object], random: Random) -> None:
    """Write annotations of ours, right and wrong ones, wherever there are some."""
    del others
    places = [holder for holder, key in _places(item) if key == "annotations"]
    holder = random.choice(places)["annotations"] if places else None
    if not isinstance(holder, dict):
        return
    for _ in range(random.choice((1, 2, 5, 100))):
        holder[random.choice(_NAMES)] = random.choice(_TEXTS) if random.random() < 0.9 else _value(random, "")


def _transplant(item: Object, others: Sequence[Object], random: Random) -> None:
    """Put a part of another object where it does not belong."""
    holder, key = _place(item, random)
    theirs, place = _place(random.choice(others), random)
    holder[key] = copy.deepcopy(theirs[place])


def _value(random: Random, former: Any) -> Any:
    kind = random.randrange(12)
    if kind == 0:
        return _deep(random.choice((3, 30, 300)), random)
    if kind == 1:
        return [random.choice(_SCALARS) for _ in range(random.choice((0, 1, 5, 300)))]
    if kind == 2:
        keys = random.choice((0, 1, 5, 300))
        return {f"{random.choice(_KEYS)}{index or ''}": random.choice(_SCALARS) for index in range(keys)}
    if kind == 3:
        return [former, former]
    if kind == 4 and isinstance(former, str):
        return former * random.choice((2, 100))
    if kind == 5 and isinstance(former, str) and former:
        at = random.randrange(len(former))
        return former[:at] + str(random.choice(_SCALARS)) + former[at + 1 :]
    return random.choice(_SCALARS)


def _deep(depth: int, random: Random) -> Any:
    made: Any = random.choice(_SCALARS)
    for _ in range(depth):
        made = {"a": made} if random.random() < 0.5 else [made]
    return made


def _places(item: Any) -> list[tuple[Any, Any]]:
    """Return every holder with each of its keys or indices."""
    found: list[tuple[Any, Any]] = []
    waiting = [item]
    while waiting and len(found) < 2000:
        holder = waiting.pop()
        keys = list(holder) if isinstance(holder, dict) else range(len(holder))
        for key in keys:
            found.append((holder, key))
            if isinstance(holder[key], dict | list):
                waiting.append(holder[key])
    return found


def _place(item: Object, random: Random) -> tuple[Any, Any]:
    places = _places(item)
    if not places:
        item["x"] = None
        return item, "x"
    return random.choice(places)


_NAMES: Final = (
    *ANNOTATIONS, *(one.key for one in TABLE),
    "specon.io/log-pat", "specon.io/", "specon.io/" + "k" * 300, "specon.io/ca", "specon.io/move",
    "kueue.x-k8s.io/x",
)  # fmt: skip
_TEXTS: Final = (
    *ANNOTATIONS.values(), *(one.example for one in TABLE),
    *(pattern for pattern in PATTERNS.values() if len(pattern) < 5000),
    *(text for text in _SCALARS if isinstance(text, str)),
)  # fmt: skip
_CHANGES: Final = (_replace, _replace, _replace, _drop, _grow, _annotate, _annotate, _transplant)
