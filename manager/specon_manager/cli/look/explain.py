"""`specon explain`: the decisions about a job, the refused proposals, and the reasons of both.

Of a job that waits: its position, what it waits for, and when it may start. Of a job that is being changed:
the awaited event, and until when.
"""

import argparse
import asyncio
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from msgspec import Struct

from specon_manager.cli.output import to_json
from specon_manager.cli.remote.choice import add_remote_arguments, run_remote
from specon_manager.cli.remote.log_end import LogEnd
from specon_manager.cli.remote.names import find_job
from specon_manager.cli.remote.remote import Remark, Remote
from specon_manager.core.gang import is_gang
from specon_manager.core.hanging import objection
from specon_manager.core.requested_moves import answer_to_job
from specon_manager.core.state import State
from specon_manager.lab import expected_starts
from specon_manager.model.cluster import Phase, Replica
from specon_manager.model.expected_start import ExpectedStart
from specon_manager.usage import UsageError
from specon_manager.views.amounts import span_text
from specon_manager.views.decisions import DecisionRow, decisions_on, describe_decision
from specon_manager.views.hanging import hang_in_words
from specon_manager.views.names import job_label, printable
from specon_manager.views.queues import WaitingRow
from specon_manager.views.replicas import PauseRow, ReplicaRow, top_of
from specon_manager.views.times import since_text
from specon_manager.views.transaction_words import sentence
from specon_manager.views.transactions import TransactionRow, choose_rows, nodes_of, row_of_wish
from specon_manager.views.view import View
from specon_manager.views.words import is_hung
from specon_sidecar.counts import format_count

_READING_SECONDS: Final = 10.0
"""How long the reading of a cluster for a forecast may take."""


class Movable(Struct, frozen=True, kw_only=True):
    """Whether a job that trains as one could be moved now, off all nodes that it is on."""

    known: bool
    """Whether that could be found out."""
    placement: Mapping[str, str] | None
    """Node by replica; None where it could not, or that is not known."""
    why: str
    """Why it could not, or is not known; else empty."""


class Explained(Struct, frozen=True, kw_only=True):
    """What `specon explain --output json` prints."""

    manager: str
    job: str
    paused: PauseRow | None
    waiting: WaitingRow | None
    """What it waits for; None where it does not wait to be admitted."""
    start: ExpectedStart | None
    """When it may start; None where it does not wait, or where nobody asked for it."""
    movable: Movable | None
    """Whether it could be moved as a whole; None where it does not run as one, or where nobody asked."""
    changes: tuple[TransactionRow, ...]
    """In the order in which they were proposed; at most the last has not ended."""
    replicas: tuple[ReplicaRow, ...]
    moves: tuple[TransactionRow, ...]
    hung: Mapping[str, tuple[str, ...]]
    """By replica that hangs: what shows it, in lines, the last ones of its log among them."""
    logs: Mapping[str, LogEnd]
    """By replica that crashed: how its log ends, where that can be read from here."""
    decisions: tuple[DecisionRow, ...]
    """Of a cluster these are among the remarks."""
    remarks: tuple[Remark, ...]
    caveats: tuple[str, ...]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument("job", help="name of the job, with or without its namespace")
    parser.add_argument(
        "--no-forecast",
        action="store_true",
        help="say neither when a waiting job may start nor whether a gang could move",
    )
    add_remote_arguments(parser, bundles=True)


def main(arguments: argparse.Namespace) -> int:
    """Print everything that is known of the decisions on a job; 0."""
    return run_remote(arguments, lambda remote: _explain(remote, arguments))


async def _explain(remote: Remote, arguments: argparse.Namespace) -> int:
    view = await remote.view()
    state = view.state
    job = find_job(state, arguments.job, arguments.namespace)
    remarks = await remote.remarks(job)
    replicas = state.jobs[job].spec.replicas
    moves = choose_rows(view.transactions, moves=True, job=job)
    waiting = next((row for row in view.waiting if row.job == job), None)
    start, movable = None, None
    if not arguments.no_forecast:
        start = None if waiting is None else await _start(remote, view, waiting)
        movable = None if waiting is not None else await _movable(remote, view, job)
    changes = choose_rows(view.transactions, moves=False, job=job)
    logs = await _log_ends(remote, state, replicas)
    if arguments.output == "json":
        top = top_of(view, where=remote.where, sort="name", ended=True)
        told = Explained(
            manager=remote.where,
            job=job,
            paused=top.paused,
            waiting=waiting,
            start=start,
            movable=movable,
            changes=tuple(changes),
            replicas=tuple(row for row in top.replicas if row.job == job),
            moves=tuple(moves),
            hung={
                name: tuple(printable(line.strip()) for line in lines)
                for name in replicas
                if (lines := hang_lines(state, state.replicas[name]))
            },
            logs=logs,
            decisions=decisions_on(state, {job, *replicas}),
            remarks=tuple(remarks),
            caveats=view.caveats,
        )
        sys.stdout.write(f"{to_json(told)}\n")
        return 0
    of_all = [*changes, *(row for row in moves if row.replica is None)]
    # The transactions in flight say why the replicas are as they are.
    for line in [*_first_lines(view, job, waiting, start, movable), *_change_lines(of_all, ended=False)]:
        print(line)
    for replica in replicas:
        rows = [row for row in moves if row.replica == replica]
        for line in [*explanation(state, replica, rows), *log_lines(logs.get(replica))]:
            print(line)
    last = _change_lines(of_all, ended=True)
    last += [describe_decision(decision) for decision in decisions_on(state, {job})]
    last += [printable(f"{each.at} {each.about}: {each.reason}: {each.text}") for each in remarks]
    last += [printable(f"but: {caveat}") for caveat in view.caveats]
    for line in last:
        print(line)
    return 0


def _first_lines(
    view: View, job: str, waiting: WaitingRow | None, start: ExpectedStart | None, movable: Movable | None
) -> list[str]:
    """Return, in lines, what holds for the job as a whole."""
    pause = view.state.pause
    why = "" if pause is None else pause.reason or "nobody says why"
    paused = [printable(f"the manager is paused: {why}; specon resume ends it")] if pause is not None else []
    movability = [] if movable is None else [_in_words(movable, view.state, job)]
    spec = view.state.jobs[job].spec
    grown = (
        [printable(f"{job_label(job)} gets no more workers: {spec.no_headroom}")]
        if spec.headroom == 0
        else []
    )
    return [*paused, *waiting_lines(waiting, start, view.now), *movability, *grown]


def _change_lines(rows: Iterable[TransactionRow], *, ended: bool) -> list[str]:
    """Return, in lines, the changes of the job as a whole that have ended, or those that have not."""
    return [sentence(row, named=False) for row in rows if (row.ended_at is not None) is ended]


async def read_whole(remote: Remote, view: View, concerned: Callable[[State], Iterable[str]]) -> View | str:
    """Return the view of a whole cluster, read within bounded time; else, in words, why there is none."""
    if view.state.nodes:
        return view
    try:
        async with asyncio.timeout(_READING_SECONDS):
            return await remote.whole(concerned)
    except TimeoutError:
        return f"the cluster was not read within {_READING_SECONDS:g} s"
    except UsageError as error:
        return str(error)


async def _start(remote: Remote, view: View, waiting: WaitingRow) -> ExpectedStart:
    """Return when a waiting job may start: as its manager expects it, else as it is worked out here."""
    if waiting.start is not None and waiting.start.in_seconds is not None:
        return waiting.start
    read = await read_whole(remote, view, lambda _: ())
    if isinstance(read, str):
        return ExpectedStart(why=read)
    return expected_starts(read.state, read.now, (waiting.job,))[waiting.job]


async def _movable(remote: Remote, view: View, name: str) -> Movable | None:
    """Return whether all of a job could be moved now; None where it does not run as one."""
    job = view.state.jobs[name]
    if job.ended_at is not None or len(job.spec.replicas) == 1:
        return None
    read = await read_whole(
        remote, view, lambda state: state.jobs[name].spec.replicas if name in state.jobs else ()
    )
    if isinstance(read, str):
        return Movable(known=False, placement=None, why=read)
    found = read.state.jobs.get(name)
    if found is None or not is_gang(read.state, found):
        return None
    placement, why = answer_to_job(read.state, name, (), read.now)
    return Movable(known=True, placement=placement, why=why)


def _in_words(movable: Movable, state: State, job: str) -> str:
    if not movable.known:
        return printable(f"whether {job_label(job)} could be moved as a whole is not known: {movable.why}")
    if movable.placement is None:
        return printable(f"{job_label(job)} could not be moved as a whole now: {movable.why}")
    way = row_of_wish(state, job, None, nodes_of(movable.placement)).what
    return printable(f"{job_label(job)} could be moved as a whole now: {way}")


def waiting_lines(waiting: WaitingRow | None, start: ExpectedStart | None, now: float) -> list[str]:
    """Return, in lines, what a job waits for and when it may start; none where it does not wait."""
    if waiting is None:
        return []
    where = f"of queue {waiting.queue}" if waiting.queue else "of the jobs that name no queue"
    waited = since_text(waiting.since, now)
    since = f", since {waiting.since} ({waited})" if waited else ""
    position = f"position {waiting.position} {where}, {waiting.overall} of all"
    lines = [
        f"{job_label(waiting.job)} waits at {position}{since}",
        f"  for {waiting.kind}: {waiting.text}" if waiting.kind else f"  for: {waiting.text}",
    ]
    if start is not None and start.in_seconds is None:
        lines.append(f"  when it may start is not known: {start.why}")
        if start.earliest_seconds:
            lines.append(f"  in 95 of 100 cases not before {span_text(start.earliest_seconds)} from now")
    elif start is not None:
        between = f"{span_text(start.earliest_seconds)} and {span_text(start.latest_seconds)}"
        lines += [
            f"  it may start in about {span_text(start.in_seconds)}",
            f"  in 90 of 100 cases between {between}, by {format_count(start.worlds, 'simulation')}, if:",
        ]
        lines += [f"    {each}" for each in start.assumptions]
    return [_indent(line) for line in lines]


def explanation(state: State, name: str, moves: list[TransactionRow]) -> list[str]:
    """Return, in lines, everything that is known of a replica, its moves and the decisions on it."""
    replica = state.replicas[name]
    progress = replica.progress
    why = f" ({progress.reason})" if progress.reason else ""
    lines = [f"{name}: {replica.phase} on {replica.node or 'no node'}, {progress.category}{why}"]
    if replica.note:
        lines.append(f"  last note: {replica.note}")
    job = state.jobs[replica.job].spec
    if job.coupling:
        how = "as one with the others, and moves with them" if job.coupled else "and moves by itself"
        lines.append(f"  it trains {how}: {job.coupling}")
    lines += hang_lines(state, replica)
    if job.immovable and state.nodes:
        lines.append(f"  it is not moved: {job.immovable}")
    lines += [f"  {sentence(row, named=False)}" for row in moves]
    lines += [f"  {describe_decision(decision)}" for decision in decisions_on(state, {name})]
    return [_indent(line) for line in lines]


def log_lines(end: LogEnd | None) -> list[str]:
    """Return, in lines, how the log of a replica that crashed ends; none where that is not known."""
    if end is None:
        return []
    return [
        _indent(f"  the last lines of {end.path}:"),
        *(f"    {line}" for line in end.lines or ("(nothing)",)),
    ]


async def _log_ends(remote: Remote, state: State, replicas: Iterable[str]) -> dict[str, LogEnd]:
    """Return how the logs of those replicas end that crashed."""
    known = [state.replicas[name] for name in replicas]
    crashed = [each.name for each in known if each.crashes or each.phase is Phase.FAILED]
    ends = {name: await remote.log_end(name) for name in crashed}
    return {name: end for name, end in ends.items() if end is not None}


def hang_lines(state: State, replica: Replica) -> list[str]:
    """Return, in lines, the evidence that a replica hangs and the reaction; else none."""
    hang = replica.progress.hang
    if hang is None or not is_hung(state, replica):
        return []
    against = objection(replica, state.snapshot(0.0))
    then = "restarted from its last verified checkpoint" if against is None else f"not restarted: {against}"
    lines = [f"  it hangs: {hang_in_words(replica.progress)}", f"  it is {then}"]
    if hang.lines:
        lines += ["  the last lines of its log:", *(f"    {line}" for line in hang.lines)]
    return lines


def _indent(line: str) -> str:
    """Return the line without anything that steers a terminal, and with its own indentation."""
    return " " * (len(line) - len(line.lstrip(" "))) + printable(line)
