"""Which nodes have room for something: an earlier answer narrows the next search."""

from collections.abc import Mapping, Sequence
from typing import Final

from specon_manager.model.rooms import Parts

_FEW: Final = 1 / 16
"""Of the nodes: those that have room for something are remembered where they are no more."""
_REMEMBERED: Final = 16
_APART: Final = 64
"""So many nodes that got more are named apart from the remembered ones."""


class KnownFits:
    """The nodes that had room for each amount looked for, as long as those nodes are few.

    An amount that is as large in every respect fits only there, and on nodes that got more room since.
    """

    def __init__(self, nodes: int, rank: Mapping[str, int]) -> None:
        """Begin without knowledge of so many nodes; `rank` gives their order."""
        self._number, self._rank = nodes, rank
        self._known: dict[Parts, frozenset[str]] = {}
        self._more: set[str] = set()

    def copy(self) -> "KnownFits":
        """Return a copy to try something on."""
        twin = KnownFits(self._number, self._rank)
        twin._known, twin._more = self._known.copy(), self._more.copy()
        return twin

    def among(self, asked: Parts) -> Sequence[str] | None:
        """Return the nodes that may have room for this much, in their order; None: any of them may."""
        fewest = None
        for known, nodes in self._known.items():
            if (fewest is None or len(nodes) < len(fewest)) and _within(known, asked):
                fewest = nodes
        if fewest is None:
            return None
        found = fewest | self._more if self._more else fewest
        return sorted(found, key=self._rank.__getitem__) if len(found) > 1 else tuple(found)

    def learn(self, asked: Parts, nodes: Sequence[str]) -> None:
        """Remember that those are the nodes with so much left; others get more by `add` alone."""
        if len(nodes) > _FEW * self._number:
            return
        if not nodes:  # what covers more says less
            self._known = {known: since for known, since in self._known.items() if not _within(asked, known)}
        elif len(self._known) >= _REMEMBERED:
            del self._known[next(iter(self._known))]
        self._known[asked] = frozenset(nodes)

    def add(self, node: str) -> None:
        """Take note that a node has more left than before."""
        if not self._known:
            return
        self._more.add(node)
        if len(self._more) > _APART:
            self._known = {asked: nodes | self._more for asked, nodes in self._known.items()}
            self._more = set()


def _within(one: Parts, other: Parts) -> bool:
    """Whether one amount is no larger than another in any respect."""
    return one[0] <= other[0] and one[1] <= other[1] and one[2] <= other[2]
