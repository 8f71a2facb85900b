"""A job as its TrainingJob has it, and back. Pure."""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Final, TypeVar

import msgspec
from msgspec import Meta, Struct

from specon_manager.backends.kube.objects.names import Name, namespace_of, slug
from specon_manager.backends.kube.records.decoding import Problem, cut_text, moment, read_fields, seconds_of
from specon_manager.backends.kube.records.expected_start import ExpectedStartStatus
from specon_manager.backends.kube.records.external import (
    ChangeKind,
    ChangeState,
    change_kind,
    change_state,
    to_first_kind,
)
from specon_manager.backends.kube.records.job_text import JobText, read_text, text_of
from specon_manager.backends.kube.records.pins import PINNING_CHANGES
from specon_manager.backends.kube.records.placements import unpack_names
from specon_manager.backends.kube.records.records import (
    Count,
    Part,
    RecordedAmount,
    RecordedNode,
    RecordedText,
    SmallCount,
    averages_of,
    is_job,
    metadata_of,
    owner_uid,
    part_of,
    problem_of,
)
from specon_manager.backends.kube.records.transaction_text import Placed, objection, transaction_of
from specon_manager.backends.kube.transport.resources import TRAINING_JOBS, Object
from specon_manager.core.state import State
from specon_manager.core.waiting import Waiting
from specon_manager.model.cluster import Job, Phase
from specon_manager.model.transactions import Kind, Transaction, TransactionState

_NODES: Final = 4096
_HOSTNAME: Final = "kubernetes.io/hostname"
_LABEL: Final = 63
_Told = TypeVar("_Told", "ChangeStatus", "LastChange")
Id = Annotated[str, Meta(min_length=1, max_length=128)]


class JobPhase(StrEnum):
    """Where a job stands, for people."""

    WAITING = "Waiting"
    STARTING = "Starting"
    RUNNING = "Running"
    CHANGING = "Changing"
    ENDED = "Ended"


class ChangeStatus(Part, frozen=True):
    """The change in flight, for people and for the webhook."""

    id: Id | None = None
    kind: ChangeKind | None = None
    state: ChangeState | None = None
    reason: RecordedText | None = None
    note: RecordedText | None = None
    attempt: Annotated[int, Meta(ge=1, le=2)] | None = None


class LastChange(Part, frozen=True):
    """The change that ended last, for people."""

    id: Id | None = None
    kind: ChangeKind | None = None
    state: ChangeState | None = None
    reason: RecordedText | None = None
    note: RecordedText | None = None
    downtime_seconds: RecordedAmount | None = None
    steps_lost: Count | None = None
    ended_at: datetime | None = None


class Pin(Struct, frozen=True, kw_only=True):
    """Where the next pod of a replica is to run."""

    replica: Annotated[str, Meta(max_length=600)]
    hostname: Annotated[str, Meta(min_length=1, max_length=_LABEL)]


class TrainingJobStatus(Part, frozen=True):
    """The status of a TrainingJob."""

    phase: JobPhase | None = None
    position: SmallCount | None = None
    waiting_for: RecordedText | None = None
    expected_start: ExpectedStartStatus | None = None
    since: datetime | None = None
    workers: SmallCount | None = None
    nodes: Annotated[str, Meta(max_length=_NODES)] | None = None
    not_moved: RecordedText | None = None
    not_scaled_out: RecordedText | None = None
    preemptions: SmallCount | None = None
    change: ChangeStatus | None = None
    pins: tuple[Pin, ...] | None = None
    record: str | None = None
    last_change: LastChange | None = None
    manager: RecordedNode | None = None
    updated_at: datetime | None = None


class Recorded(Struct, frozen=True, kw_only=True):
    """What a TrainingJob says."""

    name: Name
    uid: str
    version: str
    """Its resourceVersion."""
    created_at: float
    updated_at: float
    job: str
    spec: Object
    owner: str
    """UID of the owner that it refers to; empty for none."""
    status: TrainingJobStatus
    text: JobText | None
    """None where the record is missing or not to be read."""
    transaction: Transaction | None = None
    """The transaction in flight of the job as a whole, where it can be read."""
    history: tuple[Transaction, ...] = ()
    """What ended of it, oldest first."""
    broken: str = ""
    """Why the transaction in flight cannot go on; empty where there is none, or where it can."""


def training_job_name(job: str) -> Name:
    """Return where the TrainingJob of a job is."""
    return Name(namespace_of(job), slug(job))


def training_job_spec(job: Job) -> Object:
    """Return the spec of the TrainingJob: what the owner of the job asks for."""
    spec = job.spec
    given = {
        "job": job.name,
        "queue": cut_text(spec.queue, _LABEL) if spec.held else None,
        "minWorkers": spec.min_workers,
        "maxWorkers": len(spec.worker_names) if spec.resizing in {"live", "restart"} else None,
    }
    return {key: value for key, value in given.items() if value is not None}


def phase_of(job: Job, state: State) -> JobPhase:
    """Return where the job stands."""
    flying = state.whole_transaction_of(job.name)
    if flying is not None:
        return JobPhase.STARTING if flying.kind is Kind.ADMIT else JobPhase.CHANGING
    if job.ended_at is not None:
        return JobPhase.ENDED
    if running(job, state):
        return JobPhase.RUNNING
    return JobPhase.WAITING if job.spec.held and not job.admitted else JobPhase.STARTING


def running(job: Job, state: State) -> Counter[str]:
    """Return how many replicas of the job run on which node."""
    members = (state.replicas.get(name) for name in job.spec.replicas)
    return Counter(each.node or "" for each in members if each is not None and each.phase is Phase.RUNNING)


def training_job_status(
    job: Job,
    state: State,
    *,
    waiting: Waiting | None = None,
    start: ExpectedStartStatus | None = None,
    history: Sequence[Transaction] = (),
    owner: tuple[str, str] | None = None,
    hostnames: Mapping[str, str] | None = None,
    manager: str,
    now: float,
) -> TrainingJobStatus:
    """Return the status; raises ValueError where the record is too long.

    `waiting` is what it waits for, `start` when that is over, `history` what ended of it as a whole, oldest
    first, `owner` kind and UID of what creates its pods, `hostnames` those of nodes that are not seen now.
    Times are seconds since the epoch.
    """
    flying, phase = flying_of(job.name, state), phase_of(job, state)
    waits = waiting if phase is JobPhase.WAITING else None
    where = running(job, state)
    return TrainingJobStatus(
        phase=phase,
        position=None if waits is None else waits.position,
        waiting_for=None if waits is None else cut_text(waits.text),
        expected_start=None if waits is None else start,
        since=moment(_since(job, phase, flying)),
        workers=sum(
            state.replicas[name].phase is Phase.RUNNING
            for name in job.spec.worker_names
            if name in state.replicas
        ),
        nodes=cut_text(nodes_in_words(where), _NODES),
        not_moved=not_moved(job),
        not_scaled_out=not_scaled_out(job),
        preemptions=job.preemptions,
        change=None if flying is None else _change_status(flying),
        pins=_pins(flying, state, hostnames or {}),
        record=text_of(
            job,
            state.replicas,
            flying,
            history,
            owner=owner,
            begun=state.transaction_count,
            averages=averages_of(state.measured) if any(map(_has_moved, history)) else None,
        ),
        last_change=_last_change(history[-1]) if history else None,
        manager=cut_text(manager, 253),
        updated_at=moment(now),
    )


def not_moved(job: Job) -> str | None:
    """Return why a job is not moved, in words; None where it may be."""
    return cut_text(job.spec.immovable) or None


def not_scaled_out(job: Job) -> str | None:
    """Return why a job that may grow gets no more workers, in words; None where nodes alone say how many."""
    return cut_text(job.spec.no_headroom) or None if job.spec.headroom == 0 else None


def to_first_schema(status: TrainingJobStatus) -> TrainingJobStatus | None:
    """Return the same for a server whose schema knows no move of a gang; None where it tells of none."""
    change, last = status.change, status.last_change
    if not any(each is not None and each.kind is ChangeKind.MOVE for each in (change, last)):
        return None
    return msgspec.structs.replace(
        status,
        change=None if change is None else _in_first_words(change),
        last_change=None if last is None else _in_first_words(last),
    )


def _in_first_words(told: _Told) -> _Told:
    moves = told.kind is ChangeKind.MOVE
    return msgspec.structs.replace(told, kind=to_first_kind(Kind.MOVE)) if moves else told


def _has_moved(over: Transaction) -> bool:
    return over.kind is Kind.MOVE


def nodes_in_words(where: Mapping[str, int]) -> str:
    """Return on which nodes how many replicas run, `node-1 (2), node-2`."""
    counted = ((node or "nobody knows where", count) for node, count in sorted(where.items()))
    return ", ".join(node if count == 1 else f"{node} ({count})" for node, count in counted)


def flying_of(job: str, state: State) -> Transaction | None:
    """Return the transaction in flight of a job as a whole that is on record with it."""
    return state.whole_transaction_of(job)


def _since(job: Job, phase: JobPhase, flying: Transaction | None) -> float | None:
    if flying is not None:
        return flying.proposed_at
    since = {
        JobPhase.WAITING: job.queued_at or job.submitted_at,
        JobPhase.RUNNING: job.trains_since,
        JobPhase.ENDED: job.ended_at,
    }
    return since.get(phase)


def _change_status(flying: Transaction) -> ChangeStatus:
    note = f"stuck: {flying.stuck}" if flying.stuck else flying.note
    return ChangeStatus(
        id=cut_text(flying.id, 128),
        kind=change_kind(flying.kind),
        state=change_state(flying.state),
        reason=cut_text(flying.reason),
        note=cut_text(note),
        attempt=flying.attempt,
    )


def _last_change(over: Transaction) -> LastChange:
    return LastChange(
        id=cut_text(over.id, 128),
        kind=change_kind(over.kind),
        state=change_state(over.state),
        reason=cut_text(over.reason),
        note=cut_text(over.note),
        downtime_seconds=None if over.downtime is None else round(over.downtime, 3),
        steps_lost=over.steps_lost,
        ended_at=moment(over.ended_at),
    )


def hostname_of(node: str, state: State, known: Mapping[str, str]) -> str:
    """Return the label by which pods are pinned to a node; as it was known where the node is not seen."""
    found = state.nodes.get(node)
    labels = {} if found is None else found.labels
    return labels.get(_HOSTNAME, known.get(node, node))


def _pins(flying: Transaction | None, state: State, known: Mapping[str, str]) -> tuple[Pin, ...] | None:
    """Return where the pods are to run that it brings about, but for those that may run anywhere."""
    if flying is None or change_state(flying.state) not in PINNING_CHANGES:
        return None
    if flying.state is TransactionState.LEAVING and not flying.restart:
        return None
    hostnames = {node: hostname_of(node, state, known) for node in {*flying.wanted.values()} - {""}}
    return tuple(
        Pin(replica=name, hostname=hostnames[node])
        for name, node in sorted(flying.wanted.items())
        if node and len(hostnames[node]) <= _LABEL
    )


def read_training_job(item: Object) -> tuple[Recorded | None, list[Problem]]:
    """Return what a TrainingJob says, None where it is not that of a job in its namespace; never raises."""
    name, created_at = metadata_of(item)
    kind = TRAINING_JOBS.kind
    metadata, spec = part_of(item, "metadata"), part_of(item, "spec")
    job = spec.get("job")
    if not isinstance(job, str) or not is_job(job):
        return None, [problem_of(kind, name, "spec.job", f"{str(job)[:80]!r} is no job")]
    if training_job_name(job) != name:
        text = f"{job!r} has its TrainingJob at {training_job_name(job)}"
        return None, [problem_of(kind, name, "spec.job", text)]
    status, wrong = read_fields(TrainingJobStatus, item.get("status"), at="status")
    record, flying, history, broken = _read_record(job, status, wrong)
    read = Recorded(
        name=name,
        uid=str(metadata.get("uid") or ""),
        version=str(metadata.get("resourceVersion") or ""),
        created_at=created_at,
        updated_at=seconds_of(status.updated_at) or 0.0,
        job=job,
        spec=spec,
        owner=owner_uid(metadata),
        status=status,
        text=record,
        transaction=flying,
        history=history,
        broken=broken,
    )
    return read, [problem_of(kind, name, field, why) for field, why in sorted(wrong.items())]


def _read_record(
    job: str, status: TrainingJobStatus, wrong: dict[str, str]
) -> tuple[JobText | None, Transaction | None, tuple[Transaction, ...], str]:
    """Return the record, the transaction in flight, the ended ones, and why the first cannot go on."""
    text = flying = None
    broken = ""
    if status.record is not None:
        try:
            text = read_text(status.record)
            unpack_names(job, text.described.replicas)
        except (ValueError, msgspec.DecodeError, RecursionError) as error:
            text = None
            wrong["status.record"] = str(error)[:200]
    history = () if text is None else _history(job, text, wrong)
    if text is not None and text.change is not None:
        try:
            flying = transaction_of(job, text.change)
            replicas = unpack_names(job, text.described.replicas)
            broken = objection(flying, text.change, replicas) or ""
        except (ValueError, msgspec.ValidationError) as error:
            broken = str(error)[:200]
    elif text is None and status.change is not None:
        broken = "its record cannot be read"
    if broken:
        wrong["status.record.change"] = broken
    return text, flying, history, broken


def _history(job: str, text: JobText, wrong: dict[str, str]) -> tuple[Transaction, ...]:
    """Return what ended, oldest first, as far as it can be read."""
    found = []
    written: tuple[Placed, ...] = (*text.history, *(() if text.last is None else (text.last,)))
    for placed in written:
        try:
            over = transaction_of(job, placed)
        except (ValueError, msgspec.ValidationError) as error:
            wrong["status.record.history"] = str(error)[:200]
        else:
            if not over.in_flight:
                found.append(over)
    return tuple(found)
