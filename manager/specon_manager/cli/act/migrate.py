"""`specon migrate`: a move by hand, or what would speak against it."""

import argparse
import sys
from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from specon_manager.cli.act.following import GONE, follow
from specon_manager.cli.output import to_json
from specon_manager.cli.remote.choice import add_remote_arguments, run_remote
from specon_manager.cli.remote.names import find_wanted
from specon_manager.cli.remote.remote import Remote, Wanted
from specon_manager.core.requested_moves import answer
from specon_manager.core.state import State
from specon_manager.usage import UsageError
from specon_manager.views.names import list_names, printable
from specon_manager.views.transaction_words import sentence
from specon_manager.views.transactions import TransactionRow, nodes_of, row_of_wish
from specon_manager.views.view import View
from specon_manager.views.words import ASKED, QUEUED

_SECONDS: Final = 1800.0


class MigrateAnswer(Struct, frozen=True, kw_only=True):
    """What `specon migrate --output json` prints."""

    manager: str
    job: str
    replica: str | None
    """None where the whole job is moved."""
    source: str | None
    target: str | None
    """Where it goes, or would, of a whole job the nodes between commas; None where it goes nowhere."""
    dry_run: bool
    placement: Mapping[str, str] | None = None
    """Of a dry run: the node by replica of all that would be moved; None where nothing would."""
    objection: str | None = None
    """What speaks against it; None where nothing does."""
    move: TransactionRow | None = None
    """The move that was begun, queued or cancelled."""
    caveats: tuple[str, ...] = ()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument(
        "replica", nargs="?", metavar="WHAT", help="NAMESPACE/JOB/ROLE/INDEX, or a job that trains as one"
    )
    parser.add_argument(
        "--to", metavar="NODE[,NODE]", help="target nodes; a job goes to some of them (the manager chooses)"
    )
    parser.add_argument("--reason", default="", help="kept with the move")
    parser.add_argument("--dry-run", action="store_true", help="say what would prevent it; change nothing")
    parser.add_argument(
        "--cancel", metavar="ID", help="withdraw the request of that id, which has not begun; no WHAT then"
    )
    parser.add_argument("--wait", action="store_true", help="until the move has ended")
    parser.add_argument(
        "--timeout", type=float, default=_SECONDS, metavar="SECONDS", help="wait no longer (1800)"
    )
    add_remote_arguments(parser)


def main(arguments: argparse.Namespace) -> int:
    """Ask; 0 when it has begun or waits (`--wait`: has succeeded), 1 when refused or gone wrong.

    Raises UsageError for flags that do not go together.
    """
    check_timeout(arguments.timeout)
    if arguments.cancel is not None:
        given = [name for name in ("replica", "to", "dry_run", "wait") if getattr(arguments, name)]
        if given:
            raise UsageError(f"--cancel goes with an id alone, not with {given[0].replace('_', '-')}")
        return run_remote(arguments, lambda remote: _cancel(remote, arguments))
    if arguments.replica is None:
        raise UsageError("name the replica or the job to move; --cancel ID withdraws a request")
    work = _ask_only if arguments.dry_run else _move
    return run_remote(arguments, lambda remote: work(remote, arguments))


def check_timeout(seconds: float) -> None:
    """Raise UsageError for a time that is not above 0."""
    if not seconds > 0:
        raise UsageError(f"--timeout: {seconds:g} is not a number of seconds above 0")


async def _ask_only(remote: Remote, arguments: argparse.Namespace) -> int:
    state = (await remote.view()).state
    wanted = find_wanted(state, arguments.replica, arguments.to, arguments.namespace)
    view = await remote.whole(lambda state: _members(state, wanted))
    told = await _judge(remote, view, wanted)
    if arguments.output == "json":
        sys.stdout.write(f"{to_json(told)}\n")
        return 1 if told.objection else 0
    if told.objection:
        print(printable(f"{wanted.name} would not be moved: {told.objection}"))
    elif told.replica is None:
        _print_placement(view.state, wanted.job, told.placement or {})
    else:
        ways = f"from {told.source} to {told.target}"
        print(printable(f"{wanted.name} would be moved {ways}: nothing prevents it"))
    for caveat in told.caveats:
        print(printable(f"  but: {caveat}"))
    return 1 if told.objection else 0


def _members(state: State, wanted: Wanted) -> tuple[str, ...]:
    """Return the replicas that a decision on the request may be about: all of its job."""
    return state.jobs[wanted.job].spec.replicas if wanted.job in state.jobs else ()


async def _judge(remote: Remote, view: View, wanted: Wanted) -> MigrateAnswer:
    """Return what would become of the wish now."""
    state, caveats = view.state, view.caveats
    row = row_of_wish(state, wanted.job, wanted.replica, wanted.targets)
    placement, objection = answer(state, wanted.request(view.now), view.now)
    if placement is not None and row.replica is not None:
        found, unknown = await remote.objection(row.replica)
        placement, objection = (None, found) if found else (placement, "")
        caveats = (*caveats, unknown) if unknown else caveats
    if placement is not None:
        caveats += _doubts(state, wanted.job)
    return MigrateAnswer(
        manager=remote.where,
        job=wanted.job,
        replica=row.replica,
        source=row.source,
        target=None if placement is None else ",".join(nodes_of(placement)),
        dry_run=True,
        placement=placement,
        objection=objection or None,
        caveats=caveats,
    )


def _doubts(state: State, job: str) -> tuple[str, ...]:
    """Return what speaks against a success of a move that nothing prevents, in words."""
    spec = state.jobs[job].spec
    replicas = (state.replicas.get(name) for name in spec.replicas)
    if spec.checkpointing != "asked" or any(each and each.progress.checkpoint for each in replicas):
        return ()
    return ("no checkpoint of it has been seen yet: if none comes in time, the move is rolled back",)


def _print_placement(state: State, job: str, placement: Mapping[str, str]) -> None:
    """Print where each replica of a gang would go, those of the same way on one line."""
    print(printable(f"{job} would be moved as a whole: nothing prevents it"))
    ways: dict[tuple[str, str], list[str]] = {}
    for name, node in sorted(placement.items()):
        replica = state.replicas.get(name)
        source = (None if replica is None else replica.node) or "?"
        ways.setdefault((source, node), []).append(name.removeprefix(f"{job}/"))
    for (source, node), names in ways.items():
        where = f"{source} -> {node}" if source != node else f"stays on {node}"
        print("  " + printable(f"{list_names(names)}: {where}"))


async def _move(remote: Remote, arguments: argparse.Namespace) -> int:
    view = await remote.view()
    wanted = find_wanted(view.state, arguments.replica, arguments.to, arguments.namespace)
    row = await remote.ask(wanted, arguments.reason)
    as_json = arguments.output == "json"
    if not as_json:
        if wanted.replica is not None and row.replica is None:
            print(
                printable(f"{wanted.replica} trains as one with the rest of {row.label}: the whole job moves")
            )
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
        _print_json(remote, view, row)
    elif row.state == ASKED:
        print(f"no manager has looked at it yet: does one lead? specon moves shows the result of {row.id}")
    elif row.state == QUEUED:
        print(f"it begins when those have ended; specon migrate --cancel {row.id} withdraws it")
    elif not row.ended:
        print(f"it continues: specon moves --watch shows the result of {row.id}")
    if arguments.wait:
        return 0 if row.succeeded else 1
    return 1 if row.ended and not row.succeeded else 0


async def _cancel(remote: Remote, arguments: argparse.Namespace) -> int:
    row = await remote.cancel(arguments.cancel)
    if arguments.output == "json":
        _print_json(remote, None, row)
    else:
        print(printable(f"{row.id} is withdrawn: {row.replica or row.label} stays where it is"))
    return 0


def _print_json(remote: Remote, view: View | None, row: TransactionRow) -> None:
    answer = MigrateAnswer(
        manager=remote.where,
        job=row.job,
        replica=row.replica,
        source=row.source,
        target=row.target,
        dry_run=False,
        objection=row.note if row.ended and not row.succeeded else None,
        move=row,
        caveats=() if view is None else view.caveats,
    )
    sys.stdout.write(f"{to_json(answer)}\n")
