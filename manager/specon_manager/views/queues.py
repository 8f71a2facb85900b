"""Queues, and the jobs that wait in them, as rows."""

from collections.abc import Mapping

from msgspec import Struct

from specon_manager.core.queue_use import QueueUse, uses_of
from specon_manager.core.state import State
from specon_manager.core.waiting import list_waits
from specon_manager.model.expected_start import ExpectedStart
from specon_manager.model.resources import NOTHING, Resources
from specon_manager.views.times import iso


class WaitingRow(Struct, frozen=True, kw_only=True):
    """A job that waits to be admitted; the fields of `specon queue --output json`."""

    job: str
    queue: str
    position: int
    """Of the jobs of its queue that wait; 1 is next."""
    overall: int
    """Of all jobs that wait."""
    since: str | None
    kind: str
    """A word for what it waits for; empty of a cluster, whose manager writes down the text alone."""
    text: str
    start: ExpectedStart | None = None
    """When it starts, as its manager expects; None where no manager has told."""


class QueueRow(Struct, frozen=True, kw_only=True):
    """A queue, with what its jobs have together; the fields of `specon queue --output json`."""

    queue: str
    """Empty: of the jobs that name none."""
    quota: Resources | None
    """None: it has none, so that nothing limits its jobs."""
    borrow: bool
    limit: Resources | None
    used: Resources | None
    """None: that is not known."""
    borrowed: Resources | None = None
    """What it uses beyond its quota."""
    running: int = 0
    waiting: int = 0
    share: float | None = None
    """How many times its quota it has used over time; None where queues take no turns, or nobody has told."""


def waiting_rows(
    state: State, now: float, starts: Mapping[str, ExpectedStart] | None = None
) -> tuple[WaitingRow, ...]:
    """Return the jobs that wait, in the order of submission; `starts` is when they are expected to."""
    expected = {} if starts is None else starts
    return tuple(
        WaitingRow(
            job=each.job,
            queue=each.queue,
            position=each.position,
            overall=each.overall,
            since=iso(each.since),
            kind=each.kind,
            text=each.text,
            start=expected.get(each.job),
        )
        for each in list_waits(state, now).values()
    )


def queue_rows(state: State) -> tuple[QueueRow, ...]:
    """Return the queues by name: those with a quota, and those that jobs name which wait or run."""
    return tuple(_queue_row(state, name, use) for name, use in sorted(uses_of(state).items()))


def _queue_row(state: State, name: str, use: QueueUse) -> QueueRow:
    queue = state.queues.get(name)
    return QueueRow(
        queue=name,
        quota=None if queue is None else queue.quota,
        borrow=queue is not None and queue.borrow,
        limit=None if queue is None else queue.limit,
        used=use.used,
        borrowed=NOTHING if queue is None else use.used - queue.quota,
        running=use.running,
        waiting=use.waiting,
        share=use.share,
    )
