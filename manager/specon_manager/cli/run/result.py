"""What a run came to, job by job: the numbers that are printed, compared, plotted and written as JSON.

All times in a result are seconds since the run's begin.
"""

from collections import Counter
from collections.abc import Iterable, Mapping

from msgspec import Struct
from rich.console import Console
from rich.table import Table
from rich.text import Text

from specon_manager.cli.run.machine_load import Load
from specon_manager.cli.run.placements import PlacementLog, PlacementSpan
from specon_manager.cli.run.transaction_results import TransactionResult, WorkerCount, result_of
from specon_manager.core.state import State
from specon_manager.model.cluster import Job, Phase
from specon_manager.model.transactions import Kind, Transaction, TransactionState
from specon_manager.views.names import job_label
from specon_sidecar.classify import Category
from specon_sidecar.counts import format_count


class JobResult(Struct, frozen=True, kw_only=True):
    """What became of a job."""

    name: str
    submitted_at: float
    finished_at: float | None
    """When its last replica ended, well or not; None while it has not."""
    completion_seconds: float | None
    """From submission to the end; None where it has not succeeded."""
    succeeded: bool
    moves: int
    """Moves of its replicas that succeeded."""
    downtimes: tuple[float, ...]
    """Of each of its moves that led to a new step, seconds from the last step before to the first after."""
    steps_lost: int
    """Steps that were trained again because of moves."""
    crashes: int
    category: Category
    """What its first replica was last said to be."""
    steps: int
    """The furthest step that a replica of it reported."""
    gain_seconds: float | None = None
    """From submission to 98 % of what it gained; None where nobody measured it."""


class Machine(Struct, frozen=True, kw_only=True):
    """Where it ran."""

    nodes: int
    cpus: float
    """Cores of all nodes together."""
    names: tuple[str, ...]


class RunResult(Struct, frozen=True, kw_only=True):
    """A whole run."""

    policy: str
    jobs: tuple[JobResult, ...]
    """In the order of submission."""
    average_completion_seconds: float | None
    """Over the jobs that succeeded; None where none did."""
    makespan_seconds: float | None
    """From the first submission to the end of the last job; None while a job has not ended."""
    moves_by_outcome: Mapping[str, int]
    moves: tuple[TransactionResult, ...]
    placements: tuple[PlacementSpan, ...]
    machine: Machine
    load: Load | None = None
    """How busy the machine was meanwhile; None where nobody measured it."""
    changes: tuple[TransactionResult, ...] = ()
    """Admissions, scalings and preemptions, in the order of their begin."""
    workers: Mapping[str, tuple[WorkerCount, ...]] = {}
    """By job."""
    reweighted: int = 0
    """How often a replica was given another weight."""

    @property
    def moved(self) -> int:
        """Moves that succeeded."""
        return self.moves_by_outcome.get(TransactionState.SUCCEEDED, 0)

    @property
    def preemptions(self) -> int:
        """Preemptions that succeeded."""
        succeeded = TransactionState.SUCCEEDED
        return sum(each.kind is Kind.PREEMPT and each.state is succeeded for each in self.changes)

    @property
    def steps_lost(self) -> int:
        """Steps that were trained again because of moves and changes."""
        return sum(each.steps_lost or 0 for each in (*self.moves, *self.changes))

    @property
    def acted(self) -> bool:
        """Whether anything that trained was moved, scaled, preempted or reweighted, and not only placed."""
        moved = any(job.moves or job.downtimes for job in self.jobs)
        return moved or self.reweighted > 0 or any(change.workers_before > 0 for change in self.changes)


def summarize(state: State, *, began: float, placements: Iterable[PlacementSpan] = ()) -> RunResult:
    """Return the result of a run from its last state.

    `began` and the placements are on the clock of the manager.
    """
    jobs = sorted(state.jobs.values(), key=lambda job: job.order)
    known = (*state.history, *state.transactions.values())
    moves = [each for each in known if each.kind is Kind.MOVE]
    results = tuple(_job(state, job, moves, began) for job in jobs)
    completions = [job.completion_seconds for job in results if job.completion_seconds is not None]
    ends = [job.finished_at for job in results if job.finished_at is not None]
    complete = bool(results) and len(ends) == len(results)
    return RunResult(
        policy=state.settings.policy,
        jobs=results,
        average_completion_seconds=sum(completions) / len(completions) if completions else None,
        makespan_seconds=max(ends) - min(job.submitted_at for job in results) if complete else None,
        moves_by_outcome=dict(Counter(str(move.state) for move in moves)),
        moves=tuple(result_of(move, began) for move in moves),
        placements=tuple(placement.since(began) for placement in placements),
        machine=Machine(
            nodes=len(state.nodes),
            cpus=sum(node.capacity.cpu for node in state.nodes.values()),
            names=tuple(state.nodes),
        ),
    )


def _job(state: State, job: Job, moves: Iterable[Transaction], began: float) -> JobResult:
    replicas = [state.replicas[name] for name in job.spec.replicas if name in state.replicas]
    present = [replica for replica in replicas if replica.phase is not Phase.ABSENT]
    succeeded = job.ended_at is not None and all(replica.phase is Phase.SUCCEEDED for replica in present)
    own = [move for move in moves if move.job == job.name]
    return JobResult(
        name=job.name,
        submitted_at=job.submitted_at - began,
        finished_at=None if job.ended_at is None else job.ended_at - began,
        completion_seconds=job.ended_at - job.submitted_at
        if succeeded and job.ended_at is not None
        else None,
        succeeded=succeeded,
        moves=sum(replica.moves for replica in replicas),
        downtimes=tuple(move.downtime for move in own if move.downtime is not None),
        steps_lost=sum(move.steps_lost or 0 for move in own),
        crashes=sum(replica.crashes for replica in replicas),
        category=replicas[0].progress.category if replicas else Category.UNKNOWN,
        steps=max((replica.progress.step or 0 for replica in replicas), default=0),
    )


def to_table(result: RunResult) -> Table:
    """Return a line per job, times in seconds; a job that failed is red, one that has not ended yellow."""
    table = Table(
        title=f"policy {result.policy}, times in seconds",
        title_justify="left",
        box=None,
        padding=(0, 2, 0, 0),
    )
    table.add_column("job", overflow="fold")
    for title in ("submitted", "finished", "completion", "moves", "steps lost"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("downtimes", overflow="fold")
    for job in result.jobs:
        failed = job.finished_at is not None and not job.succeeded
        table.add_row(
            Text(job_label(job.name)),
            f"{job.submitted_at:.1f}",
            "-" if job.finished_at is None else f"{job.finished_at:.1f}",
            "failed" if failed else format_seconds(job.completion_seconds, "not ended"),
            str(job.moves),
            str(job.steps_lost),
            ", ".join(f"{downtime:.1f}" for downtime in job.downtimes),
            style="red" if failed else "" if job.succeeded else "yellow",
        )
    if not result.jobs:
        table.add_row("no jobs")
    return table


def format_seconds(value: float | None, unknown: str) -> str:
    """Return seconds with one decimal, or `unknown` for None."""
    return unknown if value is None else f"{value:.1f}"


def print_result(result: RunResult, console: Console) -> None:
    """Print the table of the jobs, then what the run came to as a whole."""
    console.print(to_table(result))
    for line in conclusions(result):
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def conclusions(result: RunResult) -> list[str]:
    """Return in words what the run came to; jobs that do not count in a mean are named as such."""
    succeeded = sum(job.succeeded for job in result.jobs)
    ended = sum(job.finished_at is not None for job in result.jobs)
    missing = [f"{ended - succeeded} failed"] * (ended > succeeded)
    missing += [f"{len(result.jobs) - ended} not ended"] * (ended < len(result.jobs))
    of = f", {format_count(succeeded, 'job')}" + (f" ({', '.join(missing)})" if missing else "")
    outcomes = ", ".join(f"{count} {outcome}" for outcome, count in result.moves_by_outcome.items())
    machine = result.machine
    average, makespan = result.average_completion_seconds, result.makespan_seconds
    return [
        "average completion " + ("unknown" if average is None else f"{average:.1f} s") + of,
        "makespan " + ("unknown" if makespan is None else f"{makespan:.1f} s"),
        f"moves: {outcomes or 'none'}",
        f"machine: {format_count(machine.nodes, 'node')}, {format_count(machine.cpus, 'CPU')}",
    ]


__all__ = [
    "JobResult",
    "Machine",
    "PlacementLog",
    "PlacementSpan",
    "RunResult",
    "conclusions",
    "format_seconds",
    "print_result",
    "summarize",
    "to_table",
]
