"""The lines of `specon top`: one for each replica, in the order that somebody wants."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from msgspec import Struct

from specon_manager.core.state import State
from specon_manager.model.cluster import Phase, Replica
from specon_manager.views.queues import WaitingRow
from specon_manager.views.times import iso
from specon_manager.views.transactions import TransactionRow
from specon_manager.views.view import View
from specon_manager.views.words import is_hung
from specon_sidecar.classify import Category

_URGENCY: Final = (
    Category.DIVERGING,
    Category.STALLED,
    Category.CONVERGED,
    Category.WATCHING,
    Category.PROGRESSING,
    Category.UNKNOWN,
    Category.NOT_CLASSIFIABLE,
)
"""The order of categories: what may want somebody's attention first."""
_ENDED: Final = (Phase.SUCCEEDED, Phase.FAILED, Phase.ABSENT)


class ReplicaRow(Struct, frozen=True, kw_only=True):
    """A replica as `specon top` shows it; the fields of its JSON. Times are ISO 8601 in UTC."""

    replica: str
    job: str
    phase: str
    category: str
    category_since: str | None = None
    metric: str | None = None
    loss: float | None = None
    """The last value of the metric that it is judged by."""
    gain: float | None = None
    """Of the last interval, a part of one."""
    step: int | None = None
    total_steps: int | None = None
    node: str | None = None
    workers: int | None = None
    """How many workers its job has now."""
    min_workers: int | None = None
    max_workers: int | None = None
    queue: str = ""
    position: int | None = None
    """Of its job among those of its queue that wait; None where it does not wait."""
    waiting_for: str | None = None
    """A word for what its job waits for."""
    change: str | None = None
    """The change of its job that is in flight."""
    change_state: str | None = None
    moves: int = 0
    move: str | None = None
    """State of the move in flight."""
    move_to: str | None = None
    stuck: str = ""
    """Why its move, or the change of its job, cannot come to an end; empty where it can."""
    hung: bool = False
    """Whether its steps stopped for many times their usual interval while its processes wait."""
    age_seconds: float | None = None
    """Since its job was submitted, or first seen."""
    silent_seconds: float | None = None
    """Since its sidecar was last heard; of a cluster, since that was written down."""
    checkpoint_step: int | None = None
    crashes: int = 0
    note: str = ""


class PauseRow(Struct, frozen=True, kw_only=True):
    """A pause; `since` is None where only the reason is known."""

    reason: str
    since: str | None = None


class Top(Struct, frozen=True, kw_only=True):
    """What `specon top --output json` prints."""

    manager: str
    at: str | None
    policy: str | None
    """None where it is not known."""
    paused: PauseRow | None
    dry_run: bool
    """Whether the manager orders nothing; of a cluster that is not known, and false."""
    caveats: tuple[str, ...]
    categories: Mapping[str, int]
    """Running replicas by category."""
    ended: Mapping[str, int]
    """Replicas that failed or succeeded, by phase, whether they are listed or not."""
    moves_in_flight: int
    changes_in_flight: int
    stuck: int
    """Of both, how many cannot come to an end."""
    hung: int
    """Running replicas that hang."""
    moves_queued: int
    """Moves that were asked for and wait for others."""
    waiting: int
    """Jobs that wait to be admitted."""
    replicas: tuple[ReplicaRow, ...]
    left_out: int
    """How many replicas are not listed."""


SortKey = Callable[[ReplicaRow], tuple[bool, float | int | str]]


def _number(field: str) -> SortKey:
    """Return the order by a number, the largest first; those without one come last."""

    def key(row: ReplicaRow) -> tuple[bool, float]:
        value = getattr(row, field)
        return value is None, 0.0 if value is None else -value

    return key


def _word(field: str) -> SortKey:
    def key(row: ReplicaRow) -> tuple[bool, str]:
        value = getattr(row, field)
        return value is None, value or ""

    return key


def _by_category(row: ReplicaRow) -> tuple[bool, int]:
    rank = -1 if row.hung else _RANKS.get(row.category, len(_RANKS))
    return row.phase != str(Phase.RUNNING), rank


_RANKS: Final = {str(category): rank for rank, category in enumerate(_URGENCY)}
KEYS: Final[Mapping[str, SortKey]] = {
    "category": _by_category,
    "name": _word("replica"),
    "loss": _number("loss"),
    "gain": _number("gain"),
    "step": _number("step"),
    "node": _word("node"),
    "moves": _number("moves"),
    "age": _number("age_seconds"),
}
"""What lines can be ordered by."""


def top_of(
    view: View,
    *,
    where: str,
    sort: str = "category",
    reverse: bool = False,
    namespace: str | None = None,
    ended: bool = False,
    most: int | None = None,
) -> Top:
    """Return at most `most` lines, those that ended only where they are asked for.

    Replicas without the number that they are ordered by come last in either direction.
    """
    state = view.state
    there = [
        replica
        for replica in state.replicas.values()
        if namespace is None or replica.name.startswith(f"{namespace}/")
    ]
    replicas = [each for each in there if ended or each.phase not in _ENDED]
    over = Counter(str(each.phase) for each in there if each.phase in {Phase.FAILED, Phase.SUCCEEDED})
    of_jobs = _of_jobs(view)
    rows = _sort((_row(of_jobs, state, replica, view.now) for replica in replicas), sort, reverse=reverse)
    shown = rows if most is None else rows[:most]
    counted = Counter(str(r.progress.category) for r in replicas if r.phase is Phase.RUNNING)
    pause, flying = state.pause, [row for row in view.transactions if row.in_flight]
    return Top(
        manager=where,
        at=iso(view.now),
        policy=state.settings.policy if state.nodes else None,
        paused=None if pause is None else PauseRow(reason=pause.reason, since=iso(pause.since)),
        dry_run=state.settings.dry_run,
        caveats=view.caveats,
        categories={name: counted[name] for name in _RANKS if counted[name]},
        ended=dict(sorted(over.items())),
        moves_in_flight=sum(row.is_move for row in flying),
        changes_in_flight=sum(not row.is_move for row in flying),
        stuck=sum(bool(row.stuck) for row in flying),
        hung=sum(row.hung for row in rows),
        moves_queued=sum(not row.begun for row in view.transactions),
        waiting=len(view.waiting),
        replicas=tuple(shown),
        left_out=len(rows) - len(shown),
    )


def _sort(rows: Iterable[ReplicaRow], sort: str, *, reverse: bool) -> list[ReplicaRow]:
    key = KEYS[sort]
    named = sorted(rows, key=lambda row: row.replica)
    has = [row for row in named if not key(row)[0]]
    has.sort(key=key, reverse=reverse)
    return has + [row for row in named if key(row)[0]]


def _of_jobs(view: View) -> "_OfJobs":
    workers = Counter(
        replica.job for replica in view.state.replicas.values() if replica.active and replica.role != "ps"
    )
    flying = [row for row in view.transactions if row.in_flight]
    return _OfJobs(
        workers=workers,
        waiting={row.job: row for row in view.waiting},
        whole={row.job: row for row in flying if row.replica is None},
        single={row.replica: row for row in flying if row.replica is not None},
    )


class _OfJobs(Struct, frozen=True):
    """What the replicas of a job have in common, by job, and what moves one of them, by replica."""

    workers: Mapping[str, int]
    waiting: Mapping[str, WaitingRow]
    whole: Mapping[str, TransactionRow]
    single: Mapping[str, TransactionRow]


def _row(of_jobs: _OfJobs, state: State, replica: Replica, now: float) -> ReplicaRow:
    waiting, whole = of_jobs.waiting.get(replica.job), of_jobs.whole.get(replica.job)
    progress, job = replica.progress, state.jobs.get(replica.job)
    move = of_jobs.single.get(replica.name)
    if move is None and whole is not None and whole.is_move:
        move = whole
    change = None if whole is None or whole.is_move else whole
    heard, checkpoint = progress.reported_at, progress.checkpoint
    return ReplicaRow(
        replica=replica.name,
        job=replica.job,
        phase=str(replica.phase),
        category=str(progress.category),
        category_since=iso(progress.category_since),
        metric=progress.metric,
        loss=progress.value,
        gain=progress.gain,
        step=progress.step,
        total_steps=progress.total_steps,
        node=replica.node if replica.active else None,
        workers=None if job is None else of_jobs.workers.get(replica.job, 0),
        min_workers=None if job is None else job.spec.fewest_workers,
        max_workers=None if job is None else len(job.spec.worker_names),
        queue="" if job is None else job.spec.queue,
        position=None if waiting is None else waiting.position,
        waiting_for=None if waiting is None else waiting.kind,
        change=None if change is None else change.what,
        change_state=None if change is None else change.state,
        moves=replica.moves,
        move=None if move is None else move.state,
        move_to=None if move is None else move.destination_of(replica.name),
        stuck=next((row.stuck for row in (move, change) if row is not None and row.stuck), ""),
        hung=is_hung(state, replica),
        age_seconds=None if job is None else round(max(0.0, now - job.submitted_at), 1),
        silent_seconds=None if heard is None else round(max(0.0, now - heard), 1),
        checkpoint_step=None if checkpoint is None else checkpoint.step,
        crashes=replica.crashes,
        note=replica.note,
    )
