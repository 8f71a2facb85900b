"""The manager's whole memory as one immutable record."""

from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import Struct, field

from specon_manager.model.actions import Action, Decision
from specon_manager.model.cluster import Claimed, Job, Node, Replica, Served, Unwanted
from specon_manager.model.overlay import change_one, flat
from specon_manager.model.paces import KindPaces, Tried
from specon_manager.model.queues import Queue, QueueShare
from specon_manager.model.settings import Settings
from specon_manager.model.snapshot import Snapshot
from specon_manager.model.transactions import Request, Transaction

HISTORY: Final = 500
"""How many transactions that ended are remembered."""


def unwanted_key(replica: str, incarnation: str) -> str:
    """Return the key of an unwanted incarnation: its name is unique among those of its replica only."""
    return f"{replica} {incarnation}"


class Measured(Struct, frozen=True, kw_only=True):
    """What moves have cost so far, also those that did not succeed, as running means."""

    moves: int = 0
    downtime: float = 0.0
    steps_lost: float = 0.0


class Pause(Struct, frozen=True, kw_only=True):
    """Since when nothing new is ordered, and why, as the person who paused the manager says."""

    since: float
    reason: str = ""


class MakingRoom(Struct, frozen=True, kw_only=True):
    """The record of moves that make room for jobs that wait (`core/defragment.py`)."""

    job: str = ""
    """The job for which room is made, and kept by a claim; empty where there is none."""
    unhelped: Mapping[str, int] = field(default_factory=dict)
    """Jobs for which there is nothing to be done, with the mark of the cluster as it was then."""


class State(Struct, frozen=True, kw_only=True):
    """Everything known. `step` makes a new one; nothing in it is ever changed in place."""

    settings: Settings = Settings()
    nodes: Mapping[str, Node] = field(default_factory=dict)
    jobs: Mapping[str, Job] = field(default_factory=dict)
    replicas: Mapping[str, Replica] = field(default_factory=dict)
    transactions: Mapping[str, Transaction] = field(default_factory=dict)
    """Those in flight, by id."""
    transaction_count: int = 0
    history: tuple[Transaction, ...] = ()
    """Transactions that ended, oldest first, the latest few hundred."""
    requests: Mapping[str, Request] = field(default_factory=dict)
    """Moves that were asked for and wait for others in flight, by id, oldest first."""
    verdicts: Mapping[str, Decision] = field(default_factory=dict)
    """The last decision on each replica."""
    decisions: tuple[Decision, ...] = ()
    """The latest decisions, oldest first, each only when it differs from the one before on that replica."""
    measured: Measured = Measured()
    job_count: int = 0
    """How many jobs were ever submitted."""
    ended_jobs: tuple[str, ...] = ()
    """Those of `jobs` that ended, in that order."""
    claims: Mapping[str, Claimed] = field(default_factory=dict)
    """Room that is kept for waiting jobs, by job."""
    served: Mapping[str, Served] = field(default_factory=dict)
    """How long completed jobs trained, by kind."""
    paces: Mapping[str, Mapping[int, float]] = field(default_factory=dict)
    """Seconds per step by number of workers, by kind of elastic job; of a job without a kind by its name."""
    setup_paces: Mapping[str, KindPaces] = field(default_factory=dict)
    """How fast jobs train as they are set up, by kind; of a job without a kind by its name."""
    tried: Mapping[str, Tried] = field(default_factory=dict)
    """What came of moving jobs that run now to setups that were measured to be faster, by job."""
    faster_after: str = ""
    """The last job in the search for one that can move to a faster setup; empty: all were looked at."""
    changed_at: float = 0.0
    """When a job was last admitted, scaled or preempted."""
    making_room: MakingRoom = MakingRoom()
    pause: Pause | None = None
    """Set while nothing new is to be ordered."""
    queues: Mapping[str, Queue] = field(default_factory=dict)
    """By name; none at all: no quotas."""
    shares: Mapping[str, QueueShare] = field(default_factory=dict)
    """What each queue has used over time, by name; empty unless queues have turns."""
    unwanted: Mapping[str, Unwanted] = field(default_factory=dict)
    """Incarnations that nobody wants and that are told to end until they are gone, by `unwanted_key`."""

    def snapshot(self, now: float) -> Snapshot:
        """Return what policies may look at."""
        return Snapshot(
            now=now,
            nodes=self.nodes,
            jobs=self.jobs,
            replicas=self.replicas,
            transactions=self.transactions,
            claims=self.claims,
            served=self.served,
            paces=self.paces,
            setup_paces=self.setup_paces,
            changed_at=self.changed_at,
            queues=self.queues,
            settings=self.settings,
        )

    def flatten(self) -> "State":
        """Return the same state in the form that is quick to go through."""
        replicas, jobs = flat(self.replicas), flat(self.jobs)
        if replicas is self.replicas and jobs is self.jobs:
            return self
        return msgspec.structs.replace(self, replicas=replicas, jobs=jobs)

    def with_replica(self, replica: Replica) -> "State":
        """Return the state with this replica in place of its former record."""
        return msgspec.structs.replace(self, replicas=change_one(self.replicas, replica.name, replica))

    def with_job(self, job: Job) -> "State":
        """Return the state with this job in place of its former record."""
        return msgspec.structs.replace(self, jobs=change_one(self.jobs, job.name, job))

    def with_transaction(self, transaction: Transaction) -> "State":
        """Return the state with this transaction in flight."""
        return msgspec.structs.replace(self, transactions={**self.transactions, transaction.id: transaction})

    def transaction_of(self, replica: str) -> Transaction | None:
        """Return the transaction in flight that a replica is in."""
        flying = self.transactions.values()  # asked at each report
        return next((each for each in flying if replica in each.before or replica in each.after), None)

    def has_unwanted(self, replica: str) -> bool:
        """Whether an incarnation of it still lives that nobody wants: until that is gone, none is started."""
        return any(each.replica == replica for each in self.unwanted.values())

    def transactions_of(self, job: str) -> list[Transaction]:
        """Return the transactions in flight of a job, oldest first."""
        return [each for each in self.transactions.values() if each.job == job]

    def whole_transaction_of(self, job: str) -> Transaction | None:
        """Return the transaction in flight of a job as a whole."""
        return next((each for each in self.transactions.values() if each.job == job and each.whole), None)


Step = tuple[State, list[Action]]
"""What a part of `step` returns: the state afterwards, and the orders."""
