"""What a command can see of a manager and ask of it, wherever that manager is."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final, Protocol

import msgspec
from msgspec import Struct

from specon_manager.core.state import State
from specon_manager.model.changes import OVER
from specon_manager.model.moves import FINAL_STATES, Move, MoveState
from specon_manager.model.resources import Resources

ASKED: Final = "Asked"
"""State of a move that nobody has looked at yet."""


class RefusedError(Exception):
    """What was asked for is not done; the text says why."""


class MoveRow(Struct, frozen=True, kw_only=True):
    """A move as commands show it; the fields of `specon moves --output json`. Times are ISO 8601, UTC."""

    id: str
    replica: str
    state: str
    source: str | None = None
    target: str | None = None
    policy: str = ""
    purpose: str = ""
    reason: str = ""
    note: str = ""
    """Why it ended as it did, or what befell it last."""
    attempt: int = 1
    checkpoint_step: int | None = None
    proposed_at: str | None = None
    ended_at: str | None = None
    downtime_seconds: float | None = None
    steps_lost: int | None = None

    @property
    def ended(self) -> bool:
        """Whether nothing more comes of it."""
        return self.state in {str(state) for state in FINAL_STATES}

    @property
    def succeeded(self) -> bool:
        """Whether the replica trains where the move wanted it."""
        return self.state == str(MoveState.SUCCEEDED)


class ChangeRow(Struct, frozen=True, kw_only=True):
    """A change of a job as commands show it; the fields of `specon changes --output json`."""

    id: str
    job: str
    kind: str
    state: str
    policy: str = ""
    reason: str = ""
    note: str = ""
    """Why it ended as it did, or why it goes back."""
    attempt: int = 1
    workers_before: int = 0
    workers_after: int = 0
    restart: bool = False
    """Whether all of the job ends before it starts with another number of workers."""
    beneficiary: str | None = None
    """The job for which room is made."""
    checkpoint_step: int | None = None
    first_step_after: int | None = None
    awaited: str = ""
    """What it waits for, in words; empty where it has ended."""
    deadline: str | None = None
    proposed_at: str | None = None
    ended_at: str | None = None
    downtime_seconds: float | None = None

    @property
    def ended(self) -> bool:
        """Whether nothing more comes of it."""
        return self.state in {str(state) for state in OVER}


class WaitingRow(Struct, frozen=True, kw_only=True):
    """A job that waits to be admitted; the fields of `specon queue --output json`."""

    job: str
    queue: str
    position: int
    """Of the jobs of its queue that wait; 1 is next."""
    overall: int
    """Of all jobs that wait."""
    since: str | None
    kind: str
    """A word for what it waits for; empty of a cluster, whose manager writes down the text alone."""
    text: str


class QueueRow(Struct, frozen=True, kw_only=True):
    """A queue, with what its jobs have together; the fields of `specon queue --output json`."""

    queue: str
    """Empty: of the jobs that name none."""
    quota: Resources | None
    """None: it has none, so that nothing limits its jobs."""
    borrow: bool
    limit: Resources | None
    used: Resources | None
    """None: that is not known."""
    borrowed: Resources | None = None
    """What it uses beyond its quota."""
    running: int = 0
    waiting: int = 0


class Remark(Struct, frozen=True, kw_only=True):
    """Something that was said of a replica or of its owner, as an event of the cluster."""

    at: str
    about: str
    reason: str
    text: str
    warning: bool = False


class View(Struct, frozen=True, kw_only=True):
    """A manager's state at one moment, seconds on its clock."""

    state: State
    now: float
    moves: tuple[MoveRow, ...]
    """In flight and ended, in the order in which they began."""
    changes: tuple[ChangeRow, ...] = ()
    """Changes of jobs, in flight and ended, in the order in which they began."""
    waiting: tuple[WaitingRow, ...] = ()
    """Jobs that wait to be admitted, in the order of submission."""
    queues: tuple[QueueRow, ...] = ()
    """By name."""
    caveats: tuple[str, ...] = ()
    """What is not known of the manager here, in words."""


class Remote(Protocol):
    """A manager. Every method raises UsageError where it cannot be reached, with what to do."""

    @property
    def where(self) -> str:
        """Which manager this is, in words."""

    @property
    def pause_words(self) -> str:
        """What a pause is like here, in words."""

    async def view(self) -> View:
        """Return what is known of replicas and moves."""

    async def whole(self, concerned: Callable[[State], Iterable[str]]) -> View:
        """Return the state with everything that a decision on the replicas `concerned` needs; slower."""

    async def remarks(self, job: str) -> Sequence[Remark]:
        """Return what was said of a job, oldest first."""

    async def objection(self, replica: str) -> tuple[str | None, str | None]:
        """Return what would keep a replica from being evicted, beside what the plan knows; changes nothing.

        Second comes what could not be looked at. Asked after `whole`.
        """

    async def ask(self, replica: str, target: str | None, reason: str) -> MoveRow:
        """Ask for a move. Raises RefusedError."""

    async def move(self, name: str) -> MoveRow | None:
        """Return a move by its id, None where it is not there any more."""

    async def set_pause(self, reason: str | None) -> None:
        """Begin, reword or (None) end a pause."""

    async def cordoned(self, node: str) -> bool | None:
        """Return whether nothing new is placed on a node; None where there is no such thing."""

    async def evidence(self) -> Mapping[str, bytes]:
        """Return files for a support bundle by name, without secrets and each of bounded size."""

    async def close(self) -> None:
        """Let go of connections."""


def row_of(move: Move, name: str | None = None) -> MoveRow:
    """Return a move as commands show it, under its id or another name."""
    return MoveRow(
        id=move.id if name is None else name,
        replica=move.replica,
        state=str(move.state),
        source=move.source or None,
        target=move.target or None,
        policy=move.policy,
        purpose=move.purpose,
        reason=move.reason,
        note=move.note,
        attempt=move.attempt,
        checkpoint_step=None if move.checkpoint is None else move.checkpoint.step,
        proposed_at=iso(move.proposed_at),
        ended_at=iso(move.ended_at),
        downtime_seconds=None if move.downtime is None else round(move.downtime, 3),
        steps_lost=move.steps_lost,
    )


def rows_of(state: State) -> tuple[MoveRow, ...]:
    """Return every move that a state has, in the order in which they began."""
    moves = sorted((*state.history, *state.moves.values()), key=lambda move: (move.proposed_at, move.id))
    return tuple(row_of(move) for move in moves)


def iso(seconds: float | None) -> str | None:
    """Return a time as ISO 8601 in UTC with whole milliseconds; None and 0 are no time."""
    if not seconds:
        return None
    try:
        at = datetime.fromtimestamp(seconds, tz=UTC)
    except (OverflowError, ValueError, OSError):
        return None
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def to_json(value: object) -> str:
    """Return a record as indented JSON for other programs."""
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
