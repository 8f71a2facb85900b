"""The cluster of a trace: from a file, from the options, or as large as the jobs ask for."""

import math
from collections.abc import Sequence
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta, Struct

from specon_lab.traces.form import Shape
from specon_lab.traces.mistakes import Mistakes, Warn
from specon_lab.traces.options import TraceOptions
from specon_lab.traces.records import Table
from specon_lab.traces.row import Text, prepare_record
from specon_lab.workloads.records import equal_nodes
from specon_lab.workloads.workload import Submission
from specon_manager.model.accelerators import OWN_LABEL
from specon_manager.model.cluster import Node
from specon_manager.model.resources import NOTHING, Amount, Resources
from specon_sidecar.counts import format_count

MOST_NODES: Final = 100_000
OWN_SHAPE: Final = Shape(gpus=8, cpu=64.0, memory=512e9)
SHOWN: Final = 3


class NodeRow(Struct, frozen=True, kw_only=True):
    """One row of a file of nodes: so many equal ones."""

    name: Annotated[str, Meta(min_length=1, max_length=253)] = "node"
    """Of a single node, else what their names begin with."""
    count: Annotated[int, Meta(ge=1, le=MOST_NODES)] = 1
    cpu: Amount = 0.0
    memory: Amount = 0.0
    """Bytes, or 64G, 64Gi."""
    gpu: Amount = 0.0
    model: Text = ""
    """Of its accelerators; none: not known."""


class OpenBNode(Struct, frozen=True, kw_only=True):
    """One row of the list of nodes of Alibaba's openb trace."""

    sn: Annotated[str, Meta(min_length=1, max_length=200)]
    cpu_milli: Amount
    memory_mib: Annotated[float, Meta(ge=0, le=1e9)]
    gpu: Amount = 0.0
    model: Text = ""

    def plain(self) -> NodeRow:
        """Return it in the project's own form."""
        return NodeRow(
            name=self.sn,
            cpu=self.cpu_milli / 1000,
            memory=self.memory_mib * 2.0**20,
            gpu=self.gpu,
            model=self.model,
        )


def lists_nodes(columns: Sequence[str]) -> bool:
    """Whether a table with these columns is one of nodes, not of jobs."""
    given = set(columns)
    if {"sn", "cpu_milli", "memory_mib", "gpu"} <= given:
        return True
    return bool(given & {"cpu", "gpu"}) and not given & {"at", "seconds", "time", "duration"}


def nodes_of(table: Table, mistakes: Mistakes, warn: Warn) -> tuple[Node, ...]:
    """Return the nodes of a table; its mistakes are added to the others."""
    listing = _Listing(table.file, OpenBNode if "sn" in table.columns else NodeRow, mistakes)
    known = {field.name for field in msgspec.structs.fields(NodeRow)}
    if listing.kind is NodeRow and (unknown := [name[:60] for name in table.columns if name not in known]):
        warn(f"{table.file}: columns that are not known are not looked at: {', '.join(unknown[:20])}")
    for number, record in table:
        if isinstance(record, str):
            mistakes.add(table.file, number, record)
        else:
            listing.add(record, f"row {number}")
    if not listing.nodes and not mistakes:
        mistakes.add(table.file, None, "lists no node")
    return tuple(listing.nodes)


def nodes_in(listed: Any, file: str, mistakes: Mistakes) -> tuple[Node, ...]:
    """Return the nodes of a JSON document's list."""
    listing = _Listing(file, NodeRow, mistakes)
    if not isinstance(listed, list) or not listed:
        mistakes.add(file, None, "nodes: must be a list of at least one node")
        return ()
    for number, entry in enumerate(listed, start=1):
        if isinstance(entry, dict):
            listing.add(entry, f"nodes, row {number}")
        else:
            mistakes.add(file, None, f"nodes, row {number}: must be an object")
    return tuple(listing.nodes)


class _Listing:
    """Nodes that are read one after the other."""

    def __init__(self, file: str, kind: type[NodeRow | OpenBNode], mistakes: Mistakes) -> None:
        self.nodes: list[Node] = []
        self.kind = kind
        self._file = file
        self._names: set[str] = set()
        self._mistakes = mistakes

    def add(self, record: dict[str, Any], place: str) -> None:
        """Add the nodes of one row, or its mistakes."""
        try:
            row = msgspec.convert(prepare_record(record), self.kind, strict=False)
        except msgspec.ValidationError as error:
            self._mistakes.add(self._file, None, f"{place}: {error}")
            return
        row = row.plain() if isinstance(row, OpenBNode) else row
        if len(self.nodes) + row.count > MOST_NODES:
            self._mistakes.add(self._file, None, f"{place}: count: more than {MOST_NODES} nodes")
            return
        first = len(self.nodes) + 1
        single = row.count == 1 and row.name != "node"
        names = [row.name] if single else [f"{row.name}-{first + more}" for more in range(row.count)]
        if twice := self._names.intersection(names):
            self._mistakes.add(self._file, None, f"{place}: name: {min(twice)!r} is used twice")
            return
        self._names.update(names)
        capacity = Resources(cpu=row.cpu, memory=row.memory, gpu=row.gpu)
        labels = {OWN_LABEL: row.model} if row.model else {}
        self.nodes += [Node(name=name, capacity=capacity, labels=labels) for name in names]


def shape_of(nodes: Sequence[Node], options: TraceOptions, shape: Shape) -> Shape:
    """Return the shape of the nodes that are given, or that of the options where none are."""
    with_gpus = [node.capacity for node in nodes if node.capacity.gpu >= 1]
    if not with_gpus:
        return Shape(
            gpus=shape.gpus if options.gpus_per_node is None else options.gpus_per_node,
            cpu=options.node_cpu or shape.cpu,
            memory=options.node_memory or shape.memory,
            nodes=options.nodes or shape.nodes,
        )
    most = int(max(capacity.gpu for capacity in with_gpus))
    return Shape(
        gpus=most,
        # What comes with one GPU must not run out first on any node.
        cpu=most * min(capacity.cpu / capacity.gpu for capacity in with_gpus),
        memory=most * min(capacity.memory / capacity.gpu for capacity in with_gpus),
    )


def make_nodes(
    jobs: Sequence[Submission], shape: Shape, options: TraceOptions, warn: Warn
) -> tuple[Node, ...]:
    """Return equal nodes: as many as are given, else as many as give the load that the options ask for."""
    capacity = Resources(cpu=shape.cpu, memory=shape.memory, gpu=float(shape.gpus))
    if shape.nodes is not None:
        return equal_nodes(shape.nodes, capacity)
    count = min(MOST_NODES, max(1, _for_load(jobs, capacity, options.load), _for_largest(jobs, capacity)))
    warn(
        f"no nodes are given: {count} with {format_count(capacity.cpu, 'core')},"
        f" {capacity.memory / 1e9:g} GB and "
        f"{format_count(capacity.gpu, 'GPU')}, for a load of {options.load:g}"
    )
    return equal_nodes(count, capacity)


def _amounts(resources: Resources) -> tuple[float, float, float]:
    return resources.cpu, resources.memory, resources.gpu


def _for_load(jobs: Sequence[Submission], capacity: Resources, load: float) -> int:
    """Return how many nodes the jobs would keep at that load while they arrive."""
    asked = [0.0, 0.0, 0.0]
    for job in jobs:
        spec, seconds = job.spec, job.training.seconds
        cpu, memory, gpu = _amounts(spec.requests)
        each = (max(cpu, job.training.demand), memory, gpu)
        workers = _workers(job)
        asked = [so_far + workers * seconds * one for so_far, one in zip(asked, each, strict=True)]
    span = max(
        jobs[-1].at - jobs[0].at,
        sum(job.training.seconds for job in jobs) / len(jobs),
    )
    shares = [
        amount / (most * span * load)
        for amount, most in zip(asked, _amounts(capacity), strict=True)
        if most and amount
    ]
    return math.ceil(min(MOST_NODES, max(shares, default=0.0)))


def _for_largest(jobs: Sequence[Submission], capacity: Resources) -> int:
    """Return how many nodes the largest gang needs alone, of those whose workers fit at all."""
    largest = 0
    for job in {_size(job): job for job in jobs}.values():
        fits = [
            math.floor(most / one)
            for most, one in zip(_amounts(capacity), _amounts(job.spec.requests), strict=True)
            if one
        ]
        if each := min(fits, default=0):
            largest = max(largest, math.ceil(_workers(job) / each))
    return largest


def _size(job: Submission) -> tuple[Resources, int]:
    return job.spec.requests, _workers(job)


def _workers(job: Submission) -> int:
    """Return how many workers it asks for; every row says it, and there may be millions."""
    return job.spec.workers or job.spec.wanted_workers


def tell_unknown_models(jobs: Sequence[Submission], nodes: Sequence[Node], warn: Warn) -> None:
    """Tell for which models of accelerators jobs have paces and there is no node."""
    named = {model for job in jobs if job.training.paces for model in job.training.paces}
    unknown = sorted(named - {node.accelerator for node in nodes})
    if unknown:
        shown = ", ".join(model[:60] for model in unknown[:SHOWN])
        more = f" and {len(unknown) - SHOWN} more" if len(unknown) > SHOWN else ""
        warn(f"jobs have paces on models that no node has: {shown}{more}")


def tell_too_large(jobs: Sequence[Submission], nodes: Sequence[Node], warn: Warn) -> None:
    """Tell which jobs can never run: a replica fits on no node, or the fewest on all nodes together."""
    capacities = list(dict.fromkeys(node.capacity for node in nodes))
    whole = sum((node.capacity for node in nodes), NOTHING)
    runs: dict[tuple[Resources, Resources, int, int], bool] = {}
    too_large: list[str] = []
    for job in jobs:
        spec = job.spec
        server = spec.requests if spec.ps_requests is None else spec.ps_requests
        servers = len(spec.replicas) - len(spec.worker_names) if "/ps/" in spec.replicas[0] else 0
        key = (spec.requests, server, spec.min_workers or spec.fewest_workers, servers)
        if (fits := runs.get(key)) is None:
            fits = runs[key] = _fits(key, capacities, whole)
        if not fits:
            too_large.append(spec.name)
    if too_large:
        shown = ", ".join(too_large[:SHOWN])
        more = f" and {len(too_large) - SHOWN} more" if len(too_large) > SHOWN else ""
        warn(
            f"{format_count(len(too_large), 'job is', 'jobs are')} larger than the cluster"
            f" and cannot run: {shown}{more}"
        )


def _fits(
    size: tuple[Resources, Resources, int, int], capacities: Sequence[Resources], whole: Resources
) -> bool:
    worker, server, workers, servers = size
    if not any(worker.fits(capacity) for capacity in capacities):
        return False
    if servers and not any(server.fits(capacity) for capacity in capacities):
        return False
    gang = [
        one * workers + other * servers for one, other in zip(_amounts(worker), _amounts(server), strict=True)
    ]
    return all(amount <= most for amount, most in zip(gang, _amounts(whole), strict=True))
