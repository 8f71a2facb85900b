"""`specon explain`: what was decided about a job, why, and what was refused and why."""

import argparse
import sys

from msgspec import Struct

from specon_manager.cli import printable
from specon_manager.cli.remote.choice import add_remote_arguments, run_remote
from specon_manager.cli.remote.names import job_named
from specon_manager.cli.remote.remote import MoveRow, Remark, Remote, iso, to_json
from specon_manager.cli.top_rows import PauseRow, ReplicaRow, top_of
from specon_manager.core.state import State


class DecisionRow(Struct, frozen=True, kw_only=True):
    """A decision on a replica or on its job."""

    at: str | None
    about: str
    policy: str
    proposal: str
    ordered: bool
    refusal: str | None
    """A word for why it was refused."""
    reason: str


class Explained(Struct, frozen=True, kw_only=True):
    """What `specon explain --output json` prints."""

    manager: str
    job: str
    paused: PauseRow | None
    replicas: tuple[ReplicaRow, ...]
    moves: tuple[MoveRow, ...]
    decisions: tuple[DecisionRow, ...]
    """Of a cluster these are among the remarks."""
    remarks: tuple[Remark, ...]
    caveats: tuple[str, ...]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument("job", help="name of the job, with or without its namespace")
    add_remote_arguments(parser)


def main(arguments: argparse.Namespace) -> int:
    """Print everything that is known of the decisions on a job; 0."""
    return run_remote(arguments, lambda remote: _explain(remote, arguments))


async def _explain(remote: Remote, arguments: argparse.Namespace) -> int:
    view = await remote.view()
    state = view.state
    job = job_named(state, arguments.job, arguments.namespace)
    remarks = await remote.remarks(job)
    replicas = state.jobs[job].spec.replicas
    moves = tuple(row for row in view.moves if row.replica in replicas)
    if arguments.output == "json":
        top = top_of(view, where=remote.where, sort="name", ended=True)
        told = Explained(
            manager=remote.where,
            job=job,
            paused=top.paused,
            replicas=tuple(row for row in top.replicas if row.job == job),
            moves=moves,
            decisions=_decisions(state, {job, *replicas}),
            remarks=tuple(remarks),
            caveats=view.caveats,
        )
        sys.stdout.write(f"{to_json(told)}\n")
        return 0
    if state.pause is not None:
        print(
            printable(
                f"the manager is paused: {state.pause.reason or 'nobody says why'}; specon resume ends it"
            )
        )
    for replica in replicas:
        for line in explanation(state, replica, [row for row in moves if row.replica == replica]):
            print(line)
    for decision in _decisions(state, {job}):
        print(_said(decision))
    for remark in remarks:
        print(printable(f"{remark.at} {remark.about}: {remark.reason}: {remark.text}"))
    for caveat in view.caveats:
        print(printable(f"but: {caveat}"))
    return 0


def explanation(state: State, name: str, moves: list[MoveRow]) -> list[str]:
    """Return, in lines, everything that is known of a replica, its moves and the decisions on it."""
    replica = state.replicas[name]
    progress = replica.progress
    why = f" ({progress.reason})" if progress.reason else ""
    lines = [f"{name}: {replica.phase} on {replica.node or 'no node'}, {progress.category}{why}"]
    if replica.note:
        lines.append(f"  last trouble: {replica.note}")
    job = state.jobs[replica.job].spec
    if job.immovable and state.nodes:
        lines.append(f"  it is not moved: {job.immovable}")
    for row in moves:
        text = f"{row.id} {row.source or '?'} -> {row.target or '?'}, {row.state}: {row.reason}"
        lines.append(f"  {text}{f' [{row.note}]' if row.note else ''}")
    lines += [f"  {_said(decision)}" for decision in _decisions(state, {name})]
    return [printable(line) if not line.startswith("  ") else f"  {printable(line)}" for line in lines]


def _said(decision: DecisionRow) -> str:
    verdict = "ordered" if decision.ordered else f"refused ({decision.refusal})"
    return printable(f"{decision.policy} proposed {decision.proposal}: {verdict}: {decision.reason}")


def _decisions(state: State, about: set[str]) -> tuple[DecisionRow, ...]:
    return tuple(
        DecisionRow(
            at=iso(decision.at),
            about=decision.replica,
            policy=decision.policy,
            proposal=decision.proposal,
            ordered=decision.refusal is None,
            refusal=None if decision.refusal is None else str(decision.refusal),
            reason=decision.reason,
        )
        for decision in state.decisions
        if decision.replica in about
    )
