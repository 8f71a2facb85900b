"""The picture that the page shows, as a pure function of the state: bounded, whatever the cluster's size."""

import heapq
import math
from collections import Counter
from collections.abc import Iterable
from typing import Any, Final

from specon_manager.core.state import State
from specon_manager.core.waiting import waiting_of
from specon_manager.model.cluster import Job, Node, Phase, Replica
from specon_manager.model.moves import MoveState
from specon_manager.runtime.page import activity
from specon_manager.runtime.page.curves import POINTS, Curves, Point
from specon_manager.runtime.page.words import plain, replica_label, word_for
from specon_sidecar.classify import Category

SCHEMA: Final = 1
REPLICAS: Final = 500
NODES: Final = 300
_ALL_POINTS: Final = 6000  # of all curves together
_DIGITS: Final = 5
_RANKS: Final = {
    word: rank
    for rank, words in enumerate(
        (
            (Phase.FAILED, Category.DIVERGING, Category.STALLED),
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
"""How interesting a replica is, where there is not room for all; those that are being moved come before."""


def view(state: State, now: float, curves: Curves, *, manager: str = "") -> dict[str, Any]:
    """Return what the page shows, made of what JSON knows.

    Times are seconds on the manager's clock, as `now` is. At most `NODES` nodes, with the counts of all their
    replicas, and the `REPLICAS` most interesting replicas; `left_out` says of how many there is no row.
    """
    replicas = [replica for replica in state.replicas.values() if replica.phase is not Phase.ABSENT]
    on_node: dict[str, Counter[str]] = {}
    for replica in replicas:
        if replica.active and replica.node is not None:
            on_node.setdefault(replica.node, Counter())[word_for(replica).value] += 1
    shown = _most_interesting(state, replicas)
    points = max(2, min(POINTS, _ALL_POINTS // max(1, len(shown))))
    nodes = _nodes(state, on_node)
    queue = activity.waiting(state)
    moves = sorted(state.moves.values(), key=lambda move: (move.proposed_at, move.id))
    ended = state.history[-activity.ENDED :]
    changes = sorted(state.changes.values(), key=lambda change: (change.proposed_at, change.id))
    changed = state.change_history[-activity.ENDED :]
    waits = waiting_of(state, now) if queue else {}
    pause = state.pause
    decisions = activity.latest_decisions(state)
    return {
        "schema": SCHEMA,
        "standby": False,
        "now": now,
        "manager": plain(manager, 128),
        "policy": plain(state.settings.policy, 64),
        "paused": None if pause is None else {"since": pause.since, "reason": plain(pause.reason)},
        "counts": {
            "nodes": len(state.nodes),
            "jobs": len(state.jobs),
            "jobs_ended": len(state.ended_jobs),
            "replicas": len(replicas),
            "waiting": len(queue),
            "words": dict(Counter(word_for(replica).value for replica in replicas)),
            "moves_in_flight": len(state.moves),
            "changes_in_flight": len(changes),
            "moves": {
                outcome.value: sum(move.state is outcome for move in state.history)
                for outcome in (MoveState.SUCCEEDED, MoveState.ROLLED_BACK, MoveState.FAILED)
            },
        },
        "nodes": [_node_row(node, on_node.get(node.name, Counter())) for node in nodes],
        "replicas": [_replica_row(state, replica, curves.of(replica.name, points)) for replica in shown],
        "queue": [activity.queued_row(state, job, waits.get(job.name)) for job in queue[: activity.QUEUE]],
        "changes": [activity.change_row(change) for change in changes[: activity.MOVES]],
        "changed": [activity.change_row(change) for change in reversed(changed)],
        "moves": [activity.move_row(state, move) for move in moves[: activity.MOVES]],
        "ended": [activity.move_row(state, move) for move in reversed(ended)],
        "decisions": decisions,
        "left_out": {
            "nodes": len(state.nodes) - len(nodes),
            "replicas": len(replicas) - len(shown),
            "queue": max(0, len(queue) - activity.QUEUE),
            "moves": max(0, len(moves) - activity.MOVES),
            "ended": len(state.history) - len(ended),
            "changes": max(0, len(changes) - activity.MOVES),
            "changed": len(state.change_history) - len(changed),
            "decisions": len(state.decisions) - len(decisions),
        },
    }


def _most_interesting(state: State, replicas: Iterable[Replica]) -> list[Replica]:
    """Return as many replicas as there is room for, by their jobs' order and then by name."""
    least = len(_RANKS) + 1

    def rank(replica: Replica) -> tuple[int, float, str]:
        moving = 0 if replica.name in state.moves else _RANKS.get(word_for(replica), least)
        return moving, -(replica.ended_at or 0.0), replica.name

    def place(replica: Replica) -> tuple[int, str, int, str]:
        job = state.jobs.get(replica.job)
        return -1 if job is None else job.order, replica.role, replica.index, replica.name

    return sorted(heapq.nsmallest(REPLICAS, replicas, key=rank), key=place)


def _nodes(state: State, on_node: dict[str, Counter[str]]) -> list[Node]:
    """Return as many nodes as there is room for, by name; those in trouble or in a move before all others."""
    involved = {name for move in state.moves.values() for name in (move.source, move.target)}

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
        "tainted": bool(node.taints),
        "counts": dict(counts),
    }


def _replica_row(state: State, replica: Replica, points: list[Point]) -> dict[str, Any]:
    progress = replica.progress
    job = state.jobs.get(replica.job)
    checkpoint, left = progress.checkpoint, progress.remaining_seconds
    moves = [move for move in state.history if move.replica == replica.name] if replica.moves else []
    return {
        "name": replica.name,
        "label": replica_label(state, replica.name),
        "job": replica.job,
        "node": None if replica.node is None else plain(replica.node, 128),
        "active": replica.active,
        "word": word_for(replica).value,
        "since": progress.category_since if replica.phase is Phase.RUNNING else None,
        "reason": plain(progress.reason),
        "metric": None if progress.metric is None else plain(progress.metric, 64),
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
        "immovable": "" if job is None else plain(job.spec.immovable),
        "note": plain(replica.note),
        "curve": [[round(p.at, 2), _number(p.value), p.category.value] for p in points],
        "moved_at": [move.gone_at for move in moves if move.gone_at is not None],
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
