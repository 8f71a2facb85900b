"""`specon top`: who trains where and how it goes, live in a terminal."""

import argparse
import asyncio
import contextlib
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from rich.console import Console, Group
from rich.live import Live

from specon_manager.cli.look.keys import keys_to
from specon_manager.cli.look.top_table import heading, table
from specon_manager.cli.output import LITERAL, console_for_results, to_json
from specon_manager.cli.remote.choice import add_remote_arguments, run_remote
from specon_manager.cli.remote.remote import Remote
from specon_manager.usage import UsageError
from specon_manager.views.replicas import KEYS, Top, top_of

if TYPE_CHECKING:
    from specon_manager.views.view import View

_INTERVAL: Final = 2.0
_LEAST_INTERVAL: Final = 0.2
_BY_KEY: Final[Mapping[str, str]] = {
    "c": "category",
    "j": "name",
    "l": "loss",
    "g": "gain",
    "s": "step",
    "n": "node",
    "m": "moves",
    "a": "age",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument(
        "--sort", choices=tuple(KEYS), default="category", help="order of the lines (category)"
    )
    parser.add_argument("--reverse", action="store_true", help="the other way round")
    parser.add_argument("--ended", action="store_true", help="also replicas that have ended")
    parser.add_argument("--once", action="store_true", help="print once, as where this is no terminal")
    parser.add_argument(
        "--interval", type=float, default=_INTERVAL, metavar="SECONDS", help="between two looks (2)"
    )
    parser.add_argument(
        "--limit",
        type=int,
        metavar="N",
        help="at most so many lines (all; live: as many as fit on the screen)",
    )
    add_remote_arguments(parser, bundles=True)


def main(arguments: argparse.Namespace) -> int:
    """Show until q or Ctrl-C; 0. Raises UsageError for an interval or a limit that is too small."""
    if not arguments.interval >= _LEAST_INTERVAL:
        raise UsageError(f"--interval: {arguments.interval:g} is less than {_LEAST_INTERVAL:g} seconds")
    if arguments.limit is not None and arguments.limit < 1:
        raise UsageError(f"--limit: {arguments.limit} is less than 1")
    console = Console(**LITERAL)
    if arguments.output == "json" or arguments.once or not console.is_terminal or console.is_dumb_terminal:
        return run_remote(arguments, lambda remote: _once(remote, arguments))
    with contextlib.suppress(KeyboardInterrupt):  # that is how one leaves it
        return run_remote(arguments, lambda remote: _Screen(remote, arguments, console).run())
    return 0


async def _once(remote: Remote, arguments: argparse.Namespace) -> int:
    top = top_of(
        await remote.view(),
        where=remote.where,
        sort=arguments.sort,
        reverse=arguments.reverse,
        namespace=arguments.namespace,
        ended=arguments.ended,
        most=arguments.limit,
    )
    if arguments.output == "json":
        sys.stdout.write(f"{to_json(top)}\n")
        return 0
    console = console_for_results()
    for line in heading(top, sort=arguments.sort, reverse=arguments.reverse):
        console.print(line, soft_wrap=True)
    console.print(table(top))
    return 0


class _Screen:
    """The live table; a manager that does not answer for a while leaves the last picture, and says so."""

    def __init__(self, remote: Remote, arguments: argparse.Namespace, console: Console) -> None:
        self._remote, self._arguments, self._console = remote, arguments, console
        self._sort: str = arguments.sort
        self._reverse: bool = arguments.reverse
        self._view: View | None = None
        self._trouble = ""
        self._pressed = asyncio.Event()
        self._over = False

    async def run(self) -> int:
        """Show until q is pressed."""
        self._view = await self._remote.view()  # trouble from the start is raised, not shown
        with Live(console=self._console, screen=True, auto_refresh=False) as live, keys_to(self._key) as keys:
            looking = asyncio.create_task(self._look())
            try:
                while not self._over:
                    live.update(self._picture(keys=keys), refresh=True)
                    await self._pressed.wait()
                    self._pressed.clear()
            finally:
                looking.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await looking
        return 0

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(self._arguments.interval)
            try:
                self._view, self._trouble = await self._remote.view(), ""
            except UsageError as error:
                self._trouble = str(error)
            self._pressed.set()

    def _key(self, key: str) -> None:
        if key in {"q", "Q"}:
            self._over = True
        elif key in {"r", "R"}:
            self._reverse = not self._reverse
        elif key.lower() in _BY_KEY:
            self._sort, self._reverse = _BY_KEY[key.lower()], False
        else:
            return
        self._pressed.set()

    def _picture(self, *, keys: bool) -> Group:
        assert self._view is not None
        lines = heading(
            self._top(0), sort=self._sort, reverse=self._reverse, trouble=self._trouble, keys=keys
        )
        above = sum(len(line.wrap(self._console, self._console.width)) for line in lines)
        room = max(1, self._console.height - above - 2)  # the table's heading, and the count of rows left out
        most = min(room, self._arguments.limit or room)
        return Group(*lines, table(self._top(most), self._console.width))

    def _top(self, most: int) -> Top:
        assert self._view is not None
        return top_of(
            self._view,
            where=self._remote.where,
            sort=self._sort,
            reverse=self._reverse,
            namespace=self._arguments.namespace,
            ended=self._arguments.ended,
            most=most,
        )
