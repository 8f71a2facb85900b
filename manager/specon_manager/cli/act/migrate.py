"""`specon migrate`: a move by hand, or what would speak against it."""

import argparse
import sys
from typing import Final

from msgspec import Struct

from specon_manager.cli.act.following import GONE, follow
from specon_manager.cli.output import to_json
from specon_manager.cli.remote.choice import add_remote_arguments, run_remote
from specon_manager.cli.remote.names import replica_named
from specon_manager.cli.remote.remote import Remote
from specon_manager.core.requested_moves import answer_to
from specon_manager.usage import UsageError
from specon_manager.views.names import printable
from specon_manager.views.transactions import TransactionRow, sentence
from specon_manager.views.view import View
from specon_manager.views.words import ASKED, QUEUED

_SECONDS: Final = 1800.0


class MigrateAnswer(Struct, frozen=True, kw_only=True):
    """What `specon migrate --output json` prints."""

    manager: str
    replica: str
    source: str | None
    target: str | None
    """Where it goes, or would; None where it goes nowhere."""
    dry_run: bool
    objection: str | None = None
    """What speaks against it; None where nothing does."""
    move: TransactionRow | None = None
    """The move that was begun, queued or cancelled."""
    caveats: tuple[str, ...] = ()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument(
        "replica", nargs="?", help="NAMESPACE/JOB/ROLE/INDEX, or the job where it has one replica"
    )
    parser.add_argument("--to", metavar="NODE", help="where to (the manager chooses)")
    parser.add_argument("--reason", default="", help="kept with the move")
    parser.add_argument(
        "--dry-run", action="store_true", help="say what would speak against it; touch nothing"
    )
    parser.add_argument(
        "--cancel", metavar="ID", help="withdraw the request of that id, which has not begun; no REPLICA then"
    )
    parser.add_argument("--wait", action="store_true", help="until the move has ended")
    parser.add_argument(
        "--timeout", type=float, default=_SECONDS, metavar="SECONDS", help="wait no longer (1800)"
    )
    add_remote_arguments(parser)


def main(arguments: argparse.Namespace) -> int:
    """Ask; 0 when it has begun or waits (`--wait`: has succeeded), 1 when refused or gone wrong."""
    check_timeout(arguments.timeout)
    if arguments.cancel is not None:
        given = [name for name in ("replica", "to", "dry_run", "wait") if getattr(arguments, name)]
        if given:
            raise UsageError(f"--cancel goes with an id alone, not with {given[0].replace('_', '-')}")
        return run_remote(arguments, lambda remote: _cancelled(remote, arguments))
    if arguments.replica is None:
        raise UsageError("which replica is to be moved? --cancel ID withdraws a request")
    work = _asked_only if arguments.dry_run else _moved
    return run_remote(arguments, lambda remote: work(remote, arguments))


def check_timeout(seconds: float) -> None:
    """Raise UsageError for what is no time to wait for."""
    if not seconds > 0:
        raise UsageError(f"--timeout: {seconds:g} is not a number of seconds above 0")


async def _asked_only(remote: Remote, arguments: argparse.Namespace) -> int:
    name = replica_named((await remote.view()).state, arguments.replica, arguments.namespace)
    view = await remote.whole(lambda _: [name])
    target, objection = answer_to(view.state, name, arguments.to, view.now)
    caveats = view.caveats
    if target is not None:
        found, unknown = await remote.objection(name)
        objection = found or ""
        caveats = (*caveats, unknown) if unknown else caveats
    replica = view.state.replicas.get(name)
    answer = MigrateAnswer(
        manager=remote.where,
        replica=name,
        source=None if replica is None else replica.node,
        target=None if objection else target,
        dry_run=True,
        objection=objection or None,
        caveats=caveats,
    )
    if arguments.output == "json":
        sys.stdout.write(f"{to_json(answer)}\n")
    else:
        if objection:
            print(printable(f"{name} would not be moved: {objection}"))
        else:
            print(
                printable(
                    f"{name} would be moved from {answer.source} to {target}: nothing speaks against it"
                )
            )
        for caveat in caveats:
            print(printable(f"  but: {caveat}"))
    return 1 if objection else 0


async def _moved(remote: Remote, arguments: argparse.Namespace) -> int:
    view = await remote.view()
    name = replica_named(view.state, arguments.replica, arguments.namespace)
    row = await remote.ask(name, arguments.to, arguments.reason)
    as_json = arguments.output == "json"
    if not as_json:
        print(sentence(row), flush=True)
    if arguments.wait:
        followed = await follow(
            remote,
            [row],
            seconds=arguments.timeout,
            changed=lambda changed: None if as_json else print(sentence(changed), flush=True),
        )
        if row.id not in followed:
            raise UsageError(f"{row.id}: {GONE}")
        row = followed[row.id]
    if as_json:
        _print_json(remote, view, name, row)
    elif row.state == ASKED:
        print(f"no manager has looked at it yet: does one lead? specon moves tells what becomes of {row.id}")
    elif row.state == QUEUED:
        print(f"it begins when those have ended; specon migrate --cancel {row.id} withdraws it")
    elif not row.ended:
        print(f"it goes on: specon moves --watch tells what becomes of {row.id}")
    if arguments.wait:
        return 0 if row.succeeded else 1
    return 1 if row.ended and not row.succeeded else 0


async def _cancelled(remote: Remote, arguments: argparse.Namespace) -> int:
    row = await remote.cancel(arguments.cancel)
    if arguments.output == "json":
        _print_json(remote, None, row.replica or "", row)
    else:
        print(printable(f"{row.id} is withdrawn: {row.replica} stays where it is"))
    return 0


def _print_json(remote: Remote, view: View | None, name: str, row: TransactionRow) -> None:
    answer = MigrateAnswer(
        manager=remote.where,
        replica=name,
        source=row.source,
        target=row.target,
        dry_run=False,
        objection=row.note if row.ended and not row.succeeded else None,
        move=row,
        caveats=() if view is None else view.caveats,
    )
    sys.stdout.write(f"{to_json(answer)}\n")
