"""The replicas of each job, looked up when they are asked for."""

from collections.abc import Iterator, Mapping

from specon_manager.model.cluster import Job, Replica


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
