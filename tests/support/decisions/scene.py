"""States built by hand, one step after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from specon_manager.core.state import State
from specon_manager.model.actions import Decision
from specon_manager.model.cluster import Job, JobSpec, Node, Phase, Replica, job_of
from specon_manager.model.progress import Progress
from specon_manager.model.resources import Resources
from specon_manager.model.settings import Settings
from specon_manager.model.transactions import Kind, Request, Transaction, TransactionState, Witness
from specon_sidecar.classify import Category

if TYPE_CHECKING:
    from specon_manager.model.actions import Refusal


class Scene:
    """States built by hand, one step after the other; the manager's clock began at 1000."""

    began = 1000.0

    def __init__(self, nodes: int = 2) -> None:
        names = [f"node-{number}" for number in range(nodes)]
        capacity, usage = Resources(cpu=2.0), Resources(cpu=1.5)
        nodes = {name: Node(name=name, capacity=capacity, usage=usage) for name in names}
        self.state = State(settings=Settings(policy="specon"), nodes=nodes)

    def job(self, name: str = "default/mnist", *, replicas: int = 1, at: float = 0.0) -> str:
        """Submit a job `at` seconds after the begin; return the name of its first replica."""
        names = tuple(f"{name}/worker/{index}" for index in range(replicas))
        job = Job(
            spec=JobSpec(name=name, replicas=names),
            order=len(self.state.jobs),
            submitted_at=self.began + at,
        )
        fresh = {each: Replica(name=each, job=name) for each in names}
        self._set(jobs={**self.state.jobs, name: job}, replicas={**self.state.replicas, **fresh})
        return names[0]

    def replica(self, name: str, **fields: Any) -> None:
        """Change fields of a replica."""
        changed = msgspec.structs.replace(self.state.replicas[name], **fields)
        self._set(replicas={**self.state.replicas, name: changed})

    def running(self, name: str, node: str = "node-0", **progress: Any) -> None:
        """Have a replica run, with what its sidecar said."""
        fields = {"category": Category.PROGRESSING, "metric": "loss", **progress}
        starts = self.state.replicas[name].starts + 1
        self.replica(
            name,
            phase=Phase.RUNNING,
            node=node,
            starts=starts,
            incarnation=f"{name}-{starts}",
            progress=Progress(**fields),
        )

    def end(self, name: str, *, at: float, phase: Phase = Phase.SUCCEEDED) -> None:
        """End a replica and its job."""
        self.replica(name, phase=phase, ended_at=self.began + at, incarnation=None)
        job = self.state.jobs[self.state.replicas[name].job]
        ended = msgspec.structs.replace(job, ended_at=self.began + at)
        self._set(jobs={**self.state.jobs, job.name: ended})

    def move(
        self,
        replica: str,
        state: TransactionState,
        *,
        at: float = 10.0,
        source: str = "node-0",
        target: str = "node-1",
        **fields: Any,
    ) -> Transaction:
        """Put a move of the replica in flight, or into the history where it has ended."""
        witness = {name: fields.pop(name) for name in list(fields) if name in Witness.__struct_fields__}
        values = {
            "id": "move-1",
            "job": job_of(replica),
            "before": {replica: source},
            "after": {replica: target},
            "policy": "specon",
            "purpose": "migrate",
            "reason": "converged",
            "proposed_at": self.began + at,
            "deadline": self.began + at + 60,
            "witnesses": {replica: Witness(incarnation="x", **witness)},
        }
        return self.transaction(Transaction(**{"kind": Kind.MOVE, "state": state, **values, **fields}))

    def transaction(self, transaction: Transaction) -> Transaction:
        """Put a transaction in flight, or into the history where it has ended."""
        flying = {name: other for name, other in self.state.transactions.items() if name != transaction.id}
        if transaction.in_flight:
            self._set(transactions={**flying, transaction.id: transaction})
        else:
            self._set(transactions=flying, history=(*self.state.history, transaction))
        return transaction

    def request(self, replica: str, *, name: str = "request-1", at: float = 10.0, **fields: Any) -> None:
        """Let somebody have asked for a move that waits."""
        values = {"target": "node-1", "reason": "for maintenance", "waits_for": "4 moves are in flight"}
        request = Request(id=name, replica=replica, at=self.began + at, **{**values, **fields})
        self._set(requests={**self.state.requests, name: request})

    def decided(
        self, replica: str, proposal: str, reason: str, *, at: float = 1.0, refusal: Refusal | None = None
    ) -> None:
        """Add a decision."""
        decision = Decision(
            at=self.began + at,
            replica=replica,
            policy="specon",
            proposal=proposal,
            reason=reason,
            refusal=refusal,
        )
        self._set(decisions=(*self.state.decisions, decision))

    def _set(self, **fields: Any) -> None:
        self.state = msgspec.structs.replace(self.state, **fields)
