"""Values that are changed on top of others, which stay as they are."""

from collections.abc import Callable, Iterator, Mapping, MutableMapping
from typing import TypeVar

V = TypeVar("V")


class Layer(MutableMapping[str, V]):
    """The keys of a mapping, with values made of it when they are first asked for.

    To be used until the mapping below changes: then a value that was not asked for is another one.
    """

    def __init__(self, below: Mapping[str, V], value: Callable[[str], V] | None = None) -> None:
        """Take the mapping below, and the function that gives a key's value; None gives those below."""
        self._below, self._value = below, below.__getitem__ if value is None else value
        self._own: dict[str, V] = {}

    def __getitem__(self, key: str) -> V:
        found = self._own.get(key)
        if found is None:
            found = self._own[key] = self._value(key)
        return found

    def __setitem__(self, key: str, value: V) -> None:
        self._own[key] = value

    def __delitem__(self, key: str) -> None:
        raise TypeError(f"{key} is below")

    def __iter__(self) -> Iterator[str]:
        return iter(self._below)

    def __len__(self) -> int:
        return len(self._below)

    def __contains__(self, key: object) -> bool:
        return key in self._below


def copied(values: MutableMapping[str, V]) -> dict[str, V]:
    """Return all values, in a mapping of their own."""
    return values.copy() if isinstance(values, dict) else dict(values.items())
