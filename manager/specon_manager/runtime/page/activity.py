"""What happens, for the page: who waits, what moves, what was decided. Pure."""

from collections.abc import Mapping
from typing import Any, Final

from specon_manager.core.state import State
from specon_manager.core.waiting import Waiting
from specon_manager.model.actions import Decision
from specon_manager.model.changes import Change
from specon_manager.model.cluster import Job, Phase, role_of
from specon_manager.model.moves import Move
from specon_manager.runtime.page.words import job_label, plain, replica_label

QUEUE: Final = 50
MOVES: Final = 50
ENDED: Final = 30
"""Of moves, and as many changes of jobs."""
DECISIONS: Final = 40
"""Of those that were accepted, and as many of the refused ones."""
_WAITING: Final = frozenset({Phase.PENDING, Phase.AWAITED})


def waiting(state: State) -> list[Job]:
    """Return the jobs of which nothing runs yet, or any more, in the order in which they wait."""
    found = [job for job in state.jobs.values() if job.ended_at is None and _waits(state, job)]
    return sorted(found, key=lambda job: (job.queued_at or job.submitted_at, job.order, job.name))


def queued_row(state: State, job: Job, waits: Waiting | None) -> dict[str, Any]:
    """Return a job that waits: since when, for how many workers, what for, and where room is kept for it."""
    claim = state.claims.get(job.name)
    return {
        "job": job.name,
        "label": job_label(job.name),
        "since": job.queued_at or job.submitted_at,
        "workers": job.spec.wanted_workers,
        "class": job.spec.job_class,
        "queue": plain(job.spec.queue, 64),
        "owned": job.owned,
        "claimed": None if claim is None else plain(claim.reason),
        "position": None if waits is None else waits.position,
        "kind": None if waits is None else waits.kind,
        "text": "" if waits is None else plain(waits.text),
    }


def change_row(change: Change) -> dict[str, Any]:
    """Return a change of a job, in flight or ended."""
    return {
        "id": plain(change.id, 128),
        "job": change.job,
        "label": job_label(change.job),
        "kind": change.kind.value,
        "state": change.state.value,
        "attempt": change.attempt,
        "before": _workers(change.before),
        "after": _workers(change.after),
        "for": job_label(change.beneficiary) if change.beneficiary else None,
        "reason": plain(change.reason),
        "since": change.proposed_at,
        "deadline": change.deadline,
        "ended": change.ended_at,
        "downtime": change.downtime,
        "note": plain(change.note),
    }


def move_row(state: State, move: Move) -> dict[str, Any]:
    """Return a move, in flight or ended."""
    return {
        "id": plain(move.id, 128),
        "replica": move.replica,
        "label": replica_label(state, move.replica),
        "source": plain(move.source, 128),
        "target": plain(move.target, 128),
        "state": move.state.value,
        "attempt": move.attempt,
        "policy": plain(move.policy, 64),
        "purpose": plain(move.purpose, 64),
        "reason": plain(move.reason),
        "since": move.proposed_at,
        "deadline": move.deadline,
        "ended": move.ended_at,
        "downtime": move.downtime,
        "steps_lost": move.steps_lost,
        "note": plain(move.note),
    }


def latest_decisions(state: State) -> list[dict[str, Any]]:
    """Return the newest decisions, newest first: refusals are many, and never crowd out what was done."""
    room = {True: DECISIONS, False: DECISIONS}
    rows = []
    for decision in reversed(state.decisions):
        accepted = decision.refusal is None
        if room[accepted]:
            room[accepted] -= 1
            rows.append(_decision_row(state, decision))
    return rows


def _decision_row(state: State, decision: Decision) -> dict[str, Any]:
    is_job = decision.replica in state.jobs
    return {
        "at": decision.at,
        "replica": decision.replica,
        "label": job_label(decision.replica) if is_job else replica_label(state, decision.replica),
        "policy": plain(decision.policy, 64),
        "proposal": plain(decision.proposal, 128),
        "refusal": None if decision.refusal is None else decision.refusal.value,
        "reason": plain(decision.reason),
    }


def _workers(placement: Mapping[str, str]) -> int:
    return sum(role_of(name) != "ps" for name in placement)


def _waits(state: State, job: Job) -> bool:
    """Whether a replica of the job waits and none runs; one that is on its way to another node does not."""
    waits = False
    for name in job.spec.replicas:
        replica = state.replicas.get(name)
        if replica is None or replica.phase is Phase.ABSENT:
            continue
        if replica.phase not in _WAITING or name in state.moves:
            return False
        waits = True
    return waits
