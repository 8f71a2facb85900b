"""Whether a cluster can ever run a job. Pure."""

from collections import Counter
from collections.abc import Iterable

from specon_manager.model.cluster import JobSpec, Node
from specon_manager.model.resources import NOTHING, Resources, total
from specon_sidecar.counts import format_count


class Feasibility:
    """Tells of jobs that are larger than the cluster ever is.

    Only certain failures are told: each replica must fit on some node, all of the smallest gang on all nodes
    together, and the workers beside each other. A gang that fails for the way its parts must be packed is not
    found out here: it waits until the simulation ends.
    """

    def __init__(self, nodes: Iterable[Node]) -> None:
        """Take the nodes that are ever ready; those of one size are looked at once."""
        self._sizes = Counter(node.capacity for node in nodes if node.ready)
        self._total = total([size for size, count in self._sizes.items() for _ in range(count)])

    def objection(self, spec: JobSpec) -> str | None:
        """Return why the job can never run here, or None."""
        servers, workers = spec.ps, spec.fewest_workers
        for replica in (*servers[:1], *spec.worker_names[:1]):
            asked = spec.requests_of(replica)
            if not any(asked.fits(size) for size in self._sizes):
                return f"{replica} asks for {_words(asked)}: no node has as much"
        places = sum(count * _times(spec.requests, size, workers) for size, count in self._sizes.items())
        if places < workers:
            return f"it needs {format_count(workers, 'worker')} at least: the nodes have room for {places}"
        ps = spec.requests_of(servers[0]) if servers else NOTHING
        gang = _sum((spec.requests, workers), (ps, len(servers)))
        if not gang.fits(_with_slack(self._total)):
            return f"it asks for {_words(gang)} at least: the cluster has {_words(self._total)}"
        return None


def _times(asked: Resources, room: Resources, most: int) -> int:
    """Return how many times the amount fits into the room, `most` where no end is in sight."""
    pairs = ((asked.cpu, room.cpu), (asked.memory, room.memory), (asked.gpu, room.gpu))
    return min([most, *(int(have / want + 1e-9) for want, have in pairs if want > 0)])


def _sum(*parts: tuple[Resources, int]) -> Resources:
    return Resources(
        cpu=sum(amount.cpu * count for amount, count in parts),
        memory=sum(amount.memory * count for amount, count in parts),
        gpu=sum(amount.gpu * count for amount, count in parts),
    )


def _with_slack(amount: Resources) -> Resources:
    """Return a little more, so that a rounding turns nobody away."""
    return Resources(
        cpu=amount.cpu * (1 + 1e-9), memory=amount.memory * (1 + 1e-9), gpu=amount.gpu * (1 + 1e-9)
    )


def _words(amount: Resources) -> str:
    parts = [f"{format_count(amount.cpu, 'core')}"] if amount.cpu else []
    parts += [f"{amount.memory / 1e9:g} GB"] if amount.memory else []
    parts += [f"{format_count(amount.gpu, 'GPU')}"] if amount.gpu else []
    return ", ".join(parts) or "nothing"
