"""How long it takes until moves have made room on a cluster of 500 nodes on which 41 jobs have 410 pods.

`python benchmarks/defragment_cluster.py [--json FILE]`. One process holds the API server of the tests with
its scheduler, kubelets and Job controller, a whole manager, and a sidecar for each pod that reports to it
over TLS every ten seconds. Each pod has half of a node for itself; then a gang is created that needs whole
nodes, 30 more than are empty. The time goes from there until all of its pods run.
Seconds are those of a machine that has nothing else to do: work counts as the processor time that it takes,
that of the simulated cluster too, and waiting as long as it is to last.
"""

import asyncio
import logging
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import child
import figure
from defragment import JOBS, NODES, PODS
from figure import Figure
from specon_manager.core.state import State
from specon_manager.model.cluster import Phase
from specon_manager.model.settings import Gate, Settings
from specon_manager.model.transactions import Transaction, TransactionState

sys.path.insert(0, str(child.HERE.parent / "tests"))  # the simulated cluster is that of the tests

from fakekube.kinds import JOBS as JOB_KIND
from specon_manager.backends.kube.backend import KubeSettings
from support.clocks.fair_time import fair_now
from support.kube.cluster_stage import ClusterStage
from support.kube.training_templates import training_template

BOUND = 60.0
_LACKING = 30
"""Nodes that have to be emptied."""
_GPUS = 8
_HEARTBEAT = 10.0
_PATIENCE = 1800.0
_SETTINGS = Settings(policy="quota-fifo", defragment="on", gate=Gate(horizon=3600.0))


def gang(name: str, pods: int, gpus: int, **annotations: str) -> dict[str, Any]:
    """Return an Indexed Job whose pods train as one and ask for so many GPUs each."""
    template = training_template(name)
    template["metadata"]["annotations"] |= {"specon.io/replicas": "coupled", **annotations}
    gpu = {"nvidia.com/gpu": str(gpus)}
    resources = {"requests": {"cpu": "100m", "memory": "64Mi", **gpu}, "limits": gpu}
    template["spec"]["containers"][0]["resources"] = resources
    spec = {"backoffLimit": 0, "completionMode": "Indexed", "completions": pods, "parallelism": pods}
    return {"metadata": {"name": name}, "spec": {**spec, "template": template}}


async def made_room(nodes: int, jobs: int, lacking: int) -> tuple[float, float, list[Transaction]]:
    """Return the seconds until the first move begins, and until the gang that waits runs, with the moves."""
    with tempfile.TemporaryDirectory() as folder:
        async with ClusterStage(Path(folder), nodes=0, kube=KubeSettings()) as stage:
            stage.rules.close()  # they look at every pod at each change
            stage.sidecars.heartbeat = _HEARTBEAT
            stage.report_from(nodes)
            for number in range(nodes):
                await stage.cluster.add_node(f"node-{number}", extra={"nvidia.com/gpu": str(_GPUS)})
            manager = await stage.manage_and_lead(decisions=_SETTINGS)
            for number in range(jobs):
                await create(stage, gang(f"job-{number}", PODS, _GPUS // 2))
            await stage.until(lambda: train(manager.state, jobs), "all gangs train", seconds=_PATIENCE)
            began, first = fair_now(), list[float]()
            waits = nodes - jobs * PODS + lacking
            await create(stage, gang("waiting", waits, _GPUS, **{"specon.io/queue": "team"}))

            def runs() -> bool:
                if not first and _moves(manager.state):
                    first.append(fair_now() - began)
                return _runs(manager.state, "training/waiting")

            await stage.until(runs, "the gang that waited runs", seconds=_PATIENCE)
            return first[0], fair_now() - began, _moves(manager.state)


async def create(stage: ClusterStage, manifest: dict[str, Any]) -> None:
    """Create a Job where its pods train."""
    await stage.cluster.machinery.create(JOB_KIND, "training", manifest)


def train(state: State, jobs: int) -> bool:
    """Whether all pods run, and the first of each gang has named a step."""
    leads = [state.replicas.get(f"training/job-{number}/worker/0") for number in range(jobs)]
    running = sum(each.phase is Phase.RUNNING for each in state.replicas.values())
    return running == jobs * PODS and all(each is not None and each.progress.step for each in leads)


def _runs(state: State, name: str) -> bool:
    job = state.jobs.get(name)
    return job is not None and all(state.replicas[each].phase is Phase.RUNNING for each in job.spec.replicas)


def _moves(state: State) -> list[Transaction]:
    return [each for each in (*state.history, *state.transactions.values()) if each.purpose == "defragment"]


def measure(nodes: int = NODES, jobs: int = JOBS, lacking: int = _LACKING) -> list[Figure]:
    """Measure it once. Raises RuntimeError where a move failed."""
    logging.disable(logging.WARNING)  # sidecars tell how often they try again until the manager knows them
    began = time.process_time()
    try:
        first, seconds, moves = asyncio.run(made_room(nodes, jobs, lacking))
    finally:
        logging.disable(logging.NOTSET)
    if failed := [each for each in moves if each.state is not TransactionState.SUCCEEDED]:
        raise RuntimeError(f"{failed[0].id} is {failed[0].state}: {failed[0].note}")
    title = f"{jobs} gangs of {PODS} pods on {nodes} nodes"
    return [
        Figure(
            what=f"{title}: until the gang that waited runs",
            value=seconds,
            unit="s",
            at_most=BOUND if nodes == NODES else None,
            note=f"{len(moves)} moves of {PODS} pods, then {nodes - jobs * PODS + lacking} pods start",
        ),
        Figure(what="until the first move begins", value=first, unit="s", note="at the next Tick of 5 s"),
        Figure(what="downtime of a gang that moved", value=median(map(_downtime, moves)), unit="s"),
        Figure(what="steps lost, all moves", value=sum(each.steps_lost or 0 for each in moves), unit=""),
        Figure(
            what="processor time of everything, with the set-up",
            value=time.process_time() - began,
            unit="s",
        ),
    ]


def _downtime(move: Transaction) -> float:
    return move.downtime or 0.0


def smallest() -> list[Figure]:
    """Give every figure, of next to nothing."""
    return measure(nodes=12, jobs=1, lacking=1)


if __name__ == "__main__":
    figure.main(__doc__, measure, smallest)
