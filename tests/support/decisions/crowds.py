"""States of large clusters, made at once rather than step by step."""

from specon_manager.core.state import State
from specon_manager.model.cluster import Job, JobSpec, Node, Phase, Replica
from specon_manager.model.progress import Progress
from specon_manager.model.resources import Resources
from specon_sidecar.classify import Category


def crowd(replicas, nodes=400, **changes):
    """Return a state with so many running replicas, spread over the nodes."""
    words = [Category.PROGRESSING] * 50 + [Category.CONVERGED]
    made = {}
    for number in range(replicas):
        name = f"default/job-{number:05d}/worker/0"
        progress = Progress(category=words[number % len(words)], metric="loss", value=0.5, step=number)
        made[name] = Replica(
            name=name,
            job=f"default/job-{number:05d}",
            phase=Phase.RUNNING,
            node=f"node-{number % nodes:03d}",
            incarnation=str(number),
            progress=progress,
        )
    jobs = {
        replica.job: Job(
            spec=JobSpec(name=replica.job, replicas=(replica.name,)), order=order, submitted_at=0.0
        )
        for order, replica in enumerate(made.values())
    }
    capacity = Resources(cpu=8)
    names = [f"node-{number:03d}" for number in range(nodes)]
    return State(
        nodes={name: Node(name=name, capacity=capacity) for name in names},
        jobs=jobs,
        replicas=made,
        **changes,
    )
