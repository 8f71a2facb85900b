"""Virtual nodes: disjoint sets of this machine's CPUs."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from specon_manager.backends.local.gpus import Gpu

MOST_NODES_OF_AUTO = 4


class VirtualNode(msgspec.Struct, frozen=True):
    """A part of this machine that plays a node: its CPUs, and at most one GPU by the driver's id."""

    name: str
    cpus: tuple[int, ...]
    gpu: str | None = None
    model: str = ""
    """Of the GPU, where the driver names it."""
    capacity: float | None = None
    """How many processors jobs may reserve; None: as many as it has CPUs."""

    @property
    def processors(self) -> float:
        """How many processors jobs may reserve."""
        return float(len(self.cpus)) if self.capacity is None else self.capacity


def divide_cpus(cpus: Sequence[int], count: int) -> tuple[tuple[int, ...], ...]:
    """Divide `cpus` into `count` disjoint runs whose lengths differ by at most one, the longer ones first.

    The order is kept, so CPUs listed side by side stay together. Raises ValueError when a CPU is listed
    twice, or when `count` is less than one or more than there are CPUs.
    """
    if len(set(cpus)) != len(cpus):
        raise ValueError(f"cpus: each may be listed once, not {list(cpus)}")
    if not 1 <= count <= len(cpus):
        raise ValueError(f"nodes: must be from 1 to the number of CPUs ({len(cpus)}), not {count}")
    length, longer = divmod(len(cpus), count)
    starts = [index * length + min(index, longer) for index in range(count + 1)]
    return tuple(tuple(cpus[start:end]) for start, end in itertools.pairwise(starts))


def parse_nodes(
    text: str, available_cpus: Sequence[int], available_gpus: Sequence[Gpu]
) -> tuple[VirtualNode, ...]:
    """Make the virtual nodes that `text` asks for, named node-0, node-1 and so on.

    `auto` is one node per CPU but at most four, a number is that many nodes, `gpu` is one node per GPU. The
    CPUs are divided among them. Raises ValueError for any other text, and for more nodes than CPUs or no GPU.
    """
    gpus: Sequence[Gpu | None]
    if text == "gpu":
        if not available_gpus:
            raise ValueError("nodes: 'gpu' asks for one node per GPU, and no GPU was found")
        gpus = available_gpus
    elif text == "auto":
        gpus = [None] * min(MOST_NODES_OF_AUTO, len(available_cpus))
    elif text.isascii() and text.isdigit():
        # Counted before a list is made of it: the number may be absurd.
        sets = divide_cpus(available_cpus, int(text))
        gpus = [None] * len(sets)
    else:
        raise ValueError(f"nodes: must be 'auto', 'gpu' or a number of nodes, not {text!r}")
    return tuple(
        VirtualNode(f"node-{index}", cpus)
        if gpu is None
        else VirtualNode(f"node-{index}", cpus, gpu.id, gpu.model)
        for index, (cpus, gpu) in enumerate(zip(divide_cpus(available_cpus, len(gpus)), gpus, strict=True))
    )
