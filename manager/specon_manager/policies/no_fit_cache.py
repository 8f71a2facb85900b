"""Which gangs had no room in one call of a policy, so that a long queue is not tried on each node.

Within a call room only shrinks: what asks for as much as one that had none, or for more, has none either.
"""

from operator import le

from specon_manager.model.cluster import JobSpec
from specon_manager.model.resources import NOTHING


class TooLarge:
    """The gangs that had no room so far, by what they asked for."""

    def __init__(self) -> None:
        self._asked: list[tuple[float, ...]] = []

    def add(self, spec: JobSpec, workers: int) -> None:
        """Remember that all parameter servers and so many workers of a job had no room."""
        asked = _order_request(spec, workers)
        self._asked = [known for known in self._asked if not _within(asked, known)]  # it covers those
        self._asked.append(asked)

    def covers(self, spec: JobSpec, workers: int) -> bool:
        """Whether a gang that asked for no more of anything had no room.

        Never where its workers differ: it asks for less than so many of the largest.
        """
        if spec.unlike:
            return False
        asked = _order_request(spec, workers)
        return any(_within(known, asked) for known in self._asked)


def _order_request(spec: JobSpec, workers: int) -> tuple[float, ...]:
    each = spec.requests
    server = each if spec.ps_requests is None else spec.ps_requests
    shares = float(
        each == NOTHING
    )  # and its negative: one that shares processors is not like one that reserves
    amounts = (each.cpu, each.memory, each.gpu, server.cpu, server.memory, server.gpu)
    return shares, -shares, workers, len(spec.ps), *amounts


def _within(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    return all(map(le, one, other))
