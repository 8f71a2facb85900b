"""What the owner of a manager asks for by HTTP: a move, a pause, its end; `step` judges."""

import asyncio
import contextlib
import secrets
from collections.abc import Callable
from typing import Annotated, Final, NamedTuple, TypeVar

import msgspec
from msgspec import Meta, Struct

from specon_manager.core.state import State
from specon_manager.model.events import Event, MoveRequested, Paused
from specon_manager.model.transactions import Transaction, TransactionState
from specon_manager.runtime.controller import Controller, Stepped

ELSEWHERE: Final = (
    "nothing is ordered here: ask for a move by a Migration, for a pause by the annotation specon.io/paused "
    "of the manager's Lease; specon migrate and specon pause do that"
)
"""What a manager on Kubernetes answers: who may write which object is finer than one owner's token."""
_STEP_SECONDS: Final = 5.0


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
    state: TransactionState


class MoveQueued(Struct, frozen=True):
    """Answered: the id of a move that begins as soon as what it waits for is over."""

    move: str
    replica: str
    waits_for: str


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
    """Begin a move: 201 begun, 202 waits for others, 409 with what speaks against it, 422, 503."""
    wanted = _decoded(body, MoveWanted)
    if isinstance(wanted, Refused):
        return Answer(422, wanted)
    name = f"request-{secrets.token_hex(4)}"
    asked = MoveRequested(id=name, replica=wanted.replica, target=wanted.target, reason=wanted.reason)

    def known(state: State) -> bool:
        return name in state.requests or _move_named(state, name) is not None

    await _post(controller, asked, known)
    if (waiting := controller.state.requests.get(name)) is not None:
        return Answer(202, MoveQueued(name, waiting.replica, waiting.waits_for))
    move = _move_named(controller.state, name)
    if move is None:
        return Answer(503, Refused(f"{name} is asked for, but not looked at yet: see what becomes of it"))
    if not move.in_flight:
        return Answer(409, Refused(move.note))
    return Answer(201, MoveBegun(move.id, move.replica, move.source, move.target, move.state))


async def pause(body: bytes, controller: Controller) -> Answer:
    """Let nothing new be ordered: 200 once that holds, 422, 503 where it takes too long."""
    wanted = _decoded(body or b"{}", PauseWanted)
    if isinstance(wanted, Refused):
        return Answer(422, wanted)
    return await _set_pause(controller, " ".join(wanted.reason.split()))


async def resume(controller: Controller) -> Answer:
    """End the pause: 200 once that holds, and where there was none; 503 where it takes too long."""
    return await _set_pause(controller, None)


async def _set_pause(controller: Controller, reason: str | None) -> Answer:
    def holds(state: State) -> bool:
        return (None if state.pause is None else state.pause.reason) == reason

    if not holds(controller.state):
        await _post(controller, Paused(reason=reason), holds)
    if not holds(controller.state):
        return Answer(503, Refused("it is asked for, but the manager has not come to it yet: ask again"))
    return Answer(200, PauseTold(reason is not None, reason or ""))


async def _post(controller: Controller, event: Event, holds: Callable[[State], bool]) -> None:
    """Hand the event in, and return once the state is such, after a few seconds at the latest."""
    there = asyncio.Event()

    def observe(stepped: Stepped) -> None:
        if holds(stepped.after):
            there.set()

    controller.observers.append(observe)
    try:
        controller.post(event)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_STEP_SECONDS):
                await there.wait()
    finally:
        controller.observers.remove(observe)


def _move_named(state: State, name: str) -> Transaction | None:
    """Return the move of that id; one that has just ended is among the last of the history."""
    ended = (each for each in reversed(state.history) if each.id == name)
    return state.transactions.get(name) or next(ended, None)


T = TypeVar("T", bound=Struct)


def _decoded(body: bytes, kind: type[T]) -> T | Refused:
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return Refused(str(error))
