"""Disruptions that were used a moment ago: the status of a budget shows them once the pods are seen to go.

Two jobs that one budget guards might else leave at the same moment, each by what the other one uses too.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Final

_SECONDS: Final = 10.0
"""How long a use is remembered: until the pods are told to end and the disruption controller has seen it."""


class Grants:
    """Which pods were let go under which budget in the last seconds, by their UIDs; in memory only."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._granted: dict[tuple[str, str], float] = {}
        """Until when, by budget and pod."""

    def count_taken(self, pods: Iterable[str]) -> Mapping[str, int]:
        """Return how many pods but these were let go lately, by budget."""
        now, asking = self._monotonic(), frozenset(pods)
        self._granted = {key: until for key, until in self._granted.items() if until > now}
        found: dict[str, int] = {}
        for budget, pod in self._granted:
            if pod not in asking:
                found[budget] = found.get(budget, 0) + 1
        return found

    def grant(self, budget: str, pods: Iterable[str]) -> None:
        """Remember that these pods are let go under the budget."""
        until = self._monotonic() + _SECONDS
        for pod in pods:
            self._granted[budget, pod] = until
