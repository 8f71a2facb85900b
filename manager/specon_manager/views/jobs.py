"""A job on one line: where its replicas are, how it goes, and the action on it."""

from msgspec import Struct

from specon_manager.core.state import State
from specon_manager.model.cluster import Job, Replica
from specon_manager.views.amounts import gain_text, steps_text, value_text
from specon_manager.views.names import job_label, printable
from specon_manager.views.transactions import row_of, side_words
from specon_manager.views.words import ShownState, word_for


class JobRow(Struct, frozen=True, kw_only=True):
    """A job in words and numbers, those of the replica that stands for it."""

    label: str
    nodes: str
    word: ShownState
    metric: str | None
    value: str
    step: str
    done: float | None
    """Share of the steps, None where the total is not known."""
    gain: str
    moves: int
    """Of its replicas, that succeeded."""
    doing: str
    """The action on it now, and how far that is; empty where there is none."""
    stuck: bool
    """Whether that cannot come to an end."""
    crashes: int
    took: float | None
    """From submission to the end, seconds; None where it has not ended."""


def job_row(state: State, job: Job) -> JobRow:
    """Return the row of a job."""
    lead, replicas = lead_of(state, job), _members(state, job)
    nodes = dict.fromkeys(replica.node for replica in replicas if replica.active and replica.node)
    step, done = steps_text(lead.progress)
    doing, stuck = _doing(state, job)
    return JobRow(
        label=job_label(job.name),
        nodes=printable(",".join(nodes)) or "-",
        word=word_for(state, lead),
        metric=lead.progress.metric,
        value=value_text(lead.progress.value),
        step=step,
        done=done,
        gain=gain_text(lead.progress.gain),
        moves=sum(replica.moves for replica in replicas),
        doing=doing,
        stuck=stuck,
        crashes=sum(replica.crashes for replica in replicas),
        took=None if job.ended_at is None else job.ended_at - job.submitted_at,
    )


def lead_of(state: State, job: Job) -> Replica:
    """Return the replica that stands for its job: the first that is being moved, runs, or is there at all."""
    moving = {name for each in state.transactions_of(job.name) if not each.whole for name in each.concerned}
    replicas = sorted(_members(state, job), key=lambda each: (each.name not in moving, not each.active))
    return replicas[0] if replicas else Replica(name=job.name, job=job.name)


def _members(state: State, job: Job) -> list[Replica]:
    return [state.replicas[name] for name in job.spec.replicas if name in state.replicas]


def _doing(state: State, job: Job) -> tuple[str, bool]:
    """Return the transaction in flight of a job, the move of a replica before all else."""
    flying = sorted(state.transactions_of(job.name), key=lambda each: each.whole)
    if not flying:
        return "", False
    row = row_of(flying[0], state)
    begin, way = (" ", f"-> {side_words(row.destination)}") if row.is_move else (", ", row.what)
    words = f"{way} {row.state}" + (", stuck" if row.stuck else "")
    return begin + printable(words), bool(row.stuck)
