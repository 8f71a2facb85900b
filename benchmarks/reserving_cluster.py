"""A large cluster whose jobs reserve what they need: elastic gangs with GPUs, trials, and a queue.

Eight GPUs and ten replicas per node, all of it taken; one job waits for each hundred that run.
"""

from collections.abc import Iterable
from random import Random

import msgspec

from specon_manager.core.state import State
from specon_manager.core.step import step
from specon_manager.model.actions import Action, EvictReplica, StartReplica
from specon_manager.model.cluster import Job, JobSpec, Node, Phase, Replica
from specon_manager.model.events import JobSubmitted, ReplicaGone, ReplicaStarted
from specon_manager.model.resources import Resources
from specon_manager.model.settings import Settings
from synthetic_cluster import NOW, progress_of

_GPUS = 8
_CAPACITY = Resources(cpu=24.0, memory=256e9, gpu=_GPUS)
_WITH_GPU = Resources(cpu=2.0, memory=16e9, gpu=1.0)
_WITHOUT = Resources(cpu=4.0, memory=16e9)
_WITHOUT_PER_NODE = 2
_SIZES, _SHARES = (1, 2, 4, 8), (60, 20, 12, 8)
_TRIALS = 0.1
_WAITING = 0.01
_LONGEST = 3600.0
"""Since when a job may be running, seconds."""
_ENDING = 0.0005
"""Which share of the jobs completes before each Tick; as many are submitted."""


def cluster(
    nodes: int, *, seed: int = 0, settings: Settings | None = None, waiting: float = _WAITING
) -> State:
    """Return a full cluster of so many nodes, and a queue of so many jobs for each that runs."""
    rng = Random(seed)
    names = [f"node-{index}" for index in range(nodes)]
    jobs: dict[str, Job] = {}
    replicas: dict[str, Replica] = {}

    def add(spec: JobSpec, node: str) -> None:
        began = NOW - rng.uniform(0, _LONGEST)
        job = Job(spec=spec, order=len(jobs), submitted_at=began - 60, admitted_at=began, trains_since=began)
        jobs[job.name] = job
        for index, name in enumerate(spec.replicas):
            replicas[name] = Replica(
                name=name,
                job=job.name,
                index=index,
                requests=spec.requests,
                phase=Phase.RUNNING,
                node=node,
                incarnation="0001",
                starts=1,
                progress=progress_of(rng),
            )

    for node in names:
        free = _GPUS
        while free:
            size = rng.choices(_SIZES, _SHARES)[0]
            if size <= free:
                add(_spec(len(jobs), size, _WITH_GPU, rng), node)
                free -= size
        for _ in range(_WITHOUT_PER_NODE):
            add(_spec(len(jobs), 1, _WITHOUT, rng), node)
    state = State(
        settings=settings or Settings(policy="progress"),
        nodes={name: Node(name=name, capacity=_CAPACITY) for name in names},
        jobs=jobs,
        replicas=replicas,
        job_count=len(jobs),
    )
    return _submitted(state, round(waiting * len(jobs)), rng, NOW)


def with_trials(state: State, count: int, now: float) -> State:
    """Return the cluster after so many trials of one worker with a GPU were submitted."""
    rng = Random(2)
    for _ in range(count):
        spec = msgspec.structs.replace(_spec(state.job_count, 1, _WITH_GPU, rng), job_class="trial")
        state, _ = step(state, JobSubmitted(spec), now)
    return state.flatten()


def turned_over(state: State, rng: Random, now: float) -> State:
    """Return the cluster after a few jobs have completed, and as many were submitted."""
    running = [job for job in state.jobs.values() if job.trains_since is not None]
    chosen = rng.sample(running, max(1, round(_ENDING * len(running))))
    for job in chosen:
        for name in job.spec.replicas:
            replica = state.replicas[name]
            if replica.phase is Phase.RUNNING:
                gone = ReplicaGone(replica=name, incarnation=replica.incarnation, exit_code=0)
                state, _ = step(state, gone, now)
    return _submitted(state, len(chosen), rng, now).flatten()


def reported(state: State, rng: Random, now: float) -> State:
    """Return the cluster after each replica that runs went on as it had: its sidecar says so."""
    told = {}
    for name, replica in state.replicas.items():
        progress = replica.progress
        left = progress.remaining_seconds
        if replica.phase is not Phase.RUNNING or left is None or progress.step is None:
            continue
        left = msgspec.structs.replace(left, value=max(1.0, left.value - 5.0 + rng.uniform(-1, 1)))
        step_now = min(progress.step + 10, progress.total_steps or progress.step)
        progress = msgspec.structs.replace(
            progress, step=step_now, step_at=now - 1, reported_at=now, remaining_seconds=left
        )
        told[name] = msgspec.structs.replace(replica, progress=progress)
    return msgspec.structs.replace(state, replicas={**state.replicas, **told})


def carried_out(state: State, actions: Iterable[Action], now: float) -> State:
    """Return the cluster after the backend has started and ended what it was told to."""
    for action in actions:
        if isinstance(action, StartReplica):
            started = ReplicaStarted(
                replica=action.replica, incarnation=f"{action.start:04}", node=action.node
            )
            state, _ = step(state, started, now)
        elif isinstance(action, EvictReplica):
            ended = ReplicaGone(replica=action.replica, incarnation=action.incarnation, evicted=True)
            state, _ = step(state, ended, now)
    return msgspec.structs.replace(state.flatten(), transactions={})


def _submitted(state: State, count: int, rng: Random, now: float) -> State:
    for _ in range(count):
        plain = rng.random() < _WITHOUT_PER_NODE / (_WITHOUT_PER_NODE + _GPUS)
        size = 1 if plain else rng.choices(_SIZES, _SHARES)[0]
        spec = _spec(state.job_count, size, _WITHOUT if plain else _WITH_GPU, rng)
        state, _ = step(state, JobSubmitted(spec), now)
    return state.flatten()


def _spec(order: int, size: int, requests: Resources, rng: Random) -> JobSpec:
    """Return a gang of so many workers; of several, half as many are enough."""
    name = f"team-{order % 40}/gang-{order}"
    return JobSpec(
        name=name,
        replicas=tuple(f"{name}/worker/{index}" for index in range(size)),
        requests=requests,
        workers=size,
        min_workers=max(1, size // 2),
        job_class="trial" if rng.random() < _TRIALS else "best-effort",
    )
