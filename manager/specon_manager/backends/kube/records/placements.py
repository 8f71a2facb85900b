"""Replicas and their nodes in few characters: a gang of a thousand has to fit into the record of a job. Pure.

Replicas of one job are written as `ps/0 worker/0-7`: role and indices, ranges of them where they follow each
other. A placement is that by node; the node is empty where the scheduler chooses it.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Final

from specon_manager.model.cluster import index_of, role_of

_MOST: Final = 100_000
"""Replicas of one job."""
_PART: Final = re.compile(r"(worker|ps)/(0|[1-9][0-9]{0,5})(?:-([1-9][0-9]{0,5}))?")


def pack_names(replicas: Iterable[str]) -> str:
    """Return the replicas of one job, by role and index, without its name."""
    indices: dict[str, list[int]] = {}
    for name in replicas:
        indices.setdefault(role_of(name), []).append(index_of(name))
    return " ".join(
        f"{role}/{first}" if first == last else f"{role}/{first}-{last}"
        for role, numbers in sorted(indices.items())
        for first, last in _ranges(sorted(set(numbers)))
    )


def _ranges(numbers: list[int]) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for number in numbers:
        if found and found[-1][1] == number - 1:
            found[-1] = (found[-1][0], number)
        else:
            found.append((number, number))
    return found


def unpack_names(job: str, text: str) -> tuple[str, ...]:
    """Return the names that `packed` made the text of, by role and index.

    Raises ValueError where the text is none, and where it names more replicas than any job has.
    """
    spans: list[tuple[str, range]] = []
    for part in text.split():
        match = _PART.fullmatch(part)
        if match is None:
            raise ValueError(f"{part[:80]!r} is no role with indices")
        role, first = match[1], int(match[2])
        last = first if match[3] is None else int(match[3])
        if last < first:
            raise ValueError(f"{part!r} ends before it begins")
        spans.append((role, range(first, last + 1)))
    if (count := sum(len(indices) for _, indices in spans)) > _MOST:
        raise ValueError(f"{count} replicas are named, more than {_MOST}")
    return tuple(f"{job}/{role}/{index}" for role, indices in spans for index in indices)


def pack_placement(placement: Mapping[str, str]) -> dict[str, str]:
    """Return the replicas of one job by node."""
    by_node: dict[str, list[str]] = {}
    for name, node in placement.items():
        by_node.setdefault(node, []).append(name)
    return {node: pack_names(by_node[node]) for node in sorted(by_node)}


def unpack_placement(job: str, placement: Mapping[str, str]) -> dict[str, str]:
    """Return the node by replica, by role and index of that; raises ValueError for anything else."""
    found: dict[str, str] = {}
    for node, text in placement.items():
        for name in unpack_names(job, text):
            if name in found:
                raise ValueError(f"{name} is placed twice, on {found[name][:80]!r} and {node[:80]!r}")
            found[name] = node
    return dict(sorted(found.items(), key=lambda item: (role_of(item[0]), index_of(item[0]))))
