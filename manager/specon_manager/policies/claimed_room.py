"""The room that waiting jobs have a claim to, by node and by job."""

from collections.abc import Collection, Mapping

from specon_manager.model.resources import NOTHING, Resources, total


class ClaimedRoom:
    """The room kept by claims, as one call of a policy changes it."""

    def __init__(self) -> None:
        self._on: dict[str, dict[str, Resources]] = {}
        """By node, then by job."""
        self._of: dict[str, dict[str, None]] = {}
        """The nodes of each job that has any."""

    @property
    def nodes(self) -> Collection[str]:
        """The nodes on which somebody has a claim."""
        return self._on.keys()

    def copy(self) -> "ClaimedRoom":
        """Return a copy to try something on."""
        twin = ClaimedRoom()
        twin._on = {node: dict(claims) for node, claims in self._on.items()}
        twin._of = {job: dict(nodes) for job, nodes in self._of.items()}
        return twin

    def __contains__(self, job: object) -> bool:
        return job in self._of

    def on(self, node: str) -> Mapping[str, Resources] | None:
        """Return the room kept on a node, by job; None: no room."""
        return self._on.get(node)

    def add(self, job: str, node: str, amount: Resources) -> None:
        """Keep this much more of the node for the job."""
        claims = self._on.setdefault(node, {})
        claims[job] = claims.get(job, NOTHING) + amount
        self._of.setdefault(job, {})[node] = None

    def pop(self, job: str) -> dict[str, Resources]:
        """Give up the room kept for the job and return it, by node."""
        held = dict[str, Resources]()
        for node in self._of.pop(job, ()):
            held[node] = self._on[node].pop(job)
            if not self._on[node]:
                del self._on[node]
        return held

    def beside(self, node: str, job: str | None) -> Resources:
        """Return what others than the job have a claim to on a node."""
        claims = self._on.get(node)
        if not claims:
            return NOTHING
        return total([amount for owner, amount in claims.items() if owner != job])
