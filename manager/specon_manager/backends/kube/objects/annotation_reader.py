"""All annotations of a pod, read at once: what they say together, or every mistake in them. Pure.

Whatever starts with `specon.io/` is checked. An annotation that is neither in the table nor one of those that
we write ourselves is a mistake: a typing error in a key would otherwise silently change nothing.

Anybody may write them, so their number and their length are looked at before anything that could take long.
"""

import functools
from collections.abc import Mapping, Sequence
from typing import Any, Final

from specon_manager.backends.kube.objects.annotation_conflicts import contradictions
from specon_manager.backends.kube.objects.annotation_keys import PREFIX, WRITTEN_BY_US
from specon_manager.backends.kube.objects.annotation_mistakes import (
    LONGEST_KEY,
    LONGEST_MISTAKE,
    AnnotationError,
    cut_text,
    describe_error,
    show_value,
)
from specon_manager.backends.kube.objects.annotations import ANNOTATIONS, Options
from specon_manager.model.spelling import suggest_word

MOST: Final = 64
"""Annotations of ours on one object: more than twice as many as there are."""
LONGEST: Final = 4096
"""Characters of one."""
LONGEST_TOGETHER: Final = 16_384
"""Characters of all of them."""
_MOST_NAMED: Final = 10
_BY_KEY: Final = {one.key: one for one in ANNOTATIONS}


def read_options(annotations: Mapping[Any, Any]) -> Options:
    """Return what the annotations of a pod say; those with another prefix are not ours.

    Raises AnnotationError with every mistake, or the first ten: nothing else, whatever the annotations are.
    """
    ours = [
        key
        for key in annotations
        if isinstance(key, str) and key.startswith(PREFIX) and key not in WRITTEN_BY_US
    ]
    mistakes = _too_much(annotations, ours)
    values: dict[str, Any] = {}
    for key in () if mistakes else sorted(ours):
        if len(mistakes) == _MOST_NAMED:
            mistakes.append(f"{PREFIX}*: further annotations were not checked")
            break
        known = _BY_KEY.get(key)
        if known is None:
            mistakes.append(f"{cut_text(key, LONGEST_KEY)}: is not known{_similar(key)}")
            continue
        try:
            values[known.field] = known.read(annotations[key])
        except Exception as error:  # noqa: BLE001  (whatever a reader runs into, the text is its owner's)
            mistakes.append(
                cut_text(f"{key}: {show_value(annotations[key])} {describe_error(error)}", LONGEST_MISTAKE)
            )
    if not mistakes:  # of a wrong value no more can be said
        mistakes += contradictions(values)
    if mistakes:
        raise AnnotationError(mistakes)
    return Options(**values)


def options_said(annotations: Mapping[Any, Any]) -> Options:
    """Return what the annotations of an object say; those that cannot be read say nothing.

    Admission refuses them; they may be older than its rules, or on an object that no webhook sees. What
    differs from pod to pod is left out: those of a kind are read once.
    """
    ours = {
        key: value
        for key, value in annotations.items()
        if isinstance(key, str) and key.startswith(PREFIX) and key not in WRITTEN_BY_US
    }
    return Options(migrate=False) if _too_much(ours, [*ours]) else _read_values(tuple(sorted(ours.items())))


@functools.lru_cache(maxsize=1024)
def _read_values(annotations: tuple[tuple[str, str], ...]) -> Options:
    try:
        return read_options(dict(annotations))
    except AnnotationError:
        return Options(migrate=False)


def _too_much(annotations: Mapping[Any, Any], ours: Sequence[str]) -> list[str]:
    """Name annotations that are too large to be read any closer, or no text at all."""
    if len(ours) > MOST:
        return [f"{PREFIX}*: there are {len(ours)} annotations that begin so, more than {MOST}"]
    for key in ours:
        if not isinstance(annotations[key], str):
            return [f"{cut_text(key, LONGEST_KEY)}: is no text, but {type(annotations[key]).__name__}"]
        if len(annotations[key]) > LONGEST:
            shown = f"{cut_text(key, LONGEST_KEY)}: {show_value(annotations[key])}"
            return [f"{shown} is longer than {LONGEST} characters"]
    together = sum(len(key) + len(annotations[key]) for key in ours)
    if together > LONGEST_TOGETHER:
        return [f"{PREFIX}*: these annotations have {together} characters, more than {LONGEST_TOGETHER}"]
    return []


def _similar(key: str) -> str:
    if len(key) > LONGEST_KEY:
        return ""
    return suggest_word(key, _BY_KEY) or f"; known are {', '.join(one.name for one in ANNOTATIONS)}"
