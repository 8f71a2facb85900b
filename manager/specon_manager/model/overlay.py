"""A mapping with a few values changed, made without a copy of the whole."""

from collections.abc import Iterator, Mapping
from typing import TypeVar

V = TypeVar("V")


class Overlay(Mapping[str, V]):
    """`base` with `changes` in place of its values; neither is ever changed.

    A plan that starts a thousand replicas makes a thousand of these: each costs as much as there are changes,
    not as there are replicas in the cluster.
    """

    def __init__(self, base: Mapping[str, V], changes: Mapping[str, V]) -> None:
        """Lay `changes` over `base`; what lies over another overlay is put into one."""
        if isinstance(base, Overlay):
            base, changes = base._base, {**base._changes, **changes}
        self._base: Mapping[str, V] = base
        self._changes = changes

    def __getitem__(self, key: str) -> V:
        return self._changes[key] if key in self._changes else self._base[key]

    def __contains__(self, key: object) -> bool:
        return key in self._changes or key in self._base

    def __iter__(self) -> Iterator[str]:
        yield from self._base
        yield from (key for key in self._changes if key not in self._base)

    def __len__(self) -> int:
        return len(self._base) + sum(key not in self._base for key in self._changes)
