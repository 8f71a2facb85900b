"""How long it takes until gangs have left 200 nodes that are drained, one move at a time.

`python benchmarks/drain_cluster.py [--json FILE]`. The cluster is that of `defragment_cluster.py`, but each
pod has a node for itself and its sidecar reports every second. All nodes in use are cordoned, and every gang
is asked to leave. The baseline, in the same run, is the same drain by a manager whose next move waits for a
regular Tick. Seconds are those of a machine that has nothing else to do.
"""

import asyncio
import logging
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from unittest.mock import patch

import child
import figure
from figure import Figure
from specon_manager.core.state import State
from specon_manager.model.events import MoveRequested
from specon_manager.model.settings import Budgets, Gate, Settings
from specon_manager.model.transactions import Transaction, TransactionState
from specon_manager.runtime import controller

sys.path.insert(0, str(child.HERE.parent / "tests"))  # the simulated cluster is that of the tests

from defragment_cluster import create, gang, train
from fakekube.kinds import NODES
from specon_manager.backends.kube.backend import KubeSettings
from support.clocks.fair_time import fair_now
from support.kube.cluster_stage import ClusterStage

BOUND = 60.0
GANGS = 20
_PODS = 10
_GPUS = 8
_HEARTBEAT = 1.0
_PATIENCE = 1800.0
_SETTINGS = Settings(policy="fifo", budgets=Budgets(moves_at_once=1), gate=Gate(enabled=False))


async def drained(gangs: int) -> tuple[float, Sequence[Transaction]]:
    """Return the seconds until all gangs run on nodes that were empty, with their moves."""
    with tempfile.TemporaryDirectory() as folder:
        async with ClusterStage(Path(folder), nodes=0, kube=KubeSettings()) as stage:
            stage.rules.close()  # they look at every pod at each change
            stage.sidecars.heartbeat = _HEARTBEAT
            stage.report_from(2 * gangs * _PODS)
            for number in range(2 * gangs * _PODS):
                await stage.cluster.add_node(f"node-{number}", extra={"nvidia.com/gpu": str(_GPUS)})
            manager = await stage.manage_and_lead(decisions=_SETTINGS)
            for number in range(gangs):
                await create(stage, gang(f"job-{number}", _PODS, _GPUS))
            await stage.until(lambda: train(manager.state, gangs), "all gangs train", seconds=_PATIENCE)
            used = sorted({replica.node or "" for replica in manager.state.replicas.values()})
            for node in used:
                await stage.cluster.machinery.patch(
                    NODES, ("", node), "merge", {"spec": {"unschedulable": True}}
                )
            cordoned = (lambda: not any(manager.state.nodes[node].ready for node in used), "all are cordoned")
            await stage.until(*cordoned, seconds=_PATIENCE)
            began = fair_now()
            for number in range(gangs):
                asked = MoveRequested(id=f"drain-{number}", job=f"training/job-{number}", reason="a drain")
                manager.post(asked)
            await stage.until(lambda: _over(manager.state, gangs), "all have left", seconds=_PATIENCE)
            return fair_now() - began, manager.state.history


def _over(state: State, gangs: int) -> bool:
    return len(state.history) >= gangs and not state.transactions


def measure(gangs: int = GANGS) -> list[Figure]:
    """Measure it once. Raises RuntimeError where a move failed."""
    logging.disable(logging.WARNING)  # sidecars tell how often they try again until the manager knows them
    try:
        with patch.object(controller, "frees_what_waits", lambda _before, _after: False):
            before, _ = asyncio.run(drained(gangs))
        seconds, moves = asyncio.run(drained(gangs))
    finally:
        logging.disable(logging.NOTSET)
    if failed := [each for each in moves if each.state is not TransactionState.SUCCEEDED]:
        raise RuntimeError(f"{failed[0].id} is {failed[0].state}: {failed[0].note}")
    title = f"{gangs} gangs of {_PODS} pods leave {gangs * _PODS} nodes, one at a time"
    bound = BOUND if gangs == GANGS else None
    return [
        Figure(what=title, value=seconds, unit="s", at_most=bound),
        Figure(what="the same, each at a regular Tick of 5 s", value=before, unit="s"),
    ]


def smallest() -> list[Figure]:
    """Give every figure, of next to nothing."""
    return measure(1)


if __name__ == "__main__":
    figure.main(__doc__, measure, smallest)
