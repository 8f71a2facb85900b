"""`specon demo --scenario`: what a scenario runs, and whether a run of it showed what it promises."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from msgspec import Struct

from specon_manager.backends.local.nodes import VirtualNode, parse_nodes
from specon_manager.cli.run.result import RunResult
from specon_manager.cli.run.transaction_results import TransactionResult
from specon_manager.model.actions import FASTER
from specon_manager.model.transactions import Kind, TransactionState


class Promise(Struct, frozen=True):
    """Something that at least one change of a run has to show."""

    words: str
    met: Callable[[TransactionResult, RunResult], bool]


def _went_on(change: TransactionResult) -> bool:
    """Whether the job went on from the checkpoint of the change, and did not begin again."""
    first, saved = change.first_step_after, change.checkpoint_step
    return (
        change.state is TransactionState.SUCCEEDED
        and first is not None
        and saved is not None
        and first > saved
    )


def _match_scaling(kind: Kind) -> Callable[[TransactionResult, RunResult], bool]:
    return lambda change, _: change.kind is kind and _went_on(change)


def _heavier_first(change: TransactionResult, result: RunResult) -> bool:
    """Whether a worker was taken from a job, and another job was admitted after that."""
    return change.kind is Kind.SCALE_IN and any(
        other.kind is Kind.ADMIT
        and other.state is TransactionState.SUCCEEDED
        and other.job != change.job
        and change.ended_at is not None
        and other.started_at >= change.started_at
        for other in result.changes
    )


def _is_preempted(change: TransactionResult, result: RunResult) -> bool:
    """Whether a job was preempted for another one, went on from its checkpoint, and succeeded."""
    done = {job.name for job in result.jobs if job.succeeded}
    return (
        change.kind is Kind.PREEMPT and _went_on(change) and change.job in done and change.beneficiary in done
    )


def _has_moved_whole(change: TransactionResult, result: RunResult) -> bool:
    """Whether a gang moved, from one node to another, and went on with nothing lost."""
    del result
    gang = change.replica is None and change.restart
    return change.kind is Kind.MOVE and gang and _went_on(change) and not change.steps_lost


def _has_made_room(change: TransactionResult, result: RunResult) -> bool:
    """Whether a job was admitted after a move that was to make room for it."""
    return change.kind is Kind.MOVE and any(
        other.kind is Kind.ADMIT
        and other.state is TransactionState.SUCCEEDED
        and other.job == change.beneficiary
        and change.ended_at is not None
        and other.started_at >= change.ended_at
        for other in result.changes
    )


def _is_brought_together(change: TransactionResult, result: RunResult) -> bool:
    """Whether a gang on several nodes moved to one on which it trains faster, with nothing lost."""
    fewer = "," in change.source and "," not in change.target
    return change.purpose == FASTER and fewer and _has_moved_whole(change, result)


def _all_went_on(_: TransactionResult, result: RunResult) -> bool:
    """Whether each job was moved, and went on with the step after the one that was saved."""
    moved = {
        change.job
        for change in result.moves
        if change.state is TransactionState.SUCCEEDED
        and change.checkpoint_step is not None
        and change.first_step_after == change.checkpoint_step + 1
        and not change.steps_lost
    }
    return moved >= {job.name for job in result.jobs}


PROMISES: Final[Mapping[str, tuple[Promise, ...]]] = {
    "kod2": (
        Promise("workers leave a lighter job, for a heavier one", _heavier_first),
        Promise("a job continues with fewer workers from its checkpoint", _match_scaling(Kind.SCALE_IN)),
        Promise("a job continues with more workers from its checkpoint", _match_scaling(Kind.SCALE_OUT)),
    ),
    "gang": (
        Promise("a gang moves as a whole, and not a step of it is lost", _has_moved_whole),
        Promise("a gang that waited starts in the room that a move has made", _has_made_room),
    ),
    "gather": (Promise("a gang on two nodes moves to one, where it trains faster", _is_brought_together),),
    "frameworks": (
        Promise("each script, unchanged, was moved and went on with the next step", _all_went_on),
    ),
    "fitgpp": (
        Promise("a job is preempted for a trial, and resumes from its checkpoint to its end", _is_preempted),
    ),
}


def file_of(scenario: str, samples: Path) -> Path:
    """Return the job file of a scenario."""
    return samples / "jobs" / f"{scenario}.yaml"


def nodes(scenario: str) -> tuple[VirtualNode, ...]:
    """Return two nodes on which one processor each may be reserved, on any machine: scenarios fill them.

    Scripts of frameworks reserve nothing, and share all processors: those that train on a GPU start slowly.
    """
    cpus = sorted(os.sched_getaffinity(0))
    if scenario == "frameworks" and len(cpus) > 1:
        return parse_nodes("2", cpus, ())
    return tuple(
        VirtualNode(name=f"node-{index}", cpus=(cpus[min(index, len(cpus) - 1)],), capacity=1.0)
        for index in range(2)
    )


def check_promises(scenario: str, result: RunResult) -> list[tuple[str, bool]]:
    """Return what the scenario promises, each with whether the run showed it."""
    return [
        (promise.words, any(promise.met(change, result) for change in (*result.moves, *result.changes)))
        for promise in PROMISES[scenario]
    ]
