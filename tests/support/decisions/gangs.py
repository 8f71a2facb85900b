"""Jobs of several replicas: how they are described, named and put into a state."""

from collections.abc import Mapping

import msgspec

from specon_manager.core.state import State
from specon_manager.model.cluster import Job, JobSpec, Phase, Replica, index_of, role_of
from specon_manager.model.resources import Resources
from support.decisions.cluster import Cluster


def worker(job: str, index: int = 0) -> str:
    return f"default/{job}/worker/{index}"


def server(job: str, index: int = 0) -> str:
    return f"default/{job}/ps/{index}"


def gang(
    job: str,
    workers: int = 2,
    *,
    ps: int = 1,
    most: int | None = None,
    fewest: int | None = None,
    cpu: float = 1.0,
    lead: float | None = None,
    **changes: object,
) -> JobSpec:
    """Return a job whose owner asked for so many workers, of `fewest` to `most`.

    `lead` is how many processors the first of them requests, None: as many as the others.
    """
    unlike = () if lead is None else ((0, Resources(cpu=lead)), (1, Resources(cpu=cpu)))
    names = [server(job, index) for index in range(ps)]
    names += [worker(job, index) for index in range(workers if most is None else most)]
    return JobSpec(
        name=f"default/{job}",
        replicas=tuple(names),
        requests=Resources(cpu=max(cpu, lead or 0.0)),
        unlike=unlike,
        workers=workers,
        min_workers=fewest,
        **changes,
    )


def on(node: str, *replicas: str) -> dict[str, str]:
    """Return the placement that puts all of them on one node."""
    return dict.fromkeys(replicas, node)


def with_gang(state: State, spec: JobSpec, placement: Mapping[str, str], **changes: object) -> State:
    """Return the state with a job that trains where it is placed, or waits where it is placed nowhere.

    `changes` are those of the record of the job.
    """
    wanted = {*spec.ps, *spec.worker_names[: spec.wanted_workers]}
    trains_since = 1.0 if placement else None
    job = Job(spec=spec, order=len(state.jobs), submitted_at=0.0, trains_since=trains_since)
    state = state.with_job(msgspec.structs.replace(job, **changes))
    for name in spec.replicas:
        waits = Phase.PENDING if name in wanted and not placement else Phase.ABSENT
        state = state.with_replica(
            Replica(
                name=name,
                job=spec.name,
                role=role_of(name),
                index=index_of(name),
                requests=spec.requests_of(name),
                phase=Phase.RUNNING if name in placement else waits,
                node=placement.get(name),
                incarnation=f"{name}.1" if name in placement else None,
                starts=int(name in placement),
            )
        )
    return state


def phases(cluster: Cluster, job: str) -> dict[str, str]:
    """Return the phases of the replicas of a job by role and index; a `-` marks what was told to end."""
    found = {}
    for name in cluster.state.jobs[f"default/{job}"].spec.replicas:
        replica = cluster.state.replicas[name]
        found[f"{replica.role}{replica.index}"] = replica.phase + ("-" if replica.leaving else "")
    return found
