"""What may be chosen when a trace is read."""

from typing import Annotated

from msgspec import Meta, Struct

from specon_lab.workloads.workload import Seconds


class TraceOptions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which jobs are taken, and the cluster where the files do not tell it."""

    limit: Annotated[int, Meta(ge=1)] | None = None
    """At most so many jobs, the first that arrive."""
    start: Seconds = 0.0
    """Jobs before this time are left out, and time begins here; in published traces from their first job."""
    end: Seconds | None = None
    """Jobs from this time on are left out."""
    scale: Annotated[float, Meta(gt=0, le=1e6)] = 1.0
    """Factor of the arrival times: 0.5 makes jobs arrive twice as fast."""
    queue: str | None = None
    """Only the jobs of this queue (virtual cluster, quality of service)."""
    trial_seconds: Seconds | None = None
    """Jobs that train for at most so long become trials, whatever the file says."""
    nodes: Annotated[int, Meta(ge=1, le=100_000)] | None = None
    """How many equal nodes; none: the published number, else as many as `load` asks for."""
    gpus_per_node: Annotated[int, Meta(ge=0, le=1024)] | None = None
    node_cpu: Annotated[float, Meta(gt=0, le=1e9)] | None = None
    """Cores of a node."""
    node_memory: Annotated[float, Meta(gt=0, le=1e15)] | None = None
    """Bytes of a node."""
    load: Annotated[float, Meta(gt=0, le=1000)] = 0.8
    """Where no nodes are given: what the jobs ask for while they arrive, of the capacity."""
    elastic: bool = True
    """Pollux: whether jobs may train with fewer and more replicas than they ask for."""
    traces: str | None = None
    """Pollux: the folder with one folder of measurements for each application."""
    cpu_jobs: bool = False
    """Helios: take jobs without GPUs too."""
    whole_gpus: bool = False
    """Alibaba: round shares of a GPU up."""

    @property
    def names_cluster(self) -> bool:
        """Whether anything of the cluster is given here."""
        return (self.nodes, self.gpus_per_node, self.node_cpu, self.node_memory) != (None,) * 4
