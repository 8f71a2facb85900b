"""Who runs when, where jobs of different weights share nodes: one period, in which each job has its turns.

Pure. Shares of a node's time are as the weights. As many jobs run at once as a node has room for; one that
trains on several nodes runs on all of them at the same time, for its ranks wait for each other.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from specon_sidecar.slices.lease import LONGEST_STOP

SHORTEST_PERIOD: Final = 1.0
SHORT_TURN: Final = 0.1
"""Seconds that the shortest turn is to have, where nobody is then stopped for too long."""
LEAST_SHARE: Final = 0.004
"""Of a node's time, whatever the weight: turns of less than 20 ms serve nobody."""
MOST_JOBS: Final = 100
"""Where more share a node nobody is stopped: turns would be too short."""

TimeSlice = tuple[float, float]
"""Begin and length in the period, seconds."""


class Sharer(Struct, frozen=True, kw_only=True):
    """A job that shares nodes: its weight, and how many processors it keeps busy on each of them."""

    name: str
    weight: float
    nodes: Mapping[str, int]


class Schedule(Struct, frozen=True, kw_only=True):
    """When each job runs: in its turns of the period. A job without turns is never stopped."""

    period: float = SHORTEST_PERIOD
    turns: Mapping[str, tuple[TimeSlice, ...]] = {}


def schedules(sharers: Iterable[Sharer], room: Mapping[str, int]) -> list[Schedule]:
    """Return a schedule for each set of nodes that jobs connect; `room`: processors of each node."""
    found = []
    for group in _connect(sorted(sharers, key=lambda each: each.name)):
        nodes = {node: [each for each in group if node in each.nodes] for node in _nodes(group)}
        contested = any(
            len({each.weight for each in here}) > 1
            and sum(each.nodes[node] for each in here) > max(1, room[node])
            for node, here in nodes.items()
        )
        if contested and max(map(len, nodes.values())) <= MOST_JOBS:
            found.append(_schedule(nodes, room))
    return found


def _nodes(group: Iterable[Sharer]) -> list[str]:
    return sorted({node for each in group for node in each.nodes})


def _connect(sharers: Iterable[Sharer]) -> list[list[Sharer]]:
    """Return who shares nodes with whom, directly or through others, each group in the order given."""
    leaders: dict[str, str] = {}

    def leader(node: str) -> str:
        while (above := leaders.setdefault(node, node)) != node:
            leaders[node] = node = leaders[above]
        return node

    given = [each for each in sharers if each.nodes]
    for each in given:
        first, *others = each.nodes
        for node in others:
            leaders[leader(node)] = leader(first)
    groups: dict[str, list[Sharer]] = {}
    for each in given:
        groups.setdefault(leader(next(iter(each.nodes))), []).append(each)
    return [*groups.values()]


def _schedule(nodes: Mapping[str, Sequence[Sharer]], room: Mapping[str, int]) -> Schedule:
    """Lay the turns of jobs on several nodes one after another; the rest of each node goes to its own."""
    floors = {node: LEAST_SHARE * sum(each.weight for each in here) for node, here in nodes.items()}

    def share(each: Sharer, node: str) -> float:
        weights = {other.name: max(other.weight, floors[node]) for other in nodes[node]}
        return weights[each.name] / sum(weights.values())

    wide = {each.name: each for here in nodes.values() for each in here if len(each.nodes) > 1}
    shares = {name: min(share(each, node) for node in each.nodes) for name, each in wide.items()}
    scale = max(1.0, sum(shares.values()))
    shares = {name: part / scale for name, part in shares.items()}
    fixed: dict[str, TimeSlice] = {}
    at = 0.0
    for name, part in shares.items():
        fixed[name] = at, part
        at += part
    parts: dict[str, list[TimeSlice]] = {name: [turn] for name, turn in fixed.items()}
    for node, here in nodes.items():
        taken = [fixed[each.name] for each in here if each.name in fixed]
        own = {each.name: max(each.weight, floors[node]) for each in here if each.name not in fixed}
        if own:
            rows = max(1, max(1, room[node]) // max(each.nodes[node] for each in here if each.name in own))
            parts |= _laid(own, _gaps(taken), rows)
    return _stretch(parts)


def _gaps(taken: Sequence[TimeSlice]) -> list[TimeSlice]:
    """Return what others leave of the whole, 0 to 1."""
    gaps, at = [], 0.0
    for begin, length in [*sorted(taken), (1.0, 0.0)]:
        if begin - at > 1e-9:  # noqa: PLR2004  (rounding)
            gaps.append((at, begin - at))
        at = begin + length
    return gaps


def _laid(weights: Mapping[str, float], gaps: Sequence[TimeSlice], rows: int) -> dict[str, list[TimeSlice]]:
    """Give each job its part of so many rows of the gaps, as McNaughton wraps jobs around machines.

    A job that is cut at the end of a row goes on at the begin of the next one, and never runs beside itself.
    """
    length = sum(part for _, part in gaps)
    parts = _parts(weights, rows)
    laid, at = {}, 0.0
    for name, part in parts.items():
        end = at + part
        pieces = [(at, end)] if end <= 1 else [(0.0, end - 1), (at, 1.0)]
        laid[name] = [
            turn for begin, until in pieces for turn in _in_gaps(begin * length, until * length, gaps)
        ]
        at = end % 1.0
    return laid


def _parts(weights: Mapping[str, float], rows: int) -> dict[str, float]:
    """Return shares of `rows` in all, as the weights are, but of nobody more than 1."""
    parts: dict[str, float] = {}
    left, open_ = float(rows), dict(weights)
    while open_:
        each = left / sum(open_.values())
        full = [name for name, weight in open_.items() if weight * each >= 1]
        if not full:
            return {name: parts.get(name, weights[name] * each) for name in weights}
        for name in full:
            parts[name] = 1.0
            left -= 1
            del open_[name]
    return {name: parts[name] for name in weights}


def _in_gaps(begin: float, end: float, gaps: Sequence[TimeSlice]) -> list[TimeSlice]:
    """Return where a part of the gaps, joined to one stretch, really lies."""
    found, passed = [], 0.0
    for at, length in gaps:
        first, last = max(begin, passed), min(end, passed + length)
        if last - first > 1e-9:  # noqa: PLR2004  (rounding)
            found.append((at + first - passed, last - first))
        passed += length
    return found


def _stretch(parts: Mapping[str, Sequence[TimeSlice]]) -> Schedule:
    """Choose the period: short, but for turns that are worth a stop, and nobody is stopped for too long."""
    runs = {name: sum(length for _, length in turns) for name, turns in parts.items()}
    least = min(runs.values())
    period = max(SHORTEST_PERIOD, SHORT_TURN / least)
    if least < 1:
        period = min(period, LONGEST_STOP / (1 - least))
    return Schedule(
        period=period,
        turns={
            name: tuple((begin * period, length * period) for begin, length in turns)
            for name, turns in parts.items()
            if runs[name] < 1 - 1e-9
        },
    )
