"""What the owner of a manager asks for by HTTP: a move, a pause, its end; `step` judges.

Each is answered once it would survive the manager; NotRecordedError says that this cannot be said.
"""

import secrets
from typing import Annotated, Final, NamedTuple, TypeVar

import msgspec
from msgspec import Meta, Struct

from specon_manager.core.state import State
from specon_manager.model.events import MoveRequested, Paused
from specon_manager.model.moves import Move, MoveState
from specon_manager.runtime.controller import Controller

ELSEWHERE: Final = (
    "nothing is ordered here: ask for a move by a Migration, for a pause by the annotation specon.io/paused "
    "of the manager's Lease; specon migrate and specon pause do that"
)
"""What a manager on Kubernetes answers: who may write which object is finer than one owner's token."""


class MoveWanted(Struct, frozen=True, forbid_unknown_fields=True):
    """Asked: a replica, the node to move it to (without one the manager chooses), and why."""

    replica: Annotated[str, Meta(min_length=1, max_length=600)]
    target: Annotated[str, Meta(min_length=1, max_length=253)] | None = None
    reason: Annotated[str, Meta(max_length=1024)] = ""


class MoveBegun(Struct, frozen=True):
    """Answered: the id of the move, from where to where it goes, and its state."""

    move: str
    replica: str
    source: str
    target: str
    state: MoveState


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
    """Begin a move: 201 once it has begun, 409 and what speaks against it, 422."""
    wanted = _decoded(body, MoveWanted)
    if isinstance(wanted, Refused):
        return Answer(422, wanted)
    name = f"request-{secrets.token_hex(4)}"
    asked = MoveRequested(id=name, replica=wanted.replica, target=wanted.target, reason=wanted.reason)
    move = _move_named(await controller.record(asked), name)
    if move is None:
        return Answer(503, Refused(f"{name} was asked for, and nothing is known of it"))
    if not move.in_flight:
        return Answer(409, Refused(move.note))
    return Answer(201, MoveBegun(move.id, move.replica, move.source, move.target, move.state))


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


def _move_named(state: State, name: str) -> Move | None:
    """Return the move of that id; one that has just ended is among the last of the history."""
    flying = (move for move in state.moves.values() if move.id == name)
    return next(flying, None) or next((move for move in reversed(state.history) if move.id == name), None)


T = TypeVar("T", bound=Struct)


def _decoded(body: bytes, kind: type[T]) -> T | Refused:
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return Refused(str(error))
