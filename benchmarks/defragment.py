"""How long it takes to find moves that make room, on 500 nodes on which 41 jobs have 410 pods.

`python benchmarks/defragment.py [--json FILE]`. Each pod has half of a node for itself, and the job that
waits needs whole nodes, more than are empty: as gangs of ten pods each, as single pods, and where nothing may
be moved.
Times are processor time. Beside the plan stand three Ticks: one that begins the plan, one that knows that
nothing can be done, and one in which nothing waits. Each is a multiple of the same Tick without the plan.
"""

import time
from collections.abc import Callable, Mapping

import msgspec

import figure
from figure import Figure, percentile
from specon_manager.core.admission_gate import prepare
from specon_manager.core.defragment import outlooks
from specon_manager.core.state import State
from specon_manager.core.step import step
from specon_manager.model.cluster import Job, JobSpec, Node, Phase, Replica
from specon_manager.model.events import Tick
from specon_manager.model.progress import Progress
from specon_manager.model.resources import Resources
from specon_manager.model.settings import Gate, Settings
from specon_sidecar.classify import Category

NOW = 1000.0
NODES, JOBS, PODS = 500, 41, 10
_GPUS = 8.0
_TIMES = 5
_LACKING = 30
"""Nodes that have to be emptied."""


def cluster(nodes: int, jobs: int, pods: int, *, lacking: int, movable: bool = True) -> State:
    """Return a full state: each pod on a node of its own, and a gang that waits for empty nodes."""
    names = [f"node-{index}" for index in range(nodes)]
    state = State(
        settings=Settings(policy="quota-fifo", defragment="on", gate=Gate(horizon=3600.0)),
        nodes={name: Node(name=name, capacity=Resources(gpu=_GPUS)) for name in names},
    )
    where = iter(names)
    for number in range(jobs):
        spec = _spec(f"job-{number}", pods, _GPUS / 2, movable=movable)
        state = _added(state, spec, {name: next(where) for name in spec.replicas})
    return _added(state, _spec("waiting", nodes - jobs * pods + lacking, _GPUS, movable=True), {})


def _spec(name: str, pods: int, gpus: float, *, movable: bool) -> JobSpec:
    full = f"default/{name}"
    return JobSpec(
        name=full,
        replicas=tuple(f"{full}/worker/{index}" for index in range(pods)),
        requests=Resources(gpu=gpus),
        resizing="none",
        migratable=movable,
    )


def _added(state: State, spec: JobSpec, placement: Mapping[str, str]) -> State:
    """Return the state with a job that trains where it is placed, or waits."""
    trains = 1.0 if placement else None
    job = Job(spec=spec, order=len(state.jobs), submitted_at=0.0, trains_since=trains, admitted_at=trains)
    replicas = {
        name: Replica(
            name=name,
            job=spec.name,
            index=index,
            requests=spec.requests,
            phase=Phase.RUNNING if placement else Phase.PENDING,
            node=placement.get(name),
            incarnation="1" if placement else None,
            starts=int(bool(placement)),
            progress=Progress(category=Category.PROGRESSING, metric="loss", step=100, step_interval=1.0),
        )
        for index, name in enumerate(spec.replicas)
    }
    return msgspec.structs.replace(
        state, jobs={**state.jobs, spec.name: job}, replicas={**state.replicas, **replicas}
    )


def planned(state: State) -> tuple[float, int]:
    """Return the milliseconds until the plan for the job that waits is there, and how many moves it has."""
    state, snapshot = prepare(state, NOW)
    before = time.process_time()
    (outlook,) = outlooks(state, snapshot)
    passed = 1000 * (time.process_time() - before)
    return passed, 0 if outlook.plan is None else len(outlook.plan.moves)


def measure(
    nodes: int = NODES, jobs: int = JOBS, lacking: int = _LACKING, times: int = _TIMES
) -> list[Figure]:
    """Measure the plans, and the Ticks with and without them."""
    scenes = {
        f"{jobs} gangs of {PODS} pods": cluster(nodes, jobs, PODS, lacking=lacking),
        f"{jobs * PODS} single pods": cluster(nodes, jobs * PODS, 1, lacking=lacking),
        "nothing may be moved": cluster(nodes, jobs, PODS, lacking=lacking, movable=False),
    }
    figures = []
    for title, state in scenes.items():
        plans = [planned(state) for _ in range(times)]
        figures.append(
            Figure(
                what=f"{title}: a plan",
                value=percentile([passed for passed, _ in plans], 0.5),
                unit="ms",
                at_most=1000.0 if nodes == NODES else None,
                note=f"{plans[0][1]} moves, {nodes} nodes",
            )
        )
    gangs, _, fixed = scenes.values()
    known, _ = step(fixed, Tick(), NOW)
    quiet = msgspec.structs.replace(
        gangs,
        jobs={name: job for name, job in gangs.jobs.items() if job.trains_since is not None},
        replicas={name: each for name, each in gangs.replicas.items() if each.node is not None},
    )
    ticks = {"a plan begins": gangs, "known to be of no use": known, "nothing waits": quiet}
    for title, state in ticks.items():
        off = msgspec.structs.replace(
            state, settings=msgspec.structs.replace(state.settings, defragment="off")
        )
        with_it, without = _tick(state, times), _tick(off, times)
        note = f"{with_it / without:.1f} times the Tick without"
        figures.append(Figure(what=f"a Tick, {title}", value=with_it, unit="ms", note=note))
    return figures


def _tick(state: State, times: int) -> float:
    return percentile([_timed(lambda: step(state, Tick(), NOW)) for _ in range(times)], 0.5)


def _timed(work: Callable[[], object]) -> float:
    before = time.process_time()
    work()
    return 1000 * (time.process_time() - before)


def smallest() -> list[Figure]:
    """Give every figure, of next to nothing."""
    return measure(nodes=12, jobs=1, lacking=1, times=1)


if __name__ == "__main__":
    figure.main(__doc__, measure, smallest)
