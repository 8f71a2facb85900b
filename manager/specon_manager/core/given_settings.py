"""What the owner of a cluster wrote about the manager, checked as a whole: every mistake at once.

Job files of the local backend and the configuration of `specon serve` share these keys.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from types import NoneType
from typing import Annotated, Any, Final, Literal, get_args, get_origin

import msgspec
from msgspec import UNSET, Meta, UnsetType

from specon_manager.model.queues import Queue
from specon_manager.model.settings import Budgets, Deadlines, Gate, Seconds, Settings, Warns
from specon_manager.model.spelling import suggest_word
from specon_manager.policies.table import policy_named, settings_of

KINDS: Final[Mapping[str, Any]] = {
    "policy": str,
    "parameters": dict[str, Any],
    "budgets": Budgets,
    "gate": Gate,
    "deadlines": Deadlines,
    "queues": tuple[Queue, ...],
    "starvation": Seconds | None,
    "fair_shares": Seconds | None,
    "warnings": tuple[Warns, ...],
    "defragment": Literal["off", "dry-run", "on"],
    "dry_run": bool,
    "tick": Annotated[float, Meta(gt=0, le=1e9)],
}
"""The type of each key."""
_GOT: Final = re.compile(r", got `\w+`")  # the value itself follows
_LONGEST: Final = 400  # characters of what a parser says
_LINE: Final = 80  # characters of a value that are worth repeating on a terminal


def read_settings(
    content: Mapping[str, Any],
    mistakes: list[str],
    *,
    beside: Collection[str] = (),
    defaults: Settings | None = None,
) -> Settings:
    """Return the settings in `content`; their mistakes are added to `mistakes`.

    `beside` names the keys that mean something to the caller; others than these and `KINDS` are mistakes.
    What `defaults` says holds where nothing is given, also for each field of budgets, gate and deadlines.
    """
    defaults = Settings() if defaults is None else defaults
    given: dict[str, Any] = {}
    known = (*beside, *KINDS)
    use = f"; use {', '.join(known)}"
    mistakes += [
        f"{key}: is not known{suggest_word(str(key), known) or use}" for key in content if key not in known
    ]
    for key, kind in KINDS.items():
        value = content.get(key, UNSET)
        default = getattr(defaults, key)
        if key == "defragment" and isinstance(value, bool):
            value = "on" if value else "off"  # what YAML makes of these words without quotes
        if isinstance(default, msgspec.Struct) and isinstance(value, dict):
            value = {**msgspec.to_builtins(default), **value}
        value = convert(value, kind, key, mistakes)
        if value is not UNSET:
            given[key] = value
    settings = msgspec.structs.replace(defaults, **given)
    mistakes += _of_queues(settings.queues)
    try:
        policy = policy_named(settings.policy)
        settings_of(policy, settings.parameters)
        if policy.clairvoyant:
            why = "must be told how long every job takes: it is a bound for simulations"
            mistakes.append(f"policy: {policy.name} {why}")
    except ValueError as error:
        mistakes.append(str(error))
    return settings


def _of_queues(queues: Iterable[Queue]) -> Iterator[str]:
    """Yield the mistakes of queues beside their types."""
    known = set[str]()
    for number, queue in enumerate(queues):
        if not queue.name:
            yield f"queues[{number}].name: is empty, and a job without a queue has no quota"
        if queue.name in known:
            yield f"queues[{number}].name: {cut_value(queue.name)} is given twice"
        known.add(queue.name)
        if queue.limit is None:
            continue
        for kind in ("cpu", "memory", "gpu"):
            quota, limit = getattr(queue.quota, kind), getattr(queue.limit, kind)
            if limit < quota:
                yield f"queues[{number}].limit.{kind}: {limit:g} is less than the quota, {quota:g}"


def convert(value: object, kind: Any, place: str, mistakes: list[str]) -> Any | UnsetType:
    """Return the value as a `kind`, or UNSET where it is none; `place` names it among the mistakes."""
    if value is UNSET:
        return UNSET
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        known = _words_of(kind)
        said = f"must be one of {', '.join(known)}" if known else _describe_kind(kind)
        said = said or _GOT.sub("", str(error))
        mistakes.append(f"{place}: {said}, not {cut_value(value)}")
        return UNSET


def _words_of(kind: Any) -> list[str]:
    """Return the only words that the value may be; none where other values are possible, too."""
    parts = (
        [kind] if get_origin(kind) is Literal else [each for each in get_args(kind) if each is not NoneType]
    )
    if not all(get_origin(each) is Literal for each in parts):
        return []
    return [str(word) for each in parts for word in get_args(each)]


def _describe_kind(kind: Any) -> str:
    """Return what a value of this type has to be, in the words beside its bounds; empty without any."""
    told = (each.description for each in getattr(kind, "__metadata__", ()) if isinstance(each, Meta))
    return next((f"must be {each}" for each in told if each), "")


def describe_no_yaml(error: Exception) -> str:
    """Return the mistake of a text that is no YAML, and its place, on one line."""
    at, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None)
    if at is None or problem is None:
        return " ".join(str(error).split())[:_LONGEST]
    return f"line {at.line + 1}, column {at.column + 1}: {' '.join(problem.split())[:_LONGEST]}"


def cut_value(value: object) -> str:
    """Return the value as it can be repeated in a message."""
    text = repr(value)
    return text if len(text) <= _LINE else f"{text[: _LINE - 3]}..."
