"""Which workload is simulated: a made-up one by name, or a trace."""

import functools
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from specon_lab.traces.mistakes import Mistakes, TraceError
from specon_lab.traces.nodes import lists_nodes, nodes_of
from specon_lab.traces.options import TraceOptions
from specon_lab.traces.read import read_workload
from specon_lab.traces.records import Table
from specon_lab.workloads.parameters import parameters_of
from specon_lab.workloads.table import WORKLOADS, workload_named
from specon_lab.workloads.workload import Workload
from specon_manager.model.cluster import Node
from specon_manager.usage import UsageError

_MAX_WARNINGS: Final = 20


class Source(Struct, frozen=True, kw_only=True):
    """Where a workload comes from; small, so that each process can read it by itself."""

    text: str
    """`NAME` or `FILE`, both also with `:key=value,...`."""
    nodes: Path | None = None
    """A file of nodes instead of those of the workload."""
    most_jobs: int | None = None
    """How many jobs are kept, the first to arrive; None: all."""

    def read(self, seed: int) -> Workload:
        """Return the workload of a seed; raises UsageError with every mistake."""
        return _read(self, seed)[0]

    def warnings(self, seed: int) -> tuple[str, ...]:
        """Return warnings about a workload that can be used; raises what `read` raises."""
        return _read(self, seed)[1]


# The runs of one seed come one after the other, under each policy.
@functools.lru_cache(maxsize=1)
def _read(source: Source, seed: int) -> tuple[Workload, tuple[str, ...]]:
    if source.text.partition(":")[0] in WORKLOADS:
        workload, warnings = _name(source, seed)
    else:
        workload, warnings = _trace(source)
    jobs = workload.jobs if source.most_jobs is None else workload.jobs[: source.most_jobs]
    return msgspec.structs.replace(workload, jobs=jobs, seed=seed), warnings


def _name(source: Source, seed: int) -> tuple[Workload, tuple[str, ...]]:
    try:
        workload = workload_named(source.text, seed)
    except ValueError as error:
        raise UsageError(f"--workload: {error}") from error
    if source.nodes is None:
        return workload, ()
    nodes, warnings = _nodes(source.nodes)
    return msgspec.structs.replace(workload, nodes=nodes), warnings


@functools.lru_cache(maxsize=1)
def _trace(source: Source) -> tuple[Workload, tuple[str, ...]]:
    """Read the files; no seed changes what they say."""
    path, options = _path_and_options(source.text)
    if not path.is_file():
        known = ", ".join(WORKLOADS)
        raise UsageError(f"--workload: {source.text!r} is neither the file of a trace nor one of {known}")
    files = [path] if source.nodes is None else [path, source.nodes]
    warnings: list[str] = []
    try:
        workload = read_workload(files, options=options, warn=warnings.append)
    except TraceError as error:
        raise UsageError("\n".join(f"--workload: {line}" for line in str(error).splitlines())) from error
    except OSError as error:
        raise UsageError(f"--workload: {error.filename or path}: {error.strerror}") from error
    return workload, tuple(warnings[:_MAX_WARNINGS])


def _path_and_options(text: str) -> tuple[Path, TraceOptions]:
    """Return both parts of `FILE:key=value,...`; the name of a file may hold colons."""
    whole = Path(text)
    name, colon, given = text.rpartition(":")
    if not colon or "=" not in given or whole.exists():
        return whole, TraceOptions()
    try:
        return Path(name), parameters_of(given, TraceOptions)
    except ValueError as error:
        raise UsageError(f"--workload: {name}: {error}") from error


def _nodes(path: Path) -> tuple[tuple[Node, ...], tuple[str, ...]]:
    """Return the nodes that a file lists, and the warnings about it."""
    mistakes, warnings = Mistakes(), list[str]()
    try:
        table = Table(path)
        if not lists_nodes(table.columns):
            raise UsageError(
                f"--nodes: {path} lists no nodes: its columns are {', '.join(table.columns)[:200]}"
            )
        nodes = nodes_of(table, mistakes, warnings.append)
        mistakes.check()
    except TraceError as error:
        raise UsageError("\n".join(f"--nodes: {line}" for line in str(error).splitlines())) from error
    except OSError as error:
        raise UsageError(f"--nodes: {path}: {error.strerror}") from error
    return nodes, tuple(warnings[:_MAX_WARNINGS])
