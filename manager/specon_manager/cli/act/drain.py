"""`specon drain`: checkpointed moves of everything that can be moved off a node, before its maintenance."""

import argparse
import asyncio
import sys
import time
from collections.abc import Callable
from typing import Final

from msgspec import Struct

from specon_manager.cli.act.drain_plan import Leaves, judge_moves, replicas_on_node
from specon_manager.cli.act.following import GONE, follow
from specon_manager.cli.act.migrate import check_timeout
from specon_manager.cli.output import to_json
from specon_manager.cli.remote.choice import add_remote_arguments, run_remote
from specon_manager.cli.remote.names import read_nodes
from specon_manager.cli.remote.remote import Remote, RequestRefusedError, Wanted
from specon_manager.core.pause import objection_while_paused
from specon_manager.usage import UsageError
from specon_manager.views.names import printable
from specon_manager.views.transaction_words import sentence
from specon_manager.views.transactions import TransactionRow, nodes_of, row_of_wish
from specon_manager.views.view import View
from specon_sidecar.counts import format_count

_SECONDS: Final = 3600.0
_AT_ONCE: Final = 8
"""How many are asked for at the same time: a manager of a cluster answers each when it looks at it."""


class Stays(Struct, frozen=True):
    """A replica, or a job that would leave as a whole, that does not leave the node, and why."""

    replica: str
    why: str


class Drained(Struct, frozen=True, kw_only=True):
    """What `specon drain --output json` prints."""

    manager: str
    node: str
    dry_run: bool
    cordoned: bool | None
    """None where nodes cannot be cordoned."""
    would_move: tuple[TransactionRow, ...] = ()
    """Of a dry run."""
    moves: tuple[TransactionRow, ...] = ()
    """Those that were asked for."""
    waiting: tuple[str, ...] = ()
    """Replicas, and jobs that leave as a whole, whose move is queued until others have ended."""
    leaving: tuple[str, ...] = ()
    """Replicas that something else in flight takes away."""
    stay: tuple[Stays, ...] = ()
    caveats: tuple[str, ...] = ()

    @property
    def empty(self) -> bool:
        """Whether everything that can be moved by us has left, or (dry run) would."""
        return not self.stay and not self.waiting and all(move.succeeded for move in self.moves)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument("node", help="the node to empty")
    parser.add_argument(
        "--to", metavar="NODE[,NODE]", help="target nodes; a gang goes to some of them (the manager chooses)"
    )
    parser.add_argument("--reason", default="", help="kept with the moves (drain of NODE)")
    parser.add_argument(
        "--dry-run", action="store_true", help="say what would move and what not; touch nothing"
    )
    parser.add_argument(
        "--wait", action="store_true", help="until all have left: budgets let only some move at a time"
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
    view = await remote.whole(lambda state: replicas_on_node(state, node))
    if node not in view.state.nodes:
        raise UsageError(
            f"there is no node {node!r}; there are {', '.join(sorted(view.state.nodes)) or 'none'}"
        )
    pause = objection_while_paused(view.state)
    if pause is not None:
        raise RequestRefusedError(f"{pause.text}; specon resume ends that, and then the drain can begin")
    cordoned = await remote.is_cordoned(node)
    plan = judge_moves(view.state, node, read_nodes(arguments.to), view.now)
    say = _Said(quiet=arguments.output == "json")
    if cordoned is False:
        say(f"{node} is not cordoned, so new pods may come: kubectl cordon {node}")
    if arguments.dry_run:
        drained = await _judge(remote, node, view, plan, cordoned=cordoned)
    else:
        asked = _Drain(remote, arguments, view, plan, say)
        await asked.run()
        drained = asked.tell(view, cordoned=cordoned)
    if arguments.output == "json":
        sys.stdout.write(f"{to_json(drained)}\n")
    else:
        _summary(drained, say)
    if arguments.dry_run or arguments.wait:
        return 0 if drained.empty else 1
    return 1 if drained.stay or any(move.ended and not move.succeeded for move in drained.moves) else 0


async def _judge(remote: Remote, node: str, view: View, plan: Leaves, *, cordoned: bool | None) -> Drained:
    would, stay, caveats = [], dict(plan.stay), list(view.caveats)
    for each in plan.leavers:
        replica = None if each.whole else each.wanted.name
        objection, unknown = (None, None) if replica is None else await remote.objection(replica)
        if unknown and unknown not in caveats:
            caveats.append(unknown)
        if objection is not None:
            stay[each.subject] = objection
        else:
            targets = nodes_of(each.placement) or each.wanted.targets
            would.append(row_of_wish(view.state, each.wanted.job, replica, targets))
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
    """Asks for all moves at once; the manager begins as many at a time as its budgets allow."""

    def __init__(
        self,
        remote: Remote,
        arguments: argparse.Namespace,
        view: View,
        plan: Leaves,
        say: Callable[[str], None],
    ) -> None:
        """Take the requests that are queued already, of an earlier drain perhaps, for its own."""
        self._remote, self._say = remote, say
        self._node, self._wait = arguments.node, arguments.wait
        self._reason = arguments.reason or f"drain of {arguments.node}"
        self._deadline = time.monotonic() + arguments.timeout
        self._leaving = plan.leaving
        self._stay = dict(plan.stay)
        subjects = {each.subject for each in plan.leavers}
        queued = [row for row in view.transactions if not row.begun and _subject(row) in subjects]
        self._moves = {row.id: row for row in queued}
        known = {_subject(row) for row in queued}
        self._unasked = [each.wanted for each in plan.leavers if each.subject not in known]

    async def run(self) -> None:
        """Ask for all; with `--wait` until all have ended or there is no more time."""
        room = asyncio.Semaphore(_AT_ONCE)

        async def ask(wanted: Wanted) -> None:
            async with room:
                await self._ask(wanted)

        async with asyncio.TaskGroup() as group:
            for each in self._unasked:
                group.create_task(ask(each))
        if not self._wait:
            return
        rows, seconds = list(self._moves.values()), self._deadline - time.monotonic()
        self._moves = await follow(
            self._remote, rows, seconds=seconds, changed=lambda row: self._say(sentence(row))
        )
        for row in rows:
            if row.id not in self._moves:
                self._stay[_subject(row)] = GONE

    async def _ask(self, wanted: Wanted) -> None:
        try:
            row = await self._remote.ask(wanted, self._reason)
        except RequestRefusedError as refused:
            self._stay[wanted.name] = str(refused)
        else:
            self._moves[row.id] = row
            self._say(sentence(row))

    def tell(self, view: View, *, cordoned: bool | None) -> Drained:
        """Return what came of it."""
        moves = sorted(self._moves.values(), key=lambda row: (row.proposed_at or "~", _subject(row)))
        return Drained(
            manager=self._remote.where,
            node=self._node,
            dry_run=False,
            cordoned=cordoned,
            moves=tuple(moves),
            waiting=tuple(_subject(row) for row in moves if not row.begun),
            leaving=self._leaving,
            stay=_stays(self._stay),
            caveats=view.caveats,
        )


def _subject(row: TransactionRow) -> str:
    """Return the replica that moves, or the job that moves as a whole."""
    return row.replica or row.job


def _stays(stay: dict[str, str]) -> tuple[Stays, ...]:
    return tuple(Stays(name, why) for name, why in sorted(stay.items()))


def _summary(drained: Drained, say: Callable[[str], None]) -> None:
    for row in drained.would_move:
        who = row.replica or f"{row.job} as a whole"
        say(f"{who} would be moved to {row.target or 'a node that the manager chooses then'}")
    for each in drained.stay:
        say(f"{each.replica} stays: {each.why}")
    for name in drained.leaving:
        say(f"{name} is already on its way to another node")
    if drained.waiting:
        names = ", ".join(drained.waiting)
        say(f"queued until others have ended: {names}; specon migrate --cancel withdraws one")
    for caveat in drained.caveats:
        say(f"but: {caveat}")
    if drained.dry_run:
        moved = f"{len(drained.would_move)} would leave"
    else:
        moved = (
            f"{format_count(len(drained.moves), 'move')} asked for,"
            f" {sum(move.succeeded for move in drained.moves)} done"
        )
    say(f"{drained.node}: {moved}, {format_count(len(drained.stay), 'replica stays', 'replicas stay')}")
    if drained.cordoned is not None:
        say("pods without a sidecar are not touched: kubectl drain is for those")
