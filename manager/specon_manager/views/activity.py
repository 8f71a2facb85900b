"""What happens, for the page: waiting jobs, changes, decisions; the latest, and how many more."""

from collections.abc import Callable
from typing import Any, Final

import msgspec
from msgspec import Struct

from specon_manager.core.state import State
from specon_manager.core.waiting import Waiting, list_waits
from specon_manager.model.cluster import Job, Phase
from specon_manager.model.expected_start import ExpectedStart
from specon_manager.views.decisions import DecisionRow, decision_row, proposal_text
from specon_manager.views.names import cut, job_label
from specon_manager.views.transactions import TransactionRow, row_of, row_of_request

QUEUE: Final = 50
FLYING: Final = 50
"""Transactions in flight, and as many requests that wait."""
ENDED: Final = 30
WAYS: Final = 64
"""Replicas of a gang that moves: where each of them goes."""
DECISIONS: Final = 40
"""Accepted decisions that are shown, and as many refused ones."""
StartOf = Callable[[str], ExpectedStart | None]
"""When a job is expected to start; None where nobody has said."""
_WAITING: Final = frozenset({Phase.PENDING, Phase.AWAITED})


def bound_row(row: Struct) -> dict[str, Any]:
    """Return a row with its texts on one line and cut: people and trainers wrote them."""
    fields = msgspec.structs.asdict(row)
    return {name: cut(value) if isinstance(value, str) else value for name, value in fields.items()}


def transactions(state: State) -> tuple[dict[str, list[dict[str, Any]]], dict[str, int]]:
    """Return the rows in flight, waiting and ended, and of each how many more there are."""
    flying = sorted(state.transactions.values(), key=lambda each: (each.proposed_at, each.id))
    waiting = list(state.requests.values())
    rows = {
        "transactions": [_flying(row_of(each, state)) for each in flying[:FLYING]],
        "requests": [bound_row(row_of_request(each, state)) for each in waiting[:FLYING]],
        "ended": [bound_row(row_of(each, state)) | {"ways": []} for each in reversed(state.history[-ENDED:])],
    }
    known = {"transactions": len(flying), "requests": len(waiting), "ended": len(state.history)}
    return rows, {name: known[name] - len(shown) for name, shown in rows.items()}


def _flying(row: TransactionRow) -> dict[str, Any]:
    """Return a transaction in flight, of a gang that moves with the ways of its first replicas."""
    return bound_row(row) | {"ways": [bound_row(way) for way in row.ways[:WAYS]]}


def queue(state: State, now: float, starts: StartOf = lambda _: None) -> tuple[list[dict[str, Any]], int]:
    """Return the jobs that do not run yet, or no longer run, next first, and how many there are."""
    moving = {name for each in state.transactions.values() for name in each.concerned}
    found = [job for job in state.jobs.values() if job.ended_at is None and _waits(state, job, moving)]
    found.sort(key=lambda job: (job.queued_at or job.submitted_at, job.order, job.name))
    waits = list_waits(state, now) if found else {}
    return [
        _make_queued_row(state, job, waits.get(job.name), starts(job.name)) for job in found[:QUEUE]
    ], len(found)


def decisions(state: State) -> list[dict[str, Any]]:
    """Return the newest decisions, newest first: refusals are many, and never crowd out the orders."""
    room = {True: DECISIONS, False: DECISIONS}
    rows: list[DecisionRow] = []
    for decision in reversed(state.decisions):
        accepted = decision.refusal is None
        if room[accepted]:
            room[accepted] -= 1
            rows.append(decision_row(state, decision))
    return [bound_row(row) | {"proposal": cut(proposal_text(row.proposal))} for row in rows]


def _make_queued_row(
    state: State, job: Job, waits: Waiting | None, start: ExpectedStart | None
) -> dict[str, Any]:
    """Return a job that waits: since when, for how many workers, what for, and where room is kept for it."""
    claim = state.claims.get(job.name)
    return {
        "job": job.name,
        "label": job_label(job.name),
        "since": job.queued_at or job.submitted_at,
        "workers": job.spec.wanted_workers,
        "class": job.spec.job_class,
        "queue": cut(job.spec.queue, 64),
        "owned": job.owned,
        "claimed": None if claim is None else cut(claim.reason),
        "position": None if waits is None else waits.position,
        "kind": None if waits is None else waits.kind,
        "text": "" if waits is None else cut(waits.text),
        "starts": None if waits is None or start is None else _starts(start),
    }


def _starts(start: ExpectedStart) -> list[float] | None:
    """Return in how many seconds a job starts, at the earliest and at the latest; None where nobody knows.

    One number alone is the earliest, where no more is known.
    """
    times = (start.in_seconds, start.earliest_seconds, start.latest_seconds)
    known = [round(each, 1) for each in times if each is not None]
    return known if len(known) == len(times) else [each for each in known[:1] if each] or None


def _waits(state: State, job: Job, moving: set[str]) -> bool:
    """Whether a replica of the job waits and none runs; one that is on its way to another node does not."""
    waits = False
    for name in job.spec.replicas:
        replica = state.replicas.get(name)
        if replica is None or replica.phase is Phase.ABSENT:
            continue
        if replica.phase not in _WAITING or name in moving:
            return False
        waits = True
    return waits
