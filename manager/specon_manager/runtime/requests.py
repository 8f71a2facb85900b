"""What the owner of a manager asks for by HTTP: a move, its withdrawal, a pause, its end; `step` judges.

Each is answered once it would survive the manager; NotRecordedError says that this cannot be said.
"""

import hashlib
import re
import secrets
from collections.abc import Mapping
from typing import Annotated, Final, NamedTuple, TypeVar

import msgspec
from msgspec import Meta, Struct

from specon_manager.core.state import State
from specon_manager.model.events import MoveRequested, Paused, RequestWithdrawn
from specon_manager.model.transactions import FINAL_STATES, TransactionState
from specon_manager.runtime.controller import Controller
from specon_manager.views.transactions import TransactionRow, row_of, row_of_request
from specon_manager.views.words import QUEUED

ELSEWHERE: Final = (
    "nothing is ordered here: ask for a move by a Migration, for a pause by the annotation specon.io/paused "
    "of the manager's Lease; specon migrate and specon pause do that"
)
"""What a manager on Kubernetes answers: who may write which object is finer than one owner's token."""
_FINAL: Final = frozenset(str(state) for state in FINAL_STATES)
_DIGEST: Final = 8  # characters of what a request says, in the name of its move
_LONGEST_NAME: Final = 200  # characters of an unknown name in an answer


NodeName = Annotated[str, Meta(min_length=1, max_length=253)]


class MoveWanted(Struct, frozen=True, forbid_unknown_fields=True):
    """Asked: a replica and its target, or a whole job and the nodes that it may go to; without, anywhere."""

    replica: Annotated[str, Meta(min_length=1, max_length=600)] | None = None
    target: NodeName | None = None
    job: Annotated[str, Meta(min_length=1, max_length=600)] | None = None
    targets: Annotated[tuple[NodeName, ...], Meta(max_length=1000)] = ()
    reason: Annotated[str, Meta(max_length=1024)] = ""
    id: Annotated[str, Meta(max_length=100, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*\Z")] | None = None
    """The asker's own: under it the same is done once, however often it is asked for."""

    def __post_init__(self) -> None:
        """Raise ValueError where it names no subject, or two, or another's nodes."""
        if (self.replica is None) == (self.job is None):
            raise ValueError("name either a replica or a job")
        if self.job is not None and self.target is not None:
            raise ValueError("a job has targets, and no target")
        if self.replica is not None and self.targets:
            raise ValueError("a replica has a target, and no targets")

    def name(self) -> str:
        """Return the id of its move: the same for the same request under the same id."""
        if self.id is None:
            return f"request-{secrets.token_hex(4)}"
        anonymous = msgspec.structs.replace(self, id=None)
        return f"request-{self.id}-{hashlib.sha256(msgspec.json.encode(anonymous)).hexdigest()[:_DIGEST]}"


class MoveTold(Struct, frozen=True, kw_only=True):
    """Answered: the id of the move, from where to where it goes, and its state; "" is not known yet."""

    move: str
    replica: str
    """Empty where a whole job is moved."""
    job: str
    source: str
    """Of a whole job: its nodes, between commas."""
    target: str
    what: str
    """From where to where, in words; of a whole job also how many replicas it has."""
    state: str
    """Of a transaction; or Queued."""
    waits_for: str = ""
    """What a queued one waits for, in words."""
    note: str = ""
    """Why it ended as it did."""


class PauseWanted(Struct, frozen=True, forbid_unknown_fields=True):
    """Asked: why nothing new is to be ordered."""

    reason: Annotated[str, Meta(max_length=512)] = ""


class PauseTold(Struct, frozen=True):
    """Answered: whether the manager is paused, and why."""

    paused: bool
    reason: str


class Refused(Struct, frozen=True):
    """Answered: the mistake, in words."""

    error: str


class Response(NamedTuple):
    """A status of HTTP, and its text."""

    status: int
    body: Struct


async def ask_for_move(body: bytes, controller: Controller, asking: dict[str, str]) -> Response:
    """Begin a move: 201 once it has begun, 202 where it is queued, 409 and the objection, 422, 503.

    `asking` has the names of the requests that are not on record yet, by the asker's ids.
    """
    wanted = _decode(body, MoveWanted)
    if isinstance(wanted, Refused):
        return Response(422, wanted)
    name = wanted.name()
    if wanted.id is not None and (other := _under(wanted.id, controller.state, asking)) not in {None, name}:
        return Response(409, Refused(f"id: {wanted.id!r} is that of another request, {other}"))
    key = wanted.id or name
    asking[key] = name
    try:
        # Where it is known already, too: it may have begun a moment ago, and not be on record yet.
        told = _find_move(await controller.record(_event(wanted, name)), name)
    finally:
        asking.pop(key, None)
    if told is None:
        return Response(503, Refused(f"{name} was asked for, and nothing is known of it"))
    if told.state == QUEUED:
        return Response(202, told)
    if told.state == TransactionState.REFUSED:
        return Response(409, Refused(told.note))
    return Response(201, told)


async def withdraw(name: str, controller: Controller) -> Response:
    """Withdraw the request for a move: 200 once it is, 409 where it has begun or ended, 404, 503."""
    told = _find_move(controller.state, name)
    if told is None:
        return Response(404, Refused(f"there is no request {name[:_LONGEST_NAME]!r}"))
    if told.state != QUEUED:
        return Response(409, Refused(f"{name} is no request any more: it is {told.state}"))
    told = _find_move(await controller.record(RequestWithdrawn(id=name)), name)
    if told is None or told.state == QUEUED:
        return Response(503, Refused("it was asked for, and nothing is known of it"))
    if told.state not in _FINAL:
        return Response(409, Refused(f"{name} has begun meanwhile: it is {told.state}"))
    return Response(200, told)


async def pause(body: bytes, controller: Controller) -> Response:
    """Let nothing new be ordered: 200 once that holds, 422."""
    wanted = _decode(body or b"{}", PauseWanted)
    if isinstance(wanted, Refused):
        return Response(422, wanted)
    return await _set_pause(controller, " ".join(wanted.reason.split()))


async def resume(controller: Controller) -> Response:
    """End the pause: 200 once that holds, and where there was none."""
    return await _set_pause(controller, None)


async def _set_pause(controller: Controller, reason: str | None) -> Response:
    await controller.record(Paused(reason=reason))
    return Response(200, PauseTold(reason is not None, reason or ""))


def _event(wanted: MoveWanted, name: str) -> MoveRequested:
    return MoveRequested(
        id=name,
        replica=wanted.replica or "",
        target=wanted.target,
        job=wanted.job or "",
        targets=wanted.targets,
        reason=wanted.reason,
    )


def _under(key: str, state: State, asking: Mapping[str, str]) -> str | None:
    """Return the request that somebody made under an id of their own; None where nobody did."""
    known = (*asking.values(), *state.requests, *state.transactions, *(each.id for each in state.history))
    ours = re.compile(rf"request-{re.escape(key)}-[0-9a-f]{{{_DIGEST}}}")
    return next((name for name in known if ours.fullmatch(name)), None)


def _find_move(state: State, name: str) -> MoveTold | None:
    """Return the record of the move of that id; one that has just ended is at the end of the history."""
    if (request := state.requests.get(name)) is not None:
        return _describe_move(row_of_request(request, state))
    known = state.transactions.get(name) or next((e for e in reversed(state.history) if e.id == name), None)
    return None if known is None else _describe_move(row_of(known, state))


def _describe_move(row: TransactionRow) -> MoveTold:
    return MoveTold(
        move=row.id,
        replica=row.replica or "",
        job=row.job,
        source=row.source or "",
        target=row.target or "",
        what=row.what,
        state=row.state,
        waits_for=row.awaited if row.state == QUEUED else "",
        note=row.note if row.ended else "",
    )


T = TypeVar("T", bound=Struct)


def _decode(body: bytes, kind: type[T]) -> T | Refused:
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return Refused(str(error))
