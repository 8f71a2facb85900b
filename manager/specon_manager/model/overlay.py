"""A mapping with a few values changed, made without a copy of the whole."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import compress
from math import isqrt
from operator import is_not
from typing import Any, Final, TypeVar

V = TypeVar("V")

_FEW: Final = 256
"""A mapping of so few is copied; of a larger one at least so many changes are laid over it before it is."""


class Overlay(Mapping[str, V]):
    """`base` with `changes` in place of its values; neither is ever changed.

    A plan that starts a thousand replicas makes a thousand of these: each costs as much as there are changes,
    not as there are replicas in the cluster.
    """

    def __init__(
        self, base: Mapping[str, V], changes: Mapping[str, V], last: tuple[Mapping[str, V], str] | None = None
    ) -> None:
        self._base: Mapping[str, V] = base
        self._changes = changes
        self._last = last
        self._length: int | None = None

    def with_change(self, key: str, value: V) -> "Overlay[V]":
        """Return an overlay with one more change."""
        twin = Overlay(self._base, {**self._changes, key: value}, (self._changes, key))
        if key in self:
            twin._length = self._length
        return twin

    def last_change(self, former: "Mapping[str, V]") -> str | None:
        """Return the one key that was changed since `former`; None where more may have been, or others."""
        if self._last is None or not isinstance(former, Overlay):
            return None
        changes, key = self._last
        return key if former.laid is changes else None  # each overlay has changes of its own

    def __getitem__(self, key: str) -> V:
        return self._changes[key] if key in self._changes else self._base[key]

    def get(self, key: str, default: Any = None) -> Any:
        """Return the value of the key, or the default: asked for several times at each report."""
        return self._changes[key] if key in self._changes else self._base.get(key, default)

    def __contains__(self, key: object) -> bool:
        return key in self._changes or key in self._base

    def __iter__(self) -> Iterator[str]:
        yield from self._base
        yield from (key for key in self._changes if key not in self._base)

    def __len__(self) -> int:
        if self._length is None:
            self._length = len(self._base) + sum(key not in self._base for key in self._changes)
        return self._length

    def flat(self) -> dict[str, V]:
        """Return the same as a plain dictionary, which nobody may change."""
        if not self._changes and isinstance(self._base, dict):
            return self._base
        return {**self._base, **self._changes}

    @property
    def base(self) -> Mapping[str, V]:
        """What the changes are laid over."""
        return self._base

    @property
    def laid(self) -> Mapping[str, V]:
        """The changes."""
        return self._changes

    @property
    def changes(self) -> int:
        """How many values are laid over the base."""
        return len(self._changes)


def change_one(base: Mapping[str, V], key: str, value: V) -> Mapping[str, V]:
    """Return `base` with one value changed, at a cost that does not grow with its size.

    Thousands of reports a second each change one replica of ten thousand.
    """
    if isinstance(base, Overlay):
        # A copy of the whole costs as much as its size, one of the changes as much as their number.
        if base.changes < _FEW or base.changes < isqrt(len(base)):
            return base.with_change(key, value)
        return Overlay({**base.flat(), key: value}, {}, (base.laid, key))
    if len(base) <= _FEW:
        return {**base, key: value}
    return Overlay(base, {key: value})


def lacking(mapping: Mapping[str, V], keys: Iterable[str]) -> Mapping[str, V]:
    """Return the same mapping without these keys; nothing where they are not in it."""
    left = dict(flat(mapping))
    for key in keys:
        left.pop(key, None)
    return left


def differing(before: Mapping[str, V], after: Mapping[str, V]) -> Iterable[str]:
    """Return the keys of `after` whose values may be others than in `before`.

    Those are few where one was made of the other by `change_one`.
    """
    if isinstance(after, Overlay) and (last := after.last_change(before)) is not None:
        return (last,)  # a report changes one replica, and thousands come in a second
    base = before.base if isinstance(before, Overlay) else before
    if not isinstance(after, Overlay) or after.base is not base:
        was, now = flat(before), flat(after)
        if list(was) != list(now):
            return compress(now, map(is_not, map(was.get, now), now.values()))
        return compress(now, map(is_not, was.values(), now.values()))
    former = before.laid if isinstance(before, Overlay) else {}
    return [key for key, value in after.laid.items() if former.get(key) is not value]


def flat(mapping: Mapping[str, V]) -> Mapping[str, V]:
    """Return the same mapping in the form that is quick to go through."""
    return mapping.flat() if isinstance(mapping, Overlay) else mapping
