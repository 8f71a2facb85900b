"""The picture that the page shows, as a pure function of the state: bounded, whatever the cluster's size."""

import heapq
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct

from specon_manager.core.state import State
from specon_manager.core.transaction.table import SKIPPED
from specon_manager.model.cluster import Job, Node, Phase, Replica
from specon_manager.model.transactions import (
    FINAL_STATES,
    UNTOUCHED_STATES,
    Kind,
    Transaction,
    TransactionState,
)
from specon_manager.views import activity
from specon_manager.views.hanging import hang_in_words
from specon_manager.views.headline import headline
from specon_manager.views.holding import Holding
from specon_manager.views.names import cut, replica_label
from specon_manager.views.words import Trouble, word_for, word_of_state
from specon_sidecar.classify import Category

SCHEMA: Final = 2
REPLICAS: Final = 500
NODES: Final = 300
POINTS: Final = 120
"""Of one curve, at most."""
_ALL_POINTS: Final = 6000  # of all curves together
_DIGITS: Final = 5
_RANKS: Final = {
    word: rank
    for rank, words in enumerate(
        (
            (Trouble.HUNG, Phase.FAILED, Category.DIVERGING, Category.STALLED),
            (Category.CONVERGED,),
            (Category.WATCHING,),
            (Phase.STARTING,),
            (Category.PROGRESSING,),
            (Category.UNKNOWN, Category.NOT_CLASSIFIABLE),
            (Phase.PENDING, Phase.AWAITED),
        ),
        start=1,
    )
    for word in words
}
"""How interesting a replica is, where there is not room for all; what changes comes before."""


_FLYING: Final = tuple(state for state in TransactionState if state not in FINAL_STATES)
_TRACKS: Final = {
    name: [[state.value, word_of_state(state)] for state in _FLYING if state not in skipped]
    for name, skipped in [*((kind.value, SKIPPED[kind]) for kind in Kind), ("back", UNTOUCHED_STATES)]
}
"""By kind, and for the way back: the states that a transaction passes through, with their words."""


class Point(Struct, frozen=True, gc=False):
    """A value of the metric: when it was reported, on the manager's clock, and what the replica was then."""

    at: float
    value: float
    category: Category


CurveOf = Callable[[str, int], Sequence[Point]]
"""Returns at most so many points of the curve of a replica, oldest first."""


def picture(
    state: State,
    now: float,
    curve_of: CurveOf,
    *,
    holding: Holding | None = None,
    manager: str = "",
    starts: activity.StartOf = lambda _: None,
) -> dict[str, Any]:
    """Return what the page shows, made of what JSON knows.

    `holding` is the sum since the page began; None is a page that begins now.
    Times are ISO 8601 where rows are those of commands, else seconds on the manager's clock, as `now` is. At
    most `NODES` nodes, with the counts of all their replicas, and the `REPLICAS` most interesting replicas;
    `left_out` says of how many there is no row.
    """
    replicas = [replica for replica in state.replicas.values() if replica.phase is not Phase.ABSENT]
    on_node: dict[str, Counter[str]] = {}
    for replica in replicas:
        if replica.active and replica.node is not None:
            on_node.setdefault(replica.node, Counter())[word_for(state, replica).value] += 1
    shown = _most_interesting(state, replicas)
    points = max(2, min(POINTS, _ALL_POINTS // max(1, len(shown))))
    nodes = _nodes(state, on_node)
    moved_at = _find_moves(state.history)
    rows, left_out = activity.transactions(state)
    queue, waiting = activity.queue(state, now, starts)
    decisions = activity.decisions(state)
    flying = state.transactions.values()
    pause = state.pause
    summed = Holding(now) if holding is None else holding
    return {
        "schema": SCHEMA,
        "standby": False,
        "now": now,
        "manager": cut(manager, 128),
        "policy": cut(state.settings.policy, 64),
        "paused": None if pause is None else {"since": pause.since, "reason": cut(pause.reason)},
        "headline": msgspec.structs.asdict(headline(state, summed.held, now - summed.began)),
        "tracks": _TRACKS,
        "counts": {
            "nodes": len(state.nodes),
            "jobs": len(state.jobs),
            "jobs_ended": len(state.ended_jobs),
            "replicas": len(replicas),
            "waiting": waiting,
            "words": dict(Counter(word_for(state, replica).value for replica in replicas)),
            "moves_in_flight": sum(each.kind is Kind.MOVE for each in flying),
            "changes_in_flight": sum(each.kind is not Kind.MOVE for each in flying),
            "stuck": sum(bool(each.stuck) for each in flying),
            "requests": len(state.requests),
            "moves": _outcomes(state.history, moves=True),
            "changes": _outcomes(state.history, moves=False),
        },
        "nodes": [_node_row(node, on_node.get(node.name, Counter())) for node in nodes],
        "replicas": [
            _replica_row(state, replica, curve_of(replica.name, points), moved_at.get(replica.name, []))
            for replica in shown
        ],
        "queue": queue,
        **rows,
        "decisions": decisions,
        "left_out": {
            "nodes": len(state.nodes) - len(nodes),
            "replicas": len(replicas) - len(shown),
            "queue": waiting - len(queue),
            **left_out,
            "decisions": len(state.decisions) - len(decisions),
        },
    }


def _outcomes(history: Iterable[Transaction], *, moves: bool) -> Mapping[str, int]:
    found = Counter(each.state for each in history if (each.kind is Kind.MOVE) is moves)
    return {state.value: found[state] for state in TransactionState if state in FINAL_STATES}


def _find_moves(history: Iterable[Transaction]) -> Mapping[str, list[float]]:
    """Return, by replica, when it was gone from its node for a move that succeeded or did not."""
    found: dict[str, list[float]] = {}
    for each in history:
        if each.kind is Kind.MOVE and each.gone_at is not None:
            for name in each.concerned:
                found.setdefault(name, []).append(each.gone_at)
    return found


def _most_interesting(state: State, replicas: Iterable[Replica]) -> list[Replica]:
    """Return as many replicas as there is room for, by their jobs' order and then by name."""
    least = len(_RANKS) + 1
    changing = {name for each in state.transactions.values() for name in each.concerned}

    def rank(replica: Replica) -> tuple[int, float, str]:
        moving = 0 if replica.name in changing else _RANKS.get(word_for(state, replica), least)
        return moving, -(replica.ended_at or 0.0), replica.name

    def place(replica: Replica) -> tuple[int, str, int, str]:
        job = state.jobs.get(replica.job)
        return -1 if job is None else job.order, replica.role, replica.index, replica.name

    return sorted(heapq.nsmallest(REPLICAS, replicas, key=rank), key=place)


def _nodes(state: State, on_node: dict[str, Counter[str]]) -> list[Node]:
    """Return as many nodes as there is room for, by name; those in trouble, left or joined first."""
    involved = {name for each in state.transactions.values() for name in each.nodes}

    def rank(node: Node) -> tuple[bool, bool, int, str]:
        crowd = sum(on_node.get(node.name, Counter()).values())
        return node.ready, node.name not in involved, -crowd, node.name

    return sorted(heapq.nsmallest(NODES, state.nodes.values(), key=rank), key=lambda node: node.name)


def _node_row(node: Node, counts: Counter[str]) -> dict[str, Any]:
    return {
        "name": node.name,
        "ready": node.ready,
        "cpu": [_number(node.usage.cpu), _number(node.capacity.cpu)],
        "memory": [_number(node.usage.memory), _number(node.capacity.memory)],
        "gpu": _number(node.capacity.gpu),
        "accelerator": cut(node.accelerator, 64),
        "tainted": bool(node.taints),
        "counts": dict(counts),
    }


def _replica_row(
    state: State, replica: Replica, points: Sequence[Point], moved_at: list[float]
) -> dict[str, Any]:
    progress = replica.progress
    job = state.jobs.get(replica.job)
    checkpoint, left = progress.checkpoint, progress.remaining_seconds
    return {
        "name": replica.name,
        "label": replica_label(state, replica.name),
        "job": replica.job,
        "node": None if replica.node is None else cut(replica.node, 128),
        "active": replica.active,
        "word": word_for(state, replica).value,
        "since": progress.category_since if replica.phase is Phase.RUNNING else None,
        "reason": cut(hang_in_words(progress) or progress.reason),
        "metric": None if progress.metric is None else cut(progress.metric, 64),
        "value": _number(progress.value),
        "step": progress.step,
        "total": progress.total_steps,
        "gain": _number(progress.gain),
        "remaining": None if left is None else _number(left.value),
        "heard": progress.reported_at,
        "checkpoint": None if checkpoint is None else [checkpoint.step, checkpoint.verified],
        "moves": replica.moves,
        "attempts": replica.attempts,
        "crashes": replica.crashes,
        "submitted": None if job is None else job.submitted_at,
        "ended": replica.ended_at,
        "workers": None if job is None else _workers(state, job),
        "immovable": "" if job is None else cut(job.spec.immovable),
        "note": cut(replica.note),
        "curve": [[round(p.at, 2), _number(p.value), p.category.value] for p in points],
        "moved_at": moved_at,
    }


def _workers(state: State, job: Job) -> list[int] | None:
    """Return how many workers a job has now, with how few it can train and how many it can use."""
    names = job.spec.worker_names
    if len(names) == 1:
        return None
    active = sum(name in state.replicas and state.replicas[name].active for name in names)
    return [active, job.spec.fewest_workers, len(names)]


def _number(value: float | None) -> float | str | None:
    """Return a number short enough to send; one that JSON does not know in words."""
    if value is None:
        return None
    return float(f"{value:.{_DIGITS}g}") if math.isfinite(value) else str(value)
