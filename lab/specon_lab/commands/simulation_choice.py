"""The simulations, read from the command line: policies with parameters, and the owner's settings."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct

from specon_manager.model.settings import Settings
from specon_manager.policies.table import policy_named, settings_of
from specon_manager.usage import UsageError

_OPENING, _CLOSING = "[{", "]}"
_NOT_HERE: Final = {"policy": "--policy", "parameters": "--policy NAME:key=value"}


class PolicyChoice(Struct, frozen=True, kw_only=True):
    """A policy and its given parameters."""

    label: str
    """As it was asked for: `name` or `name:key=value,...`."""
    name: str
    parameters: Mapping[str, Any]


def read_policies(texts: Sequence[str], baseline: str | None) -> tuple[PolicyChoice, ...]:
    """Return the policies that are to run, the baseline too; raises UsageError."""
    wanted = [policy_choice(text, "--policy") for text in texts]
    labels = [choice.label for choice in wanted]
    for label in labels:
        if labels.count(label) > 1:
            raise UsageError(f"--policy: {label} is given {labels.count(label)} times")
    if baseline is not None and baseline not in labels:
        wanted.append(policy_choice(baseline, "--baseline"))
    return tuple(wanted)


def policy_choice(text: str, flag: str) -> PolicyChoice:
    """Return the policy that `name` or `name:key=value,...` means; raises UsageError naming the flag."""
    name, _, rest = text.partition(":")
    try:
        policy = policy_named(name)
        parameters = dict(assignments(split(rest)))
        settings_of(policy, parameters)
    except ValueError as error:
        raise UsageError(f"{flag}: {error}") from error
    return PolicyChoice(label=text, name=name, parameters=parameters)


def read_settings(texts: Iterable[str], defaults: Settings) -> Settings:
    """Return the defaults with what `tick=60` or `gate.enabled=false` change in them; raises UsageError."""
    built = msgspec.to_builtins(defaults)
    try:
        for key, value in assignments(part for text in texts for part in split(text)):
            if (flag := _NOT_HERE.get(key.partition(".")[0])) is not None:
                raise UsageError(f"--settings: {key} is chosen by {flag}")
            *path, last = key.split(".")
            inner = built
            for step in path:
                inner = inner.get(step)
                if not isinstance(inner, dict):
                    raise UsageError(f"--settings: {key}: there is no {step}")
            inner[last] = value
        return msgspec.convert(built, Settings)
    except ValueError as error:  # of msgspec too: its ValidationError is one
        raise UsageError(f"--settings: {error}") from error


def assignments(parts: Iterable[str]) -> Iterator[tuple[str, Any]]:
    """Yield key and value of each `key=value`; raises ValueError for anything else and for a key given twice.

    A value is read as JSON (`8`, `0.5`, `true`, `{"a": 1}`), `none` as null, everything else as text.
    """
    known = set()
    for part in parts:
        key, equals, value = part.partition("=")
        key = key.strip()
        if not equals or not key:
            raise ValueError(f"{part!r} is not of the form key=value")
        if key in known:
            raise ValueError(f"{key} is given twice")
        known.add(key)
        yield key, _value(value.strip())


def split(text: str) -> list[str]:
    """Split at commas, but not inside of quotes and brackets."""
    parts, depth, quoted, start = [], 0, False, 0
    for place, letter in enumerate(text):
        if letter == '"':
            quoted = not quoted
        elif not quoted:
            depth += (letter in _OPENING) - (letter in _CLOSING)
            if letter == "," and depth <= 0:
                parts.append(text[start:place])
                start = place + 1
    return [*parts, text[start:]] if text else []


def _value(text: str) -> Any:
    if text.lower() == "none":
        return None
    try:
        return json.loads(text, parse_constant=_no_number)
    except (ValueError, RecursionError):
        return text


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is not a number")
