"""States in which jobs are changed as a whole and wait."""

import msgspec

from specon_manager.core.state import State
from specon_manager.model.cluster import JobSpec, Node
from specon_manager.model.queues import Queue
from specon_manager.model.resources import Resources
from specon_manager.model.settings import Settings
from specon_manager.model.transactions import Kind, Transaction, TransactionState, Witness
from specon_sidecar.wire import Checkpoint
from support.decisions.gangs import gang, on, server, with_gang, worker

NOW = 1000.0
SECONDS_WAITED = 400.0
CHECKPOINT = Checkpoint(step=70, path="/c", digest="0" * 64)
ASKED = Witness(incarnation="0001")


def nodes(*, cpu: float = 4.0, count: int = 2) -> State:
    """Return a state with nodes and nothing on them."""
    capacity = Resources(cpu=cpu, memory=8e9)
    found = {f"node-{index}": Node(name=f"node-{index}", capacity=capacity) for index in range(count)}
    return State(settings=Settings(policy="fifo"), nodes=found)


def elastic(name: str = "e", *, workers: int = 2, **fields: object) -> JobSpec:
    """Return a job of one parameter server and 1 to 3 workers that is changed by transactions."""
    return gang(name, workers, ps=1, most=3, fewest=1, resizing="restart", **fields)


def change(
    kind: Kind = Kind.SCALE_OUT, *, job: str = "e", witness: Witness | None = None, **fields: object
) -> Transaction:
    """Return a transaction of a job with two workers, to three (to none, where it is preempted)."""
    before = on("node-0", server(job), worker(job, 0), worker(job, 1))
    after = {} if kind is Kind.PREEMPT else {**before, worker(job, 2): "node-1"}
    known: dict[str, object] = {
        "id": "change-1",
        "job": f"default/{job}",
        "kind": kind,
        "policy": "kod2",
        "reason": "room is idle",
        "state": TransactionState.CHECKPOINTING,
        "proposed_at": NOW - 20,
        "deadline": NOW + 60,
        "before": before,
        "after": after,
        "whole": True,
        "restart": kind is not Kind.PREEMPT,
        "witnesses": {worker(job): witness or Witness(incarnation=f"{worker(job)}.1")},
        **fields,
    }
    return Transaction(**known)


def ended(
    number: int, kind: Kind = Kind.SCALE_OUT, *, downtime: float | None = 3.0, **fields: object
) -> Transaction:
    """Return a transaction that succeeded after 12 s with 3 s of downtime."""
    job = fields.get("job", "e")
    proof = Witness(
        incarnation=f"{worker(job)}.1",
        answered=True,
        checkpoint=CHECKPOINT,
        proven=downtime is not None,
        downtime=downtime,
    )
    known: dict[str, object] = {
        "id": f"change-{number}",
        "state": TransactionState.SUCCEEDED,
        "ended_at": NOW - 8,
        "witnesses": {worker(job): proof},
        **fields,
    }
    return change(kind, **known)


def changing() -> State:
    """Return a state with a job that trains and is being scaled, a queue with a quota, and one who waits."""
    state = msgspec.structs.replace(
        nodes(),
        settings=Settings(policy="fifo", starvation=100.0),
        queues={"team": Queue(name="team", quota=Resources(cpu=2.0, memory=1e9), borrow=False)},
    )
    placed = on("node-0", server("e"), worker("e", 0), worker("e", 1))
    state = with_gang(state, elastic(queue="team"), placed)
    state = with_gang(state, elastic("w", queue="team"), {}, queued_at=NOW - SECONDS_WAITED)
    return state.with_transaction(change())
