"""A large cluster as the manager knows it: nodes, running replicas of every category, moves in flight."""

from random import Random

import msgspec

from specon_manager.core.state import State
from specon_manager.model.cluster import Job, JobSpec, Node, Phase, Replica
from specon_manager.model.progress import Progress, Session
from specon_manager.model.resources import Resources
from specon_manager.model.settings import Settings
from specon_manager.model.transactions import Kind, Transaction, TransactionState, Witness
from specon_sidecar.classify import Category
from specon_sidecar.classify.curve import Estimate

NOW = 1_000_000.0
PER_NODE = 10
_CORES = 8.0
_REQUESTS = Resources(cpu=0.5, memory=4e9)
_CATEGORIES = (
    Category.CONVERGED,
    Category.PROGRESSING,
    Category.WATCHING,
    Category.UNKNOWN,
    Category.STALLED,
)
_SHARES = (60, 24, 10, 4, 2)
_FLIGHT = (TransactionState.CHECKPOINTING, TransactionState.LEAVING, TransactionState.VERIFYING)
_IDLE_SHARE = 0.02


def cluster(nodes: int, *, balanced: bool, seed: int = 0, settings: Settings | None = None) -> State:
    """Return a cluster with ten replicas per node and three moves in flight.

    Balanced, each node has ten. Unbalanced, one in fifty is idle and the others have from five to fifteen.
    """
    rng = Random(seed)
    names = [f"node-{index}" for index in range(nodes)]
    idle = set() if balanced else set(rng.sample(names, max(1, round(nodes * _IDLE_SHARE))))
    busy = [name for name in names if name not in idle]
    places = busy * PER_NODE if balanced else [name for name in busy for _ in range(rng.randint(5, 15))]
    replicas, jobs = {}, {}
    for order, node in enumerate(places):
        job, replica = _running(order, node, rng)
        jobs[job.name], replicas[replica.name] = job, replica
    moves = {}
    for number, (state, name) in enumerate(
        zip(_FLIGHT, rng.sample(sorted(replicas), len(_FLIGHT)), strict=True)
    ):
        move = _move(number, state, replicas[name], rng.choice(names))
        moves[move.id] = move
    capacity = Resources(cpu=_CORES, memory=128e9)
    return State(
        settings=settings or Settings(policy="specon"),
        nodes={
            name: Node(name=name, capacity=capacity, usage=Resources(cpu=_CORES * rng.random()))
            for name in names
        },
        jobs=jobs,
        replicas=replicas,
        transactions=moves,
        transaction_count=len(moves),
    )


def spec(order: int) -> JobSpec:
    """Return a job of one replica."""
    name = f"team-{order % 40}/job-{order}"
    return JobSpec(name=name, replicas=(f"{name}/worker/0",), requests=_REQUESTS)


def stirred(state: State, share: float, rng: Random) -> State:
    """Return the cluster after so large a share of its replicas reported another category."""
    names = rng.sample(list(state.replicas), round(share * len(state.replicas)))
    moving = {name for each in state.transactions.values() for name in each.concerned}
    changed = {
        name: msgspec.structs.replace(state.replicas[name], progress=progress_of(rng))
        for name in names
        if state.replicas[name].phase is Phase.RUNNING and name not in moving
    }
    return msgspec.structs.replace(state, replicas={**state.replicas, **changed})


def _running(order: int, node: str, rng: Random) -> tuple[Job, Replica]:
    job = Job(spec=spec(order), order=order, submitted_at=NOW - 10_000)
    replica = Replica(
        name=job.spec.replicas[0],
        job=job.name,
        requests=_REQUESTS,
        phase=Phase.RUNNING,
        node=node,
        incarnation="0001",
        starts=1,
        progress=progress_of(rng),
        # Some were moved a moment ago or are at the end of their budget.
        cooldown_until=NOW + 30 if rng.random() < 0.02 else 0.0,
        disrupted=4 if rng.random() < 0.05 else 0,
    )
    return job, replica


def progress_of(rng: Random) -> Progress:
    """Return what a sidecar may have said last: six in ten have converged."""
    step = rng.randrange(1, 90_000)
    return Progress(
        category=rng.choices(_CATEGORIES, _SHARES)[0],
        category_since=NOW - rng.uniform(0, 5_000),
        reason="gain below alpha for two intervals",
        metric="loss",
        value=rng.random(),
        step=step,
        step_at=NOW - 1,
        total_steps=100_000,
        gain=rng.uniform(0, 0.02),
        remaining_seconds=Estimate(value=(100_000 - step) * 0.1, uncertainty=10.0),
        reported_at=NOW - 1,
        sessions=(Session(name="session", sequence=1),),
    )


def _move(number: int, state: TransactionState, replica: Replica, target: str) -> Transaction:
    assert replica.node is not None
    return Transaction(
        id=f"move-{number + 1}",
        kind=Kind.MOVE,
        job=replica.job,
        before={replica.name: replica.node},
        after={replica.name: target},
        policy="specon",
        purpose="migrate",
        reason="converged",
        state=state,
        proposed_at=NOW - 5,
        deadline=NOW + 1e6,
        witnesses={replica.name: Witness(incarnation=replica.incarnation)},
    )
