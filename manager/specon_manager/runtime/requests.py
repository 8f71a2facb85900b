"""What the owner of a manager asks for by HTTP: a move, its withdrawal, a pause, its end; `step` judges.

Each is answered once it would survive the manager; NotRecordedError says that this cannot be said.
"""

import secrets
from typing import Annotated, Final, NamedTuple, TypeVar

import msgspec
from msgspec import Meta, Struct

from specon_manager.core.state import State
from specon_manager.model.events import MoveRequested, Paused, RequestWithdrawn
from specon_manager.model.transactions import FINAL_STATES, Transaction
from specon_manager.runtime.controller import Controller
from specon_manager.views.words import QUEUED

ELSEWHERE: Final = (
    "nothing is ordered here: ask for a move by a Migration, for a pause by the annotation specon.io/paused "
    "of the manager's Lease; specon migrate and specon pause do that"
)
"""What a manager on Kubernetes answers: who may write which object is finer than one owner's token."""
_FINAL: Final = frozenset(str(state) for state in FINAL_STATES)
_LONGEST_NAME: Final = 200  # of what is said of a name that nobody knows


class MoveWanted(Struct, frozen=True, forbid_unknown_fields=True):
    """Asked: a replica, the node to move it to (without one the manager chooses), and why."""

    replica: Annotated[str, Meta(min_length=1, max_length=600)]
    target: Annotated[str, Meta(min_length=1, max_length=253)] | None = None
    reason: Annotated[str, Meta(max_length=1024)] = ""


class MoveTold(Struct, frozen=True, kw_only=True):
    """Answered: the id of the move, from where to where it goes, and its state; "" is not known yet."""

    move: str
    replica: str
    source: str
    target: str
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
    """Answered: what is wrong, in words."""

    error: str


class Answer(NamedTuple):
    """A status of HTTP, and what is said with it."""

    status: int
    body: Struct


async def ask_for_move(body: bytes, controller: Controller) -> Answer:
    """Begin a move: 201 once it has begun, 202 where it is queued, 409 and what is against it, 422, 503."""
    wanted = _decoded(body, MoveWanted)
    if isinstance(wanted, Refused):
        return Answer(422, wanted)
    name = f"request-{secrets.token_hex(4)}"
    asked = MoveRequested(id=name, replica=wanted.replica, target=wanted.target, reason=wanted.reason)
    told = _told(await controller.record(asked), name)
    if told is None:
        return Answer(503, Refused(f"{name} was asked for, and nothing is known of it"))
    if told.state == QUEUED:
        return Answer(202, told)
    if told.state in _FINAL:
        return Answer(409, Refused(told.note))
    return Answer(201, told)


async def withdraw(name: str, controller: Controller) -> Answer:
    """Withdraw the request for a move: 200 once it is, 409 where it has begun or ended, 404, 503."""
    told = _told(controller.state, name)
    if told is None:
        return Answer(404, Refused(f"there is no request {name[:_LONGEST_NAME]!r}"))
    if told.state != QUEUED:
        return Answer(409, Refused(f"{name} is no request any more: it is {told.state}"))
    told = _told(await controller.record(RequestWithdrawn(id=name)), name)
    if told is None or told.state == QUEUED:
        return Answer(503, Refused("it was asked for, and nothing is known of it"))
    if told.state not in _FINAL:
        return Answer(409, Refused(f"{name} has begun meanwhile: it is {told.state}"))
    return Answer(200, told)


async def pause(body: bytes, controller: Controller) -> Answer:
    """Let nothing new be ordered: 200 once that holds, 422."""
    wanted = _decoded(body or b"{}", PauseWanted)
    if isinstance(wanted, Refused):
        return Answer(422, wanted)
    return await _set_pause(controller, " ".join(wanted.reason.split()))


async def resume(controller: Controller) -> Answer:
    """End the pause: 200 once that holds, and where there was none."""
    return await _set_pause(controller, None)


async def _set_pause(controller: Controller, reason: str | None) -> Answer:
    await controller.record(Paused(reason=reason))
    return Answer(200, PauseTold(reason is not None, reason or ""))


def _told(state: State, name: str) -> MoveTold | None:
    """Return what is known of the move of that id; one that has just ended is at the end of the history."""
    if (request := state.requests.get(name)) is not None:
        record = state.replicas.get(request.replica)
        return MoveTold(
            move=name,
            replica=request.replica,
            source="" if record is None else record.node or "",
            target=request.target or "",
            state=QUEUED,
            waits_for=request.waits_for,
        )
    known = state.transactions.get(name) or next((e for e in reversed(state.history) if e.id == name), None)
    return None if known is None else _told_of(known)


def _told_of(move: Transaction) -> MoveTold:
    return MoveTold(
        move=move.id,
        replica=move.replica,
        source=move.source,
        target=move.target,
        state=str(move.state),
        note="" if move.in_flight else move.note,
    )


T = TypeVar("T", bound=Struct)


def _decoded(body: bytes, kind: type[T]) -> T | Refused:
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return Refused(str(error))
