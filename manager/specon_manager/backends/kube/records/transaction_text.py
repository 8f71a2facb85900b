"""A transaction as JSON text, the same in every object that holds one, and back. Pure.

Only a manager writes it, and it is read as a whole or not at all. Version 0.1 had another record for changes
of whole jobs. The text keeps the names of that record, so version 0.1 carries on what it can read, and closes
the rest. This module also reads what version 0.1 wrote.
"""

from collections.abc import Collection, Mapping
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta, Struct, field

from specon_manager.backends.kube.records.external import to_first_kind
from specon_manager.backends.kube.records.placements import (
    pack_names,
    pack_placement,
    unpack_names,
    unpack_placement,
)
from specon_manager.core.transaction.members import purpose_of
from specon_manager.model.cluster import Leaving, Phase, Replica
from specon_manager.model.transactions import FINAL_STATES, Kind, Transaction, TransactionState, Witness
from specon_sidecar.counts import format_count

RECORD_CHARACTERS: Final = 64 * 1024
Short = Annotated[str, Meta(max_length=256)]
RecordedNames = Annotated[str, Meta(max_length=RECORD_CHARACTERS)]

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
"""Likewise, those of version 0.1; others follow from the transaction."""
_Counts = dict[str, Annotated[int, Meta(ge=0, le=2**31 - 1)]]
_FOR_GOOD: Final = frozenset({"complete", "fail"})


class Member(Struct, frozen=True, array_like=True):
    """The record of one replica of a transaction in flight; a thousand of these have to fit."""

    phase: Annotated[int, Meta(ge=0, lt=len(_PHASES))]
    incarnation: Annotated[str, Meta(min_length=1, max_length=128)] | None = None
    starts: Annotated[int, Meta(ge=0, le=2**31 - 1)] = 0
    purpose: Annotated[int, Meta(ge=0, lt=len(_PURPOSES))] = 0
    """Why it was told to end; 0 where it was not."""
    node: Short | None = None
    """Where that is not what the transaction says; empty for nowhere."""


class Placed(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A transaction without its placements, and those: `after` is what `before` becomes."""

    fields: dict[str, Any]
    before: dict[str, RecordedNames] = field(default_factory=dict)
    gone: RecordedNames = ""
    added: dict[str, RecordedNames] = field(default_factory=dict)
    members: tuple[Member, ...] = ()
    """The replicas that run before or after it, by name; only while it is in flight."""


# -- written -------------------------------------------------------------------------------------


def to_placed(transaction: Transaction, replicas: Mapping[str, Replica]) -> Placed:
    """Return the record of a transaction; of one that has ended nothing of `replicas`."""
    before, after = transaction.before, transaction.after
    added = {name: node for name, node in after.items() if before.get(name) != node}
    known = [replicas[name] for name in transaction.concerned if name in replicas]
    whole = transaction.in_flight and len(known) == len(transaction.concerned)
    return Placed(
        fields=_fields(transaction, replicas),
        before=pack_placement(before),
        gone=pack_names(before.keys() - after.keys()),
        added=pack_placement(added),
        members=tuple(member_of(each, transaction) for each in known) if whole else (),
    )


def member_of(replica: Replica, transaction: Transaction) -> Member:
    """Return the record of one of its replicas."""
    node, purpose = replica.node or "", None if replica.leaving is None else replica.leaving.purpose
    return Member(
        _PHASES.index(replica.phase),
        replica.incarnation,
        replica.starts,
        _PURPOSES.index(purpose if purpose in _PURPOSES else "preempt"),
        None if node == _locate(replica.name, transaction) else node,
    )


def _fields(transaction: Transaction, replicas: Mapping[str, Replica]) -> dict[str, Any]:
    kept = _list_fields(transaction)
    for apart in ("job", "before", "after", "witnesses", "ending", "missing_sidecars"):
        kept.pop(apart, None)
    witnesses = {_short(name): _list_fields(each) for name, each in sorted(transaction.witnesses.items())}
    missing = {_short(name): count for name, count in sorted(transaction.missing_sidecars.items())}
    as_known, others, concerned = [], {}, set(transaction.concerned)
    for name, told in sorted(transaction.ending.items()):
        known = replicas.get(name)
        if transaction.in_flight and name in concerned and told == ((known and known.incarnation) or ""):
            as_known.append(name)
        else:
            others[_short(name)] = told
    return {
        **_for_earlier(transaction),
        **kept,
        "kind": to_first_kind(transaction.kind).value,
        "what": transaction.kind.value,
        "witnesses": witnesses,
        **({"ending": pack_names(as_known)} if as_known else {}),
        **({"ended": others} if others and transaction.in_flight else {}),
        **({"missing_sidecars": missing} if missing and transaction.in_flight else {}),
    }


def _for_earlier(transaction: Transaction) -> dict[str, Any]:
    """Return what version 0.1 needs beside what has its name still.

    It knows one witness for all of a job. Where several have to save it finds none, and closes the record:
    to end them by the checkpoint of one would lose what the others trained.
    """
    if transaction.kind is Kind.MOVE or len(transaction.witnesses) > 1 or not transaction.concerned:
        return {}
    name, witness = next(iter(transaction.witnesses.items()), (_lead(transaction), Witness()))
    found = {
        "lead": name,
        "incarnation": witness.incarnation,
        "checkpoint": None if witness.checkpoint is None else msgspec.to_builtins(witness.checkpoint),
        "last_step_before": witness.last_step,
        "last_step_at": witness.last_step_at,
        "first_step_after": witness.first_step,
        "proven": witness.proven,
        "downtime": witness.downtime,
    }
    return {key: value for key, value in found.items() if value is not None}


def _lead(transaction: Transaction) -> str:
    workers = [name for name in transaction.concerned if "/ps/" not in name]
    return (workers or list(transaction.concerned))[0]


def _list_fields(record: Struct) -> dict[str, Any]:
    """Return the fields of a record that are not what they are anyway."""
    built = msgspec.to_builtins(record)
    usual = {each.encode_name: each.default for each in msgspec.structs.fields(record)}
    return {key: value for key, value in built.items() if value != usual.get(key) and value is not None}


def _short(name: str) -> str:
    """Return role and index of a replica's name."""
    return "/".join(name.split("/")[2:])


# -- read ----------------------------------------------------------------------------------------


def transaction_of(job: str, placed: Placed) -> Transaction:
    """Return the transaction as it was written; raises ValueError where it makes no sense."""
    before = unpack_placement(job, placed.before)
    after = {name: node for name, node in before.items() if name not in set(unpack_names(job, placed.gone))}
    after |= unpack_placement(job, placed.added)
    fields = dict(placed.fields)
    if not isinstance(fields.get("witnesses"), dict):
        return _of_earlier(job, placed, before, after)
    fields["kind"] = fields.pop("what", fields.get("kind"))
    fields["witnesses"] = {f"{job}/{name}": each for name, each in fields["witnesses"].items()}
    members = dict(zip(sorted({*before, *after}), placed.members, strict=False))
    ending = {
        name: (members[name].incarnation or "") if name in members else ""
        for name in unpack_names(job, _text(fields.pop("ending", "")))
    }
    others = fields.pop("ended", None) or {}
    if not isinstance(others, dict):
        raise ValueError(f"{str(others)[:80]!r} names no incarnations")  # noqa: TRY004  (as above)
    ending |= {f"{job}/{name}": told for name, told in others.items()}
    missing = msgspec.convert(fields.pop("missing_sidecars", {}), _Counts)
    whole = {
        **fields,
        "job": job,
        "before": before,
        "after": after,
        "ending": dict(sorted(ending.items())),
        "missing_sidecars": {f"{job}/{name}": count for name, count in missing.items()},
    }
    return msgspec.convert(whole, Transaction)


def _text(given: object) -> str:
    if not isinstance(given, str):
        raise ValueError(f"{str(given)[:80]!r} names no replicas")  # noqa: TRY004  (the record is wrong)
    return given


class _Change(Struct, frozen=True, kw_only=True):
    """What version 0.1 wrote of a change of a job, as far as it differs from a transaction."""

    lead: str = ""
    incarnation: str | None = None
    last_step_before: int | None = None
    last_step_at: float | None = None
    first_step_after: int | None = None
    proven: bool = False
    downtime: float | None = None


def _of_earlier(job: str, placed: Placed, before: Mapping[str, str], after: Mapping[str, str]) -> Transaction:
    """Return the transaction that a change of version 0.1 is."""
    fields = placed.fields
    change = msgspec.convert(fields, _Change)
    kept = {each.name for each in msgspec.structs.fields(Transaction)} - {"witnesses", "ending", "checkpoint"}
    base = {key: value for key, value in fields.items() if key in kept}
    transaction = msgspec.convert(
        {**base, "job": job, "before": before, "after": after, "whole": True}, Transaction
    )
    if transaction.kind not in {Kind.ADMIT, Kind.SCALE_OUT, Kind.SCALE_IN, Kind.PREEMPT}:
        raise ValueError(f"there was no change of the kind {transaction.kind}")
    if change.lead not in transaction.concerned and transaction.concerned:
        raise ValueError(f"its lead {change.lead[:80]!r} is none of its replicas")
    named = zip(transaction.concerned, placed.members, strict=False)
    told = {name: each.incarnation or "" for name, each in named if each.purpose and each.phase in (1, 2)}
    leaving = transaction.state is TransactionState.LEAVING
    saved = {"checkpoint": fields["checkpoint"]} if fields.get("checkpoint") is not None else {}
    witness = msgspec.convert(
        {
            **saved,
            "incarnation": change.incarnation,
            # The time of its verification was not written down; the orders came right after that.
            "checkpoint_at": transaction.changing_at if saved else None,
            "answered": transaction.state is not TransactionState.CHECKPOINTING,
            "last_step": change.last_step_before,
            "last_step_at": change.last_step_at,
            "first_step": change.first_step_after,
            "proven": change.proven,
            "downtime": change.downtime,
        },
        Witness,
    )
    return msgspec.structs.replace(
        transaction,
        witnesses={} if transaction.kind is Kind.ADMIT or not change.lead else {change.lead: witness},
        ending=told if leaving else {},
    )


def objection(transaction: Transaction, placed: Placed, job: Collection[str] = ()) -> str | None:
    """Return what a transaction in flight cannot be without, or contradicts; None where it is whole.

    `job` are all replicas of the job that it is about as a whole: what its owner has started beside those
    that ran when it began has to end with them.
    """
    names = transaction.concerned
    if transaction.state in FINAL_STATES:
        return f"it is {transaction.state} and was written as one in flight"
    if not names:
        return "it is about no replica"
    if len(placed.members) != len(names):
        return f"it has the records of {len(placed.members)} of its {format_count(len(names), 'replica')}"
    told = transaction.ending.keys() - set(job)
    if strangers := (transaction.witnesses.keys() | told) - set(names):
        return f"{min(strangers)[:80]!r} is none of its replicas"
    if transaction.attempt not in {1, 2}:
        return f"its attempt {transaction.attempt} makes no sense"
    kind, wanted = transaction.kind, transaction.wanted
    comes_to_nothing = kind in {Kind.PREEMPT, Kind.PUT_BACK}
    if (kind is Kind.ADMIT) == bool(transaction.before) or comes_to_nothing == bool(transaction.after):
        return f"its replicas before and after are not those of a transaction of the kind {kind}"
    asking = {TransactionState.RESERVED, TransactionState.CHECKPOINTING}
    if transaction.state in asking and (transaction.attempt > 1 or not _may_ask(transaction)):
        return f"one that is {transaction.state} has those whom it asks, and is on its way"
    if transaction.state in {TransactionState.COMING, TransactionState.VERIFYING} and not wanted:
        return f"nothing is to run, and it is {transaction.state}"
    if any(w.checkpoint is not None and not w.checkpoint.verified for w in transaction.witnesses.values()):
        return "its checkpoint has no digest"
    return None


def _may_ask(transaction: Transaction) -> bool:
    witnesses = transaction.witnesses.values()
    return bool(witnesses) and all(each.incarnation is not None for each in witnesses)


def with_member(replica: Replica, transaction: Transaction, member: Member, now: float) -> Replica:
    """Return the replica as the record of its transaction has it; its pods tell what happened since."""
    node = _locate(replica.name, transaction) if member.node is None else member.node
    phase, purpose = _PHASES[member.phase], _PURPOSES[member.purpose]
    active = phase in {Phase.RUNNING, Phase.STARTING}
    leaving = None
    if active and purpose is not None:
        leaving = note_told_to_end(replica, transaction, now)
        if purpose in _FOR_GOOD:
            leaving = msgspec.structs.replace(leaving, purpose=purpose)
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


def note_told_to_end(replica: Replica, transaction: Transaction, now: float) -> Leaving:
    """Return that a replica was told to end for a transaction."""
    return Leaving(
        purpose=purpose_of(transaction, replica.name),
        since=now if transaction.changing_at is None else transaction.changing_at,
        deadline=transaction.deadline,
        reason=f"{transaction.id}: {transaction.note or transaction.reason}",
    )


def _locate(name: str, transaction: Transaction) -> str:
    """Return where a replica is that a transaction is about, as long as nobody says something else."""
    nodes = (transaction.wanted.get(name), transaction.before.get(name), transaction.after.get(name))
    return next((node for node in nodes if node is not None), "")
