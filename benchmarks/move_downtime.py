"""How long a move stops training beyond what the trainer itself needs to save, start and load.

`python benchmarks/move_downtime.py [--json FILE]`. A real local manager moves a job to an idle virtual
node, several times. In the same run the same trainer is started by hand from the checkpoints of the moved
job, on the same node: it saves when asked (SIGUSR1 to the renamed file), ends, and starts again (process
start to its first new step). The downtime of a move is that of its record: last step before to first step
after.
"""

import asyncio
import signal
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import NamedTuple

import child
import figure
from figure import Figure
from local_session import session_of
from specon_manager.backends.local.jobs import LocalJob
from specon_manager.backends.local.nodes import VirtualNode
from specon_manager.cli.run.running import nodes_of_this_machine
from specon_manager.model.settings import Budgets, Gate, Settings
from specon_manager.model.transactions import Transaction, TransactionState

BOUND = 1.0
MOVES = 4
_PATIENCE = 60.0
_POLL = 0.002
_JOB = LocalJob(
    name="job",
    command=(
        "{python} {samples}/training/rnn.py --steps 100000 --checkpoint-every 0"
        " --log {log} --checkpoint-dir {checkpoint_path}"
    ),
    environment={"OMP_NUM_THREADS": "1"},
    checkpoint="signal:USR1",
    classifier="specon",  # it is told when to call a job converged; `horizon` wants to see more of a run
    alpha=0.9,  # converged as soon as two intervals have passed
    interval=0.5,
    heartbeat=0.5,
)
_SETTINGS = Settings(
    policy="specon",
    parameters={"min_growing": 0, "rebalance": False},  # moves a job that is alone
    gate=Gate(enabled=False),
    budgets=Budgets(cooldown=0.0),
    tick=0.2,
)


class Own(NamedTuple):
    """What the trainer itself needs, seconds."""

    save: float
    start: float
    """From the start of its process to its first new step."""

    @property
    def total(self) -> float:
        """Both."""
        return self.save + self.start


async def move(directory: Path, nodes: tuple[VirtualNode, ...]) -> Transaction:
    """Run the job until it was moved, and return the record of the move."""
    async with asyncio.timeout(_PATIENCE), session_of([_JOB], directory, nodes, _SETTINGS) as session:
        moved = asyncio.Event()
        controller = session.controller
        controller.observers.append(lambda stepped: moved.set() if stepped.after.history else None)
        await moved.wait()
        record = controller.state.history[0]
    if record.state is not TransactionState.SUCCEEDED:
        raise RuntimeError(f"{record.id} ended as {record.state}: {record.note}")
    return record


def by_hand(directory: Path, cpu: int) -> Own:
    """Go on from the checkpoints in `directory` without a manager, twice."""
    checkpoints = next(directory.glob("replicas/*/checkpoints"))
    log = directory / "by-hand.log"
    command = [str(child.SAMPLES / "rnn.py"), "--steps=100000", "--checkpoint-every=0"]
    command += [f"--log={log}", f"--checkpoint-dir={checkpoints}"]
    with child.python(*command, cpu=cpu, alone=True) as trainer:
        _first_step(log)
        time.sleep(1.0)  # as in the moved job, nothing of the start is left to do
        newest = _newest(checkpoints)
        asked = time.perf_counter()
        trainer.send_signal(signal.SIGUSR1)
        _until(lambda: _newest(checkpoints) > newest, "checkpoint")
        save = time.perf_counter() - asked
        trainer.terminate()
        trainer.wait(timeout=_PATIENCE)
    log.unlink()
    started = time.perf_counter()
    with child.python(*command, cpu=cpu, alone=True):
        _first_step(log)
        return Own(save, time.perf_counter() - started)


def _first_step(log: Path) -> None:
    _until(lambda: log.exists() and b"\nstep=" in log.read_bytes(), "first step")


def _newest(checkpoints: Path) -> str:
    return max((path.name for path in checkpoints.glob("step-*.pt")), default="")


def _until(happened: Callable[[], bool], what: str) -> None:
    """Wait, for a minute at most."""
    deadline = time.monotonic() + _PATIENCE
    while not happened():
        if time.monotonic() > deadline:
            raise RuntimeError(f"no {what} of a trainer that was started by hand")
        time.sleep(_POLL)


def measure(moves: int = MOVES) -> list[Figure]:
    """Move, train by hand, and compare; again and again."""
    nodes = nodes_of_this_machine("2")
    records: list[Transaction] = []
    own: list[Own] = []
    for _ in range(moves):
        with tempfile.TemporaryDirectory() as root:
            directory = Path(root) / "state"
            records.append(asyncio.run(move(directory, nodes)))
            target = next(node for node in nodes if node.name == records[-1].target)
            own.append(by_hand(directory, target.cpus[0]))
    downtimes = [record.downtime or 0.0 for record in records]
    beyond = [downtime - each.total for downtime, each in zip(downtimes, own, strict=True)]
    return [
        Figure(what="downtime of a move, median", value=median(downtimes), unit="s", note=_spread(downtimes)),
        Figure(what="the trainer's own save", value=median(each.save for each in own), unit="s"),
        Figure(
            what="the trainer's own start and load, to its first step",
            value=median(each.start for each in own),
            unit="s",
            note=_spread([each.start for each in own]),
        ),
        Figure(
            what="beyond the trainer's own, median",
            value=median(beyond),
            unit="s",
            at_most=BOUND,
            note=f"{_spread(beyond)}, {moves} moves",
        ),
        Figure(
            what="steps lost per move, median", value=median(r.steps_lost or 0 for r in records), unit="steps"
        ),
    ]


def _spread(values: list[float]) -> str:
    return f"from {min(values):.2f} to {max(values):.2f}"


def smallest() -> list[Figure]:
    """Give every figure, of next to nothing."""
    return measure(1)


if __name__ == "__main__":
    figure.main(__doc__, measure, smallest)
