"""Which moves would make room for the jobs that wait, at which price, and what they free. Pure."""

from itertools import islice
from typing import Final

from msgspec import Struct

from specon_manager.core import defragment
from specon_manager.core.admission_gate import prepare
from specon_manager.core.state import State
from specon_manager.model.resources import Resources
from specon_manager.policies.defragmentation.picture import Move, Picture, WholeAmount, rooms_after
from specon_manager.policies.defragmentation.search import Plan, rounds

MOST_JOBS: Final = 50
"""Waiting jobs for which moves are looked for, the oldest first."""
_MILLION: Final = 1_000_000


class Goes(Struct, frozen=True, kw_only=True):
    """One replica that changes its node."""

    replica: str
    source: str
    target: str


class PlannedMove(Struct, frozen=True, kw_only=True):
    """One move of a plan: of a replica, or of a gang."""

    subject: str
    """The replica, or the job where all of it starts again."""
    round: int
    """From 1: those of a round begin at the same time."""
    price: float
    """Weighted replica-seconds."""
    restarts: int
    """How many replicas it ends and starts again."""
    replicas: tuple[Goes, ...]


class Freed(Struct, frozen=True, kw_only=True):
    """A node to which the waiting job would go."""

    node: str
    replicas: int
    """How many of the waiting job."""
    free_now: Resources
    free_then: Resources


class RoomForOne(Struct, frozen=True, kw_only=True):
    """What could be done for one waiting job."""

    job: str
    waits_seconds: float
    replicas: int
    """Of its smallest gang."""
    done: bool
    """Whether the manager would do it, if it is set to."""
    reason: str
    """Why it would not; empty where it would."""
    price: float | None
    """Of all moves, weighted replica-seconds; None where no moves were found."""
    gain: float
    """What its start is worth within the gate's horizon, weighted replica-seconds."""
    exact: bool | None
    """Whether nothing cheaper would do; None where no moves were found."""
    moves: tuple[PlannedMove, ...]
    frees: tuple[Freed, ...]


def room_making(state: State, now: float) -> tuple[RoomForOne, ...]:
    """Return what moves could do for each waiting job for which all free room together would do.

    Jobs that have room without any are left out. Nothing is changed, and nothing that is remembered counts.
    """
    state, snapshot = prepare(state.flatten(), now)
    found = islice(defragment.outlooks(state, snapshot), MOST_JOBS)
    return tuple(_of(each, state, now) for each in found if each.plan is None or each.plan.moves)


def _of(outlook: defragment.Outlook, state: State, now: float) -> RoomForOne:
    plan, picture = outlook.plan, outlook.picture
    return RoomForOne(
        job=outlook.job,
        waits_seconds=max(0.0, now - state.jobs[outlook.job].queued_at),
        replicas=sum(len(group.names) for group in picture.waiting.groups),
        done=outlook.objection is None,
        reason="" if outlook.objection is None else outlook.objection.text,
        price=None if plan is None else plan.price,
        gain=outlook.gain,
        exact=None if plan is None else plan.exact,
        moves=() if plan is None else _moves(picture, plan, state),
        frees=() if plan is None else _frees(picture, plan),
    )


def _moves(picture: Picture, plan: Plan, state: State) -> tuple[PlannedMove, ...]:
    budgets = state.settings.budgets
    most, per_node = budgets.moves_at_once, budgets.moves_at_once_per_node
    turns = rounds(picture, plan, most=most, per_node=per_node) or [[move] for move in plan.moves]
    return tuple(_move(picture, move, number) for number, turn in enumerate(turns, 1) for move in turn)


def _move(picture: Picture, move: Move, number: int) -> PlannedMove:
    unit = move.unit
    ways = zip(unit.replicas, unit.homes, move.targets, strict=True)
    return PlannedMove(
        subject=unit.name,
        round=number,
        price=unit.price,
        restarts=len(unit.replicas),
        replicas=tuple(
            Goes(replica=name, source=picture.nodes[home], target=picture.nodes[target])
            for name, home, target in ways
            if home != target
        ),
    )


def _frees(picture: Picture, plan: Plan) -> tuple[Freed, ...]:
    rooms = rooms_after(picture.rooms, *plan.moves) or picture.rooms
    nodes = list(plan.placement.values())
    return tuple(
        Freed(
            node=name,
            replicas=nodes.count(name),
            free_now=_resources(picture.rooms[number]),
            free_then=_resources(rooms[number]),
        )
        for number, name in enumerate(picture.nodes)
        if name in plan.placement.values()
    )


def _resources(room: WholeAmount) -> Resources:
    cpu, memory, gpu = (max(0, part) for part in room)
    return Resources(cpu=cpu / _MILLION, memory=float(memory), gpu=gpu / _MILLION)
