"""`specon pause` and `specon resume`: nothing new is ordered meanwhile, and moves in flight finish."""

import argparse
import sys

from msgspec import Struct

from specon_manager.cli.output import to_json
from specon_manager.cli.remote.choice import add_remote_arguments, run_remote
from specon_manager.cli.remote.remote import Remote
from specon_manager.views.names import printable


class PauseAnswer(Struct, frozen=True, kw_only=True):
    """What `specon pause --output json` and `specon resume --output json` print."""

    manager: str
    paused: bool
    reason: str
    moves_in_flight: int
    caveats: tuple[str, ...] = ()


def add_pause_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of `pause`."""
    parser.add_argument("--reason", default="", help="shown to everyone who asks why nothing happens")
    add_remote_arguments(parser)


def add_resume_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of `resume`."""
    add_remote_arguments(parser)


def pause(arguments: argparse.Namespace) -> int:
    """Let nothing new be ordered; 0."""
    return run_remote(arguments, lambda remote: _set(remote, arguments, " ".join(arguments.reason.split())))


def resume(arguments: argparse.Namespace) -> int:
    """End the pause; 0, also where there was none."""
    return run_remote(arguments, lambda remote: _set(remote, arguments, None))


async def _set(remote: Remote, arguments: argparse.Namespace, reason: str | None) -> int:
    await remote.set_pause(reason)
    view = await remote.view()
    flying = sum(row.is_move and row.in_flight for row in view.transactions)
    answer = PauseAnswer(
        manager=remote.where,
        paused=reason is not None,
        reason=reason or "",
        moves_in_flight=flying,
        caveats=view.caveats,
    )
    if arguments.output == "json":
        sys.stdout.write(f"{to_json(answer)}\n")
        return 0
    if reason is None:
        print(printable(f"resumed: {remote.where}"))
    else:
        print(printable(f"paused: {remote.where}: {remote.pause_words}; {flying} in flight now"))
    for caveat in view.caveats:
        print(printable(f"but: {caveat}"))
    return 0
