"""`specon drain`: checkpointed moves of everything that can be moved off a node, before its maintenance."""

import argparse
import asyncio
import sys
import time
from collections.abc import Callable
from typing import Final

from msgspec import Struct

from specon_manager.cli import printable
from specon_manager.cli.drain_plan import Leaves, leaves, on_node
from specon_manager.cli.follow_move import LOOK_SECONDS, looked_at
from specon_manager.cli.migrate import check_timeout
from specon_manager.cli.moves import sentence
from specon_manager.cli.remote.choice import add_remote_arguments, run_remote
from specon_manager.cli.remote.remote import MoveRow, RefusedError, Remote, View, to_json
from specon_manager.cli.run import UsageError
from specon_manager.core.pause import objection_while_paused
from specon_manager.core.plan import BUSY

_SECONDS: Final = 3600.0
_AGAIN_SECONDS: Final = 10.0
"""Before a request is made again that others' moves were in the way of."""


class Stays(Struct, frozen=True):
    """A replica that does not leave the node, and why."""

    replica: str
    why: str


class Drained(Struct, frozen=True, kw_only=True):
    """What `specon drain --output json` prints."""

    manager: str
    node: str
    dry_run: bool
    cordoned: bool | None
    """None where nodes cannot be cordoned."""
    would_move: tuple[MoveRow, ...] = ()
    """Of a dry run."""
    moves: tuple[MoveRow, ...] = ()
    """Those that were begun."""
    waiting: tuple[str, ...] = ()
    """Replicas that can leave once other moves have ended."""
    leaving: tuple[str, ...] = ()
    """Replicas that another move takes away."""
    stay: tuple[Stays, ...] = ()
    caveats: tuple[str, ...] = ()

    @property
    def empty(self) -> bool:
        """Whether everything that can be moved by us has left, or (dry run) would."""
        return not self.stay and not self.waiting and all(move.succeeded for move in self.moves)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument("node", help="the node that is to be empty")
    parser.add_argument("--to", metavar="NODE", help="where to (the manager chooses for each)")
    parser.add_argument("--reason", default="", help="kept with the moves (drain of NODE)")
    parser.add_argument(
        "--dry-run", action="store_true", help="say what would move and what not; touch nothing"
    )
    parser.add_argument(
        "--wait", action="store_true", help="go on until all have left: budgets let only some move at a time"
    )
    parser.add_argument(
        "--timeout", type=float, default=_SECONDS, metavar="SECONDS", help="wait no longer (3600)"
    )
    add_remote_arguments(parser)


def main(arguments: argparse.Namespace) -> int:
    """Drain; 0 when the node is (dry run: would be) left, or is being left without `--wait`, else 1."""
    check_timeout(arguments.timeout)
    return run_remote(arguments, lambda remote: _main(remote, arguments))


async def _main(remote: Remote, arguments: argparse.Namespace) -> int:
    node = arguments.node
    view = await remote.whole(lambda state: on_node(state, node))
    if node not in view.state.nodes:
        raise UsageError(
            f"there is no node {node!r}; there are {', '.join(sorted(view.state.nodes)) or 'none'}"
        )
    pause = objection_while_paused(view.state)
    if pause is not None:
        raise RefusedError(f"{pause.text}; specon resume ends that, and then the drain can begin")
    cordoned = await remote.cordoned(node)
    plan = leaves(view.state, node, arguments.to, view.now)
    say = _Said(quiet=arguments.output == "json")
    if cordoned is False:
        say(f"{node} is not cordoned, so new pods may come: kubectl cordon {node}")
    if arguments.dry_run:
        drained = await _judged(remote, node, view, plan, cordoned=cordoned)
    else:
        asked = _Drain(remote, arguments, plan, say)
        await asked.run()
        drained = asked.told(view, cordoned=cordoned)
    if arguments.output == "json":
        sys.stdout.write(f"{to_json(drained)}\n")
    else:
        _summary(drained, say)
    if arguments.dry_run or arguments.wait:
        return 0 if drained.empty else 1
    return 1 if drained.stay or any(move.ended and not move.succeeded for move in drained.moves) else 0


async def _judged(remote: Remote, node: str, view: View, plan: Leaves, *, cordoned: bool | None) -> Drained:
    would, stay, caveats = [], dict(plan.stay), list(view.caveats)
    for name, target in plan.targets.items():
        objection, unknown = await remote.objection(name)
        if unknown and unknown not in caveats:
            caveats.append(unknown)
        if objection is not None:
            stay[name] = objection
        else:
            would.append(MoveRow(id="", replica=name, state="", source=node, target=target))
    return Drained(
        manager=remote.where,
        node=node,
        dry_run=True,
        cordoned=cordoned,
        would_move=tuple(would),
        leaving=plan.leaving,
        stay=_stays(stay),
        caveats=tuple(caveats),
    )


class _Said:
    """Prints a line, unless only JSON is wanted."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet

    def __call__(self, text: str) -> None:
        if not self._quiet:
            print(printable(text), flush=True)


class _Drain:
    """Asks for one move after the other: as many at a time as the manager's budgets allow."""

    def __init__(
        self, remote: Remote, arguments: argparse.Namespace, plan: Leaves, say: Callable[[str], None]
    ) -> None:
        self._remote, self._say = remote, say
        self._node, self._to, self._wait = arguments.node, arguments.to, arguments.wait
        self._reason = arguments.reason or f"drain of {arguments.node}"
        self._deadline = time.monotonic() + arguments.timeout
        self._waiting = list(plan.targets)
        self._leaving = plan.leaving
        self._stay = dict(plan.stay)
        self._moves: dict[str, MoveRow] = {}

    async def run(self) -> None:
        """Ask for all; with `--wait` until all have ended or there is no more time."""
        again_at = 0.0
        while time.monotonic() < self._deadline:
            if self._waiting and time.monotonic() >= again_at and await self._ask(self._waiting[0]):
                continue
            flying = [row for row in self._moves.values() if not row.ended]
            if not self._wait or not (self._waiting or flying):
                return
            again_at = again_at if time.monotonic() < again_at else time.monotonic() + _AGAIN_SECONDS
            await asyncio.sleep(LOOK_SECONDS)
            for row in flying:
                self._moves[row.id] = await looked_at(
                    self._remote, row, lambda changed: self._say(sentence(changed))
                )
                if self._moves[row.id].ended:
                    again_at = 0.0

    async def _ask(self, name: str) -> bool:
        """Ask for the move of a replica; False where it has to be asked for again later."""
        try:
            row = await self._remote.ask(name, self._to, self._reason)
        except RefusedError as refused:
            if BUSY in str(refused):
                return False
            self._stay[name] = str(refused)
        else:
            self._moves[row.id] = row
            self._say(sentence(row))
        self._waiting.remove(name)
        return True

    def told(self, view: View, *, cordoned: bool | None) -> Drained:
        """Return what came of it."""
        return Drained(
            manager=self._remote.where,
            node=self._node,
            dry_run=False,
            cordoned=cordoned,
            moves=tuple(self._moves.values()),
            waiting=tuple(self._waiting),
            leaving=self._leaving,
            stay=_stays(self._stay),
            caveats=view.caveats,
        )


def _stays(stay: dict[str, str]) -> tuple[Stays, ...]:
    return tuple(Stays(name, why) for name, why in sorted(stay.items()))


def _summary(drained: Drained, say: Callable[[str], None]) -> None:
    for row in drained.would_move:
        say(f"{row.replica} would be moved to {row.target}")
    for each in drained.stay:
        say(f"{each.replica} stays: {each.why}")
    for name in drained.leaving:
        say(f"{name} is being moved away already")
    if drained.waiting:
        names = ", ".join(drained.waiting)
        say(f"to be asked for when those have ended: {names}; run this again, or use --wait")
    for caveat in drained.caveats:
        say(f"but: {caveat}")
    if drained.dry_run:
        moved = f"{len(drained.would_move)} would leave"
    else:
        moved = f"{len(drained.moves)} moves asked for, {sum(move.succeeded for move in drained.moves)} done"
    say(f"{drained.node}: {moved}, {len(drained.stay)} stay")
    if drained.cordoned is not None:
        say("pods without a sidecar are not touched: kubectl drain is for those")
