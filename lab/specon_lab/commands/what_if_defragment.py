"""`specon what-if --defragment`: which moves would make room or jobs faster, before they are made.

As JSON, one object (docs/simulate.md): `schema` 1; `versions`; `state`; `margin`; `jobs`; `faster`.
"""

from collections.abc import Mapping, Sequence
from typing import Final, Literal

import msgspec
from msgspec import Struct
from rich.console import Console

from specon_lab.commands.what_if_result import StateSize, size_of, versions
from specon_lab.forecasts.faster import FasterElsewhere, faster_elsewhere
from specon_lab.forecasts.room_making import Goes, RoomForOne, room_making
from specon_manager.core.state import State
from specon_manager.views.amounts import resources_text, span_text
from specon_manager.views.names import job_label, printable, short_name
from specon_sidecar.counts import format_count

_UNIT: Final = "weighted replica-seconds"


class Scattered(StateSize, frozen=True, kw_only=True):
    """What the state says of room that is scattered."""

    defragment: str
    """As it is set."""


class RoomMaking(Struct, frozen=True, kw_only=True):
    """The answer."""

    schema: Literal[1] = 1
    versions: Mapping[str, str]
    state: Scattered
    margin: float | None
    """How many times its price the gain has to be; None where the gate is off."""
    jobs: tuple[RoomForOne, ...]
    """Waiting jobs for which all free room together would do, oldest first."""
    faster: tuple[FasterElsewhere, ...]
    """Jobs that are known to train faster in another setup than theirs, by name."""


def answer(state: State, now: float) -> RoomMaking:
    """Return everything that is told."""
    settings = state.settings
    return RoomMaking(
        versions=versions(),
        state=Scattered(defragment=settings.defragment, **size_of(state, len(state.snapshot(now).waiting))),
        margin=settings.gate.margin if settings.gate.enabled else None,
        jobs=room_making(state, now),
        faster=faster_elsewhere(state, now),
    )


def to_json(found: RoomMaking) -> bytes:
    """Return the answer as indented JSON that ends in a newline."""
    return msgspec.json.format(msgspec.json.encode(found), indent=2) + b"\n"


def print_room_making(found: RoomMaking, console: Console, *, most: int) -> None:
    """Print what could be done for at most so many jobs, with at most so many lines of each."""
    state = found.state
    _print(
        console,
        f"policy {printable(state.policy)}, {state.nodes_ready} of"
        f" {format_count(state.nodes, 'node')} ready, "
        f"{format_count(state.waiting, 'job')} waiting; defragment is {state.defragment}",
    )
    if not found.jobs:
        _print(console, "no job waits for room that is there and only scattered")
    _print_parts([_lines(each, most) for each in found.jobs], console, most)
    _print_parts([_lines_of_faster(each, most) for each in found.faster], console, most)


def _print_parts(parts: Sequence[Sequence[str]], console: Console, most: int) -> None:
    for lines in parts[:most]:
        console.print()
        for line in lines:
            _print(console, line)
    if len(parts) > most:
        _print(console, f"and {format_count(len(parts) - most, 'job')} more (--top {len(parts)})")


def _lines_of_faster(found: FasterElsewhere, most: int) -> list[str]:
    here, there = printable(str(found.setup)), printable(str(found.setup_then))
    lines = [
        (
            f"{job_label(found.job)}, {_count(found.setup.workers, 'worker')} on {here}, would be faster on"
            f" {there}: {found.seconds_per_step_then:.3g} s for a step rather than"
            f" {found.seconds_per_step:.3g} s (measured {found.measured_then} and"
            f" {format_count(found.measured, 'time')})"
        ),
        (
            f"  price {found.price:.1f}, it saves {100 * found.saves:.0f} % of its time at least, worth"
            f" {found.gain:.1f} ({_UNIT})"
        ),
    ]
    if found.replicas:
        ways = ", ".join(_way(each) for each in found.replicas[:most])
        whole = f"; all {found.restarts} of {job_label(found.job)} start again" if found.restarts > 1 else ""
        lines.append(f"  {ways}{whole}")
    return [*lines, _verdict(done=found.done, reason=found.reason)]


def _verdict(*, done: bool, reason: str) -> str:
    return "  it would be done" if done else f"  it would not be done: {printable(reason)}"


def _lines(found: RoomForOne, most: int) -> list[str]:
    waits = span_text(found.waits_seconds)
    head = f"{job_label(found.job)}, {_count(found.replicas, 'replica')}, waits for {waits}"
    if found.price is None:
        return [f"{head}: {printable(found.reason)}"]
    lines = [
        (
            f"{head}: {_count(len(found.moves), 'move')} would make room, in"
            f" {_count(max(move.round for move in found.moves), 'round')}"
        ),
        (
            f"  price {found.price:.1f}, its start is worth {found.gain:.1f} ({_UNIT});"
            f" {'nothing cheaper would do' if found.exact else 'found by the heuristic'}"
        ),
    ]
    for move in found.moves[:most]:
        ways = ", ".join(_way(each) for each in move.replicas[:most])
        whole = f"; all {move.restarts} of {job_label(move.subject)} start again" if move.restarts > 1 else ""
        lines.append(f"  round {move.round}: {ways}{whole}, price {move.price:.1f}")
    if len(found.moves) > most:
        lines.append(f"  and {format_count(len(found.moves) - most, 'more move')}")
    for node in found.frees[:most]:
        now, then = resources_text(node.free_now), resources_text(node.free_then)
        room = f"{now} free now, {then} then, for {_count(node.replicas, 'replica')}"
        lines.append(f"  {printable(node.node)}: {room}")
    if len(found.frees) > most:
        lines.append(f"  and {format_count(len(found.frees) - most, 'more node')}")
    return [*lines, _verdict(done=found.done, reason=found.reason)]


def _way(goes: Goes) -> str:
    return f"{short_name(goes.replica)} {printable(goes.source)} -> {printable(goes.target)}"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _print(console: Console, text: str) -> None:
    console.print(text, markup=False, highlight=False, soft_wrap=True)
