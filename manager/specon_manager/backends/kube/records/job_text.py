"""What a new manager has to know of a job and its transaction in flight: its TrainingJob's text. Pure.

What people read stands beside it, in fields of its own.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta, Struct

from specon_manager.backends.kube.records.placements import pack_names
from specon_manager.backends.kube.records.records import Averages
from specon_manager.backends.kube.records.transaction_text import (
    RECORD_CHARACTERS,
    Placed,
    RecordedNames,
    Short,
    to_placed,
)
from specon_manager.model.cluster import PREEMPTIONS_REMEMBERED, Job, Replica
from specon_manager.model.constraints import ANYWHERE, Constraints
from specon_manager.model.resources import NOTHING, Resources
from specon_manager.model.transactions import Transaction

REMEMBERED: Final = 20
"""How many transactions of a job that ended are kept with it."""
RecordedSeconds = Annotated[float, Meta(ge=0, le=1e12)]
Number = Annotated[int, Meta(ge=0, le=2**53)]


class Described(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the manager last knew of a job's description; its owner tells again what it is."""

    replicas: RecordedNames
    workers: Annotated[int, Meta(ge=1, le=1_000_000)] | None = None
    min_workers: Annotated[int, Meta(ge=1, le=1_000_000)] | None = None
    present: Number | None = None
    coupled: bool = True
    savers: Literal["lead", "all"] = "lead"
    coupling: Short = ""
    held: bool = False
    resizing: Literal["at-once", "live", "restart", "none"] = "none"
    queue: Short = ""
    checkpointing: Literal["asked", "on-termination", "none"] = "asked"
    grace_seconds: Annotated[float, Meta(ge=0, le=1e9)] = 30.0
    requests: Resources = NOTHING
    ps_requests: Resources | None = None
    unlike: tuple[tuple[Number, Resources], ...] = ()
    priority: Annotated[int, Meta(ge=-(2**31), lt=2**31)] = 0
    lowest_cpu: Annotated[float, Meta(ge=0)] | None = None
    constraints: Constraints = ANYWHERE
    """Pods have told these; while there are none, nobody else knows them."""
    owner: tuple[Short, Short] | None = None
    """Kind and UID of its owner."""


class JobText(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The record of one job; the names are those of version 0.1, which reads it after a rollback."""

    order: Number
    submitted_at: RecordedSeconds
    queued_at: RecordedSeconds = 0.0
    admitted_at: RecordedSeconds | None = None
    ended_at: RecordedSeconds | None = None
    trains_since: RecordedSeconds | None = None
    attained_seconds: RecordedSeconds = 0.0
    preemptions: Annotated[int, Meta(ge=0, le=2**31 - 1)] = 0
    hang_restarts: Annotated[int, Meta(ge=0, le=2**31 - 1)] = 0
    preempted_at: Annotated[tuple[RecordedSeconds, ...], Meta(max_length=PREEMPTIONS_REMEMBERED)] = ()
    """When the last few of these were, oldest first: so many within an hour are allowed."""
    admitted: bool = False
    changes: Annotated[int, Meta(ge=0, le=2**31 - 1)] = 0
    """How many did not succeed since the last that did."""
    cooldown_until: RecordedSeconds = 0.0
    changes_ever: Number = 0
    """How many transactions were begun of all jobs."""
    described: Described
    averages: Averages | None = None
    """What moves cost on average, up to and including the last that ended of all of it."""
    change: Placed | None = None
    """The transaction in flight of it as a whole."""
    last: Placed | None = None
    """What ended last."""
    history: tuple[Placed, ...] = ()
    """What ended before that, oldest first."""


def text_of(
    job: Job,
    replicas: Mapping[str, Replica],
    flying: Transaction | None,
    history: Sequence[Transaction] = (),
    *,
    owner: tuple[str, str] | None = None,
    begun: int = 0,
    averages: Averages | None = None,
) -> str:
    """Return the text; raises ValueError where it is longer than the API takes.

    `history` is what ended, oldest first: of that the oldest are left out where there is no room for them.
    `owner` is kind and UID of what creates the pods, `begun` how many transactions were begun of all jobs;
    `averages` are what moves cost, as written with one that ended.
    """
    record = JobText(
        order=job.order,
        submitted_at=job.submitted_at,
        queued_at=job.queued_at,
        admitted_at=job.admitted_at,
        ended_at=job.ended_at,
        trains_since=job.trains_since,
        attained_seconds=job.attained_seconds,
        preemptions=job.preemptions,
        hang_restarts=job.hang_restarts,
        preempted_at=tuple(round(at, 3) for at in job.preempted_at),
        admitted=job.admitted,
        changes=job.failures,
        cooldown_until=job.cooldown_until,
        changes_ever=begun,
        averages=averages,
        described=_describe(job, owner),
        change=None if flying is None else to_placed(flying, replicas),
    )
    return _with_history(record, [to_placed(each, {}) for each in history[-REMEMBERED:]])


def read_text(text: str) -> JobText:
    """Return the record in the text; raises ValueError where that is none."""
    return msgspec.json.decode(text, type=JobText)


def _describe(job: Job, owner: tuple[str, str] | None) -> Described:
    spec = job.spec
    return Described(
        replicas=pack_names(spec.replicas),
        workers=spec.workers,
        min_workers=spec.min_workers,
        present=spec.present,
        coupled=spec.coupled,
        savers=spec.savers,
        coupling=spec.coupling[:256],
        held=spec.held,
        resizing=spec.resizing,
        queue=spec.queue[:256],
        checkpointing=spec.checkpointing,
        grace_seconds=spec.grace_seconds,
        requests=spec.requests,
        ps_requests=spec.ps_requests,
        unlike=spec.unlike,
        priority=spec.priority,
        lowest_cpu=spec.lowest_cpu,
        constraints=spec.constraints,
        owner=owner,
    )


def _with_history(record: JobText, ended: Sequence[Placed]) -> str:
    """Return the text with as much of what ended as there is room for, the latest first."""
    length = len(msgspec.json.encode(record))
    if length > RECORD_CHARACTERS:
        raise ValueError(f"its record has {length} characters, more than {RECORD_CHARACTERS}")
    room = RECORD_CHARACTERS - length - len(',"history":[],"last":')
    kept: list[Placed] = []
    for each in reversed(ended):
        room -= len(msgspec.json.encode(each)) + 1
        if room < 0:
            break
        kept.insert(0, each)
    if kept:
        record = msgspec.structs.replace(record, last=kept[-1], history=tuple(kept[:-1]))
    return msgspec.json.encode(record).decode()
