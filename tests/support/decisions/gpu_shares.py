"""Jobs that ask for turns on GPUs which several pods use."""

from specon_manager.core.state import State
from specon_manager.model.cluster import Job, JobSpec, Node, Phase, Replica
from specon_manager.model.progress import Progress
from specon_manager.model.resources import Resources
from specon_manager.model.settings import Settings
from specon_manager.model.slices import MEMORY_LABEL
from specon_manager.model.transactions import Transaction
from specon_sidecar.classify import Category
from specon_sidecar.classify.curve import Estimate
from specon_sidecar.wire import Share

NOW = 1000.0
GIB = 2.0**30
SETTINGS = Settings(policy="progress", time_slices=True)
LABELS = {MEMORY_LABEL: "40960"}


def node(name: str = "node-1", **labels: str) -> Node:
    return Node(name=name, capacity=Resources(cpu=32, gpu=8), labels={**LABELS, **labels})


def job(
    name: str,
    *gpus: str,
    left: float | None = None,
    weight: float = 1.0,
    memory: float = 10 * GIB,
    share: str = "time",
    why: str = "",
    on: tuple[str, ...] = ("node-1",),
    phase: Phase = Phase.RUNNING,
    coupled: bool = True,
    unshareable: str = "",
    stopped: float = 0.0,
    order: int = 0,
) -> tuple[Job, list[Replica]]:
    """Return a job with a replica on each of the nodes, which all have the GPUs of these names there."""
    names = tuple(f"default/{name}/worker/{index}" for index in range(len(on)))
    spec = JobSpec(
        name=f"default/{name}",
        replicas=names,
        coupled=coupled,
        requests=Resources(gpu=len(gpus)),
        placed_by="owner",
        resizing="none",
        share="time" if share == "time" else "none",
        gpu_memory=memory,
        unshareable=unshareable,
    )
    progress = Progress(
        category=Category.PROGRESSING,
        step=10,
        total_steps=1000,
        remaining_seconds=None if left is None else Estimate(value=left, uncertainty=0.0),
        reported_at=NOW,
        stopped=stopped,
        share=Share(why=why, devices=gpus) if gpus else None,
    )
    replicas = [
        Replica(
            name=replica,
            job=spec.name,
            index=index,
            requests=spec.requests,
            phase=phase,
            node=on[index],
            incarnation="1",
            weight=weight,
            progress=progress,
        )
        for index, replica in enumerate(names)
    ]
    return Job(spec=spec, order=order, submitted_at=0.0, trains_since=0.0), replicas


def state(
    *jobs: tuple[Job, list[Replica]],
    nodes: tuple[Node, ...] = (),
    settings: Settings = SETTINGS,
    transactions: tuple[Transaction, ...] = (),
) -> State:
    """Return what a manager knows of them."""
    found = nodes or (node(),)
    return State(
        settings=settings,
        nodes={each.name: each for each in found},
        jobs={each.name: each for each, _ in jobs},
        transactions={each.id: each for each in transactions},
        replicas={replica.name: replica for _, replicas in jobs for replica in replicas},
    )
