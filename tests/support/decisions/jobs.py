"""Clusters of jobs that run and jobs that wait, written as one line for each job."""

import dataclasses
from collections.abc import Mapping, Sequence

from specon_manager.core.plan import plan
from specon_manager.core.state import State
from specon_manager.model.cluster import Claimed, Job, JobSpec, Leaving, Node, Phase, Replica
from specon_manager.model.progress import Progress
from specon_manager.model.resources import Resources
from specon_manager.model.settings import Budgets, Settings
from specon_manager.model.snapshot import Snapshot
from specon_sidecar.classify.curve import Estimate

NOW = 1000.0


@dataclasses.dataclass(kw_only=True)
class Line:
    """A job; with a node, or one for each of its workers, it runs, else it waits. `workers` request alike."""

    name: str
    gpu: float = 1.0
    cpu: float = 1.0
    memory: float = 1.0
    node: str | tuple[str, ...] | None = None
    workers: int = 1
    trial: bool = False
    grace: float = 60.0
    preemptions: int = 0
    leaving: bool = False
    queued_at: float = 0.0
    declared: float | None = None
    remaining: float | None = None
    reported_at: float = NOW
    checkpointing: str = "asked"


def state_of(
    lines: Sequence[Line],
    *,
    nodes: Mapping[str, tuple[float, float, float]],
    claims: Mapping[str, Mapping[str, str]] | None = None,
    not_ready: Sequence[str] = (),
    settings: Settings | None = None,
) -> State:
    """Return the state in which job k is submission k; nodes are (cores, bytes, GPUs)."""
    jobs, replicas = {}, {}
    for order, line in enumerate(lines):
        name = f"default/{line.name}"
        requests = Resources(cpu=line.cpu, memory=line.memory, gpu=line.gpu)
        where = (line.node,) if isinstance(line.node, str) else line.node
        count = line.workers if where is None else len(where)
        names = tuple(f"{name}/worker/{index}" for index in range(count))
        spec = JobSpec(
            name=name,
            replicas=names,
            requests=requests,
            job_class="trial" if line.trial else "best-effort",
            grace_seconds=line.grace,
            declared_seconds=line.declared,
            checkpointing=line.checkpointing,
        )
        jobs[name] = Job(
            spec=spec,
            order=order,
            submitted_at=0.0,
            queued_at=line.queued_at,
            trains_since=None if where is None else 0.0,
            preemptions=line.preemptions,
        )
        told = Leaving(purpose="preempt", since=NOW, deadline=NOW + line.grace, reason="test")
        estimate = None if line.remaining is None else Estimate(value=line.remaining, uncertainty=0.0)
        for index, replica in enumerate(names):
            replicas[replica] = Replica(
                name=replica,
                job=name,
                index=index,
                requests=requests,
                phase=Phase.PENDING if where is None else Phase.RUNNING,
                node=None if where is None else where[index],
                incarnation=None if where is None else "1",
                leaving=told if line.leaving else None,
                progress=Progress(remaining_seconds=estimate, reported_at=line.reported_at),
            )
    return State(
        settings=settings or Settings(policy="specon", budgets=Budgets(preemptions_per_job=99)),
        nodes={
            name: Node(
                name=name, capacity=Resources(cpu=cpu, memory=memory, gpu=gpu), ready=name not in not_ready
            )
            for name, (cpu, memory, gpu) in nodes.items()
        },
        jobs=jobs,
        replicas=replicas,
        claims={
            f"default/{job}": Claimed(
                placement=tuple((f"default/{job}/worker/{k}", node) for k, node in placement.items()),
                until=NOW + 600,
                reason="test",
            )
            for job, placement in (claims or {}).items()
        },
    )


def snapshot_of_jobs(lines: Sequence[Line], **changes: object) -> Snapshot:
    return state_of(lines, **changes).snapshot(NOW)


def refused(state: State, proposals: Sequence[object]) -> list[object]:
    """Return what the planner objects to."""
    return [verdict for verdict in plan(state, proposals, NOW) if verdict.objection is not None]
