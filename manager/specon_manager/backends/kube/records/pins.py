"""Where the next pod of a replica is to run, as Migrations and TrainingJobs say. Pure."""

from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from specon_manager.backends.kube.objects.fields import mappings
from specon_manager.backends.kube.objects.names import Name, namespace_of
from specon_manager.backends.kube.records.external import ChangeKind, ChangeState, MoveState, to_first_kind
from specon_manager.backends.kube.records.migration_record import Migrated, read_migration
from specon_manager.backends.kube.records.records import is_replica, metadata_of, part_of
from specon_manager.backends.kube.transport.resources import Object
from specon_manager.model.transactions import Kind

PINNING_STATES: Final = frozenset({MoveState.EVICTING, MoveState.RESTORING, MoveState.VERIFYING})
"""From the moment the present pod is told to end until its successor has proven itself.

A pod that was told so may go in *Checkpointing* too: a new leader asks again where a checkpoint is stale.
"""
ARRIVING_STATES: Final = frozenset({MoveState.EVICTING, MoveState.RESTORING})
"""While the successor of the present pod is awaited: its room is handed over to it before it is scheduled."""
PINNING_CHANGES: Final = frozenset({ChangeState.LEAVING, ChangeState.COMING, ChangeState.VERIFYING})
"""While replicas are to start, and until the job has shown that it trains: one may crash meanwhile.

Where all of it starts again, also while it leaves: its first pod may be created before the standby whose
webhook is asked for it has seen that it may come.
"""
ARRIVING_CHANGES: Final = frozenset({ChangeState.LEAVING, ChangeState.COMING})
"""While successors of a gang that moves are awaited."""
_MOVES: Final = frozenset({ChangeKind.MOVE, to_first_kind(Kind.MOVE)})
"""What a move of all of a job is called; the first schema's word is of what has nothing coming otherwise."""
_MOST: Final = 100_000
"""Pins of one job that are read: as many as it may have workers."""
_LABEL: Final = 63
"""Characters of a label's value, and so of a hostname in a node selector."""


NAME_TAKEN: Final = "there was a Migration "
"""How the refusal of a request begins whose name another one had before."""


class Glance(Struct, frozen=True, kw_only=True, gc=False):
    """What every manager keeps of a Migration, the leading one and those that stand by."""

    name: Name
    uid: str
    replica: str | None
    state: MoveState | None
    hostname: str | None
    """Value of the label kubernetes.io/hostname to which the next pod of the replica is pinned."""
    updated_at: float = 0.0
    asked: bool = False
    """Whether somebody asks for this move and nobody has looked at it yet."""
    pod: str | None = None
    """The pod that is to move, where the replica is not named."""
    job: str = ""
    """The job that is to move as a whole, where it is none of them."""
    targets: tuple[str, ...] = ()
    target: str | None = None
    reason: str = ""
    leave: str = ""
    """The node that it is to leave."""
    evicted: str = ""
    """NAME/UID of the pod whose eviction it was."""
    created_at: float = 0.0
    ended_at: float = 0.0
    purpose: str = ""
    message: str = ""
    told: bool = False
    """Whether the present pod was told to end: it may be gone at any moment, whatever is asked since."""


def glance(item: Object) -> Glance:
    """Return the kept facts of a Migration; nonsense in it is as if it were not there."""
    read, _ = read_migration(item)
    spec = item.get("spec")
    spec = spec if isinstance(spec, dict) else {}
    status = read.status
    return Glance(
        name=read.name,
        uid=read.uid,
        replica=None if status.job is not None else read.replica,
        state=status.state,
        hostname=status.destination_hostname or status.destination,
        updated_at=0.0 if status.updated_at is None else status.updated_at.timestamp(),
        asked=is_asked(read),
        pod=_text(spec.get("pod")),
        job=read.job,
        targets=read.targets,
        target=_text(spec.get("target")),
        reason=_text(spec.get("reason")) or "",
        leave=read.leave,
        evicted=read.evicted,
        created_at=read.created_at,
        ended_at=0.0 if status.ended_at is None else status.ended_at.timestamp(),
        purpose=status.purpose or "",
        message=status.message or "" if read.evicted else "",
        told=status.evicted_at is not None,
    )


def is_asked(migration: Migrated) -> bool:
    """Whether somebody made it, and no manager has written anything into it."""
    status = migration.status
    return not migration.ours and status.state is None and status.manager is None


def is_queued(migration: Migrated) -> bool:
    """Whether somebody asks for the move, and a manager has said what it waits for."""
    return is_asked(migration) and migration.status.proposed_at is not None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def pins_of(glances: Iterable[Glance]) -> dict[str, str]:
    """Return the hostname by replica for which a move is at work; of two Migrations the one written last."""
    pins: dict[str, str] = {}
    for each in sorted(glances, key=lambda each: (each.updated_at, str(each.name))):
        if each.replica is not None and each.hostname and _is_pinned(each):
            pins[each.replica] = each.hostname
    return pins


def _is_pinned(seen: Glance) -> bool:
    return seen.state in PINNING_STATES or (seen.state is MoveState.CHECKPOINTING and seen.told)


class JobGlance(Struct, frozen=True, kw_only=True, gc=False):
    """What every manager keeps of a TrainingJob."""

    name: Name
    uid: str
    pins: tuple[tuple[str, str], ...] = ()
    """Replica and hostname label, while a change brings pods about."""
    moving: bool = False
    """Whether these are awaited by a move of all of the job."""


def job_glance(item: Object) -> JobGlance:
    """Return the kept facts of a TrainingJob; nonsense in it is as if it were not there.

    A TrainingJob speaks for replicas of its own namespace only: its writers decide nothing
    about the pods of others.
    """
    name, _ = metadata_of(item)
    status = part_of(item, "status")
    pins: list[tuple[str, str]] = []
    change = part_of(status, "change")
    state = _text(change.get("state"))
    if state in PINNING_CHANGES:
        for pin in mappings(status.get("pins"))[:_MOST]:
            replica, hostname = _text(pin.get("replica")), _text(pin.get("hostname"))
            if replica is None or hostname is None or len(hostname) > _LABEL:
                continue
            if is_replica(replica) and namespace_of(replica) == name.namespace:
                pins.append((replica, hostname))
    uid = part_of(item, "metadata").get("uid")
    moving = _text(change.get("kind")) in _MOVES and state in ARRIVING_CHANGES
    return JobGlance(name=name, uid=str(uid or ""), pins=tuple(pins), moving=moving)


def arriving(glances: Iterable[Glance | JobGlance]) -> frozenset[str]:
    """Return the replicas whose next pod a move awaits: that pod is kept from the scheduler at first."""
    found = set[str]()
    for each in glances:
        if isinstance(each, JobGlance):
            found.update(replica for replica, _ in each.pins if each.moving)
        elif each.replica is not None and each.state in ARRIVING_STATES:
            found.add(each.replica)
    return frozenset(found)


def job_pins_of(glances: Iterable[JobGlance]) -> dict[str, str]:
    """Return the hostname by replica for which a change of a job is at work."""
    pins: dict[str, str] = {}
    for each in sorted(glances, key=lambda each: str(each.name)):
        pins.update(each.pins)
    return pins
