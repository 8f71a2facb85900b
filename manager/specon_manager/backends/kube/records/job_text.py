"""What a new manager has to know of a job and of its change, as the JSON text of its TrainingJob. Pure.

Only a manager writes it, and it is read as a whole or not at all: a part that somebody changed by hand would
contradict the others. What people read stands beside it, in fields of its own.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta, Struct, field

from specon_manager.backends.kube.records.placements import (
    packed,
    packed_placement,
    unpacked,
    unpacked_placement,
)
from specon_manager.model.changes import OVER, Change
from specon_manager.model.cluster import Job, Leaving, Phase, Replica
from specon_manager.model.constraints import ANYWHERE, Constraints
from specon_manager.model.resources import NOTHING, Resources

RECORD_CHARACTERS: Final = 64 * 1024
Seconds = Annotated[float, Meta(ge=0, le=1e12)]
Number = Annotated[int, Meta(ge=0, le=2**53)]
Short = Annotated[str, Meta(max_length=256)]
Names = Annotated[str, Meta(max_length=RECORD_CHARACTERS)]


class Described(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the manager last knew of a job's description; its owner tells anew what it is."""

    replicas: Names
    workers: Annotated[int, Meta(ge=1, le=1_000_000)] | None = None
    min_workers: Annotated[int, Meta(ge=1, le=1_000_000)] | None = None
    present: Number | None = None
    held: bool = False
    resizing: Literal["at-once", "live", "restart", "none"] = "none"
    queue: Short = ""
    checkpointing: Literal["asked", "on-termination", "none"] = "asked"
    grace_seconds: Annotated[float, Meta(ge=0, le=1e9)] = 30.0
    requests: Resources = NOTHING
    ps_requests: Resources | None = None
    priority: Annotated[int, Meta(ge=-(2**31), lt=2**31)] = 0
    lowest_cpu: Annotated[float, Meta(ge=0)] | None = None
    constraints: Constraints = ANYWHERE
    """Pods have told these; while there are none, nobody else knows them."""
    owner: tuple[Short, Short] | None = None
    """Kind and UID of its owner."""


_PHASES: Final = (
    Phase.PENDING,
    Phase.STARTING,
    Phase.RUNNING,
    Phase.SUCCEEDED,
    Phase.FAILED,
    Phase.ABSENT,
    Phase.AWAITED,
)
"""By the numbers that stand for them in records: these never change."""
_PURPOSES: Final = (None, "preempt", "scale-in", "complete", "fail", "restart")


class Member(Struct, frozen=True, array_like=True):
    """What is written of one replica of a job whose change is in flight; a thousand of these have to fit."""

    phase: Annotated[int, Meta(ge=0, lt=len(_PHASES))]
    incarnation: Annotated[str, Meta(min_length=1, max_length=128)] | None = None
    starts: Annotated[int, Meta(ge=0, le=2**31 - 1)] = 0
    purpose: Annotated[int, Meta(ge=0, lt=len(_PURPOSES))] = 0
    """Why it was told to end; 0 where it was not."""
    node: Short | None = None
    """Where that is not what the change says; empty for nowhere."""


class Placed(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A change without its placements, and those: `after` is what `before` becomes."""

    fields: dict[str, Any]
    before: dict[str, Names] = field(default_factory=dict)
    gone: Names = ""
    added: dict[str, Names] = field(default_factory=dict)
    members: tuple[Member, ...] = ()
    """By the names of those that run before or after; only while the change is in flight."""


class JobText(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The record of one job."""

    order: Number
    submitted_at: Seconds
    queued_at: Seconds = 0.0
    admitted_at: Seconds | None = None
    ended_at: Seconds | None = None
    trains_since: Seconds | None = None
    attained_seconds: Seconds = 0.0
    preemptions: Annotated[int, Meta(ge=0, le=2**31 - 1)] = 0
    admitted: bool = False
    changes: Annotated[int, Meta(ge=0, le=2**31 - 1)] = 0
    cooldown_until: Seconds = 0.0
    changes_ever: Number = 0
    """How many changes were begun of all jobs."""
    described: Described
    change: Placed | None = None
    last: Placed | None = None


def concerned(change: Change) -> list[str]:
    """Return the replicas that a change is about, by name."""
    return sorted({*change.before, *change.after})


def text_of(
    job: Job,
    replicas: Mapping[str, Replica],
    change: Change | None,
    last: Change | None,
    *,
    owner: tuple[str, str] | None = None,
    changes_ever: int = 0,
) -> str:
    """Return the text; raises ValueError where it is longer than the API takes.

    `last` is the change that ended last; where there is no room for it, it is left out. `owner` is kind and
    UID of what creates the pods.
    """
    spec = job.spec
    record = JobText(
        order=job.order,
        submitted_at=job.submitted_at,
        queued_at=job.queued_at,
        admitted_at=job.admitted_at,
        ended_at=job.ended_at,
        trains_since=job.trains_since,
        attained_seconds=job.attained_seconds,
        preemptions=job.preemptions,
        admitted=job.admitted,
        changes=job.changes,
        cooldown_until=job.cooldown_until,
        changes_ever=changes_ever,
        described=Described(
            replicas=packed(spec.replicas),
            workers=spec.workers,
            min_workers=spec.min_workers,
            present=spec.present,
            held=spec.held,
            resizing=spec.resizing,
            queue=spec.queue[:256],
            checkpointing=spec.checkpointing,
            grace_seconds=spec.grace_seconds,
            requests=spec.requests,
            ps_requests=spec.ps_requests,
            priority=spec.priority,
            lowest_cpu=spec.lowest_cpu,
            constraints=spec.constraints,
            owner=owner,
        ),
        change=None if change is None else _placed(change, replicas),
        last=None if last is None else _placed(last, {}),
    )
    text = msgspec.json.encode(record).decode()
    if len(text) > RECORD_CHARACTERS and last is not None:
        text = msgspec.json.encode(msgspec.structs.replace(record, last=None)).decode()
    if len(text) > RECORD_CHARACTERS:
        raise ValueError(f"its record has {len(text)} characters, more than {RECORD_CHARACTERS}")
    return text


def _placed(change: Change, replicas: Mapping[str, Replica]) -> Placed:
    fields = msgspec.to_builtins(change)
    for placement in ("before", "after", "job"):
        del fields[placement]
    added = {name: node for name, node in change.after.items() if change.before.get(name) != node}
    members = tuple(
        _member(replicas[name], change) for name in concerned(change) if name in replicas and change.in_flight
    )
    return Placed(
        fields={name: value for name, value in fields.items() if value is not None},
        before=packed_placement(change.before),
        gone=packed(change.before.keys() - change.after.keys()),
        added=packed_placement(added),
        members=members if len(members) == len(concerned(change)) else (),
    )


def _member(replica: Replica, change: Change) -> Member:
    node = replica.node or ""
    return Member(
        _PHASES.index(replica.phase),
        replica.incarnation,
        replica.starts,
        0 if replica.leaving is None else _PURPOSES.index(replica.leaving.purpose),
        None if node == _expected(replica.name, change) else node,
    )


def _expected(name: str, change: Change) -> str:
    """Return where a replica is that a change is about, as long as nobody says something else."""
    nodes = (change.wanted.get(name), change.before.get(name), change.after.get(name))
    return next((node for node in nodes if node is not None), "")


def read_text(text: str) -> JobText:
    """Return the record in the text; raises ValueError where that is none."""
    return msgspec.json.decode(text, type=JobText)


def change_of(job: str, placed: Placed) -> Change:
    """Return the change as it was written; raises ValueError where it makes no sense."""
    before = unpacked_placement(job, placed.before)
    after = {name: node for name, node in before.items() if name not in set(unpacked(job, placed.gone))}
    after |= unpacked_placement(job, placed.added)
    return msgspec.convert({**placed.fields, "job": job, "before": before, "after": after}, Change)


def objection(change: Change, placed: Placed) -> str | None:
    """Return what a change in flight cannot be without, or contradicts; None where it is whole."""
    names = concerned(change)
    if change.state in OVER:
        return f"it is {change.state} and was written as one in flight"
    if not names:
        return "it is about no replica"
    if len(placed.members) != len(names):
        return f"it has the records of {len(placed.members)} of its {len(names)} replicas"
    if change.lead not in names or change.attempt not in {1, 2}:
        return f"its lead {change.lead[:80]!r} or its attempt {change.attempt} makes no sense"
    admits, preempts = change.kind == "admit", change.kind == "preempt"
    if admits == bool(change.before) or preempts == bool(change.after):
        return f"its replicas before and after are not those of a change of the kind {change.kind}"
    if change.state == "Checkpointing" and (change.incarnation is None or change.attempt > 1 or admits):
        return "a change that is Checkpointing has the incarnation of its lead, and is on its way"
    if change.state in {"Coming", "Verifying"} and not change.wanted:
        return f"nothing is to run, and it is {change.state}"
    if change.checkpoint is not None and not change.checkpoint.verified:
        return "its checkpoint has no digest"
    return None


def with_member(replica: Replica, change: Change, member: Member, now: float) -> Replica:
    """Return the replica as the record of its job's change has it; its pods tell what happened since."""
    node = _expected(replica.name, change) if member.node is None else member.node
    phase, purpose = _PHASES[member.phase], _PURPOSES[member.purpose]
    active = phase in {Phase.RUNNING, Phase.STARTING}
    leaving = None
    if active and purpose is not None:
        leaving = Leaving(
            purpose=purpose,  # type: ignore[arg-type]
            since=now if change.changing_at is None else change.changing_at,
            deadline=change.deadline,
            reason=f"{change.id}: {change.note or change.reason}",
        )
    incarnation = member.incarnation if active else None
    ended = phase in {Phase.SUCCEEDED, Phase.FAILED}
    return msgspec.structs.replace(
        replica,
        phase=phase,
        node=node or None,
        incarnation=incarnation,
        former=None if incarnation is not None and replica.former == incarnation else replica.former,
        starts=max(member.starts, replica.starts),
        ended_at=(replica.ended_at or now) if ended else None,
        deadline=None,
        leaving=leaving,
    )
