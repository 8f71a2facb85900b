"""The replicas of each job, and those on each node, looked up when they are asked for."""

from collections.abc import Iterator, Mapping

from specon_manager.model.cluster import Job, Node, Replica


class Members(Mapping[str, tuple[Replica, ...]]):
    """The replicas of each job that has not ended, in the order of its description.

    A policy asks for those of a few jobs; to group all replicas of a large cluster would be most of its work.
    """

    def __init__(self, jobs: Mapping[str, Job], replicas: Mapping[str, Replica]) -> None:
        """Take the records of one snapshot, which do not change."""
        self._jobs, self._replicas = jobs, replicas
        self._known: dict[str, tuple[Replica, ...]] = {}

    def __getitem__(self, job: str) -> tuple[Replica, ...]:
        known = self._known.get(job)
        if known is not None:
            return known
        record, replicas = self._jobs[job], self._replicas
        if record.ended_at is not None:
            raise KeyError(job)
        found = tuple([replicas[name] for name in record.spec.replicas])
        self._known[job] = found
        return found

    def __iter__(self) -> Iterator[str]:
        return (name for name, job in self._jobs.items() if job.ended_at is None)

    def __len__(self) -> int:
        return sum(1 for _ in self)


class OnNode(Mapping[str, tuple[Replica, ...]]):
    """The replicas on each node: those in `beside`, and for all other nodes those in `names`."""

    def __init__(
        self,
        nodes: Mapping[str, Node],
        names: Mapping[str, tuple[str, ...]],
        replicas: Mapping[str, Replica],
        beside: Mapping[str, tuple[Replica, ...]],
    ) -> None:
        """Take what belongs to one snapshot, which does not change."""
        self._nodes, self._names, self._replicas, self._beside = nodes, names, replicas, beside
        self._known: dict[str, tuple[Replica, ...]] = {}

    def __getitem__(self, node: str) -> tuple[Replica, ...]:
        found = self._beside.get(node)
        if found is not None:
            return found
        known = self._known.get(node)
        if known is None:
            if node not in self._nodes:
                raise KeyError(node)
            replicas = self._replicas
            known = self._known[node] = tuple([replicas[name] for name in self._names.get(node, ())])
        return known

    def __contains__(self, node: object) -> bool:
        return node in self._nodes

    def __iter__(self) -> Iterator[str]:
        return iter(self._nodes)

    def __len__(self) -> int:
        return len(self._nodes)
