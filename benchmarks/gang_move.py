"""How long a move of a whole gang stops its training beyond what the same trainer needs by hand.

`python benchmarks/gang_move.py [--quick] [--json FILE]`. A real local manager moves a data-parallel job of
four workers from one virtual node to the other and back, 50 times in all. After each ten moves the same
trainer is asked for a checkpoint, ended and started again by hand, from the same folder. Beside the downtime
it shows what must be nothing: steps lost, workers that had to be killed, and resumes of any worker from
another chain of parameters than its own log named.
"""

import asyncio
import itertools
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import TypeVar

import msgspec
from msgspec import Struct

import child
import figure
from figure import Figure
from local_session import session_of
from specon_manager.backends.local.jobs import LocalJob
from specon_manager.backends.local.nodes import VirtualNode
from specon_manager.cli.run.gang_proofs import Chain, chain_of
from specon_manager.cli.run.running import nodes_of_this_machine
from specon_manager.core.state import State
from specon_manager.model.events import MoveRequested
from specon_manager.model.settings import Budgets, Settings
from specon_manager.model.transactions import Kind, Transaction, TransactionState
from specon_manager.serving.session import LocalSession

WORKERS = 4
MOVES = 10  # in a round, and then three times by hand
ROUNDS = 5
BOUND = 3.0
_PATIENCE = 120.0
_POLL = 0.005
_TRAINER = ("--steps", "1000000", "--checkpoint-every", "0", "--hidden", "64", "--image-seconds", "0.0001")
_JOB = LocalJob(
    name="gang",
    command=(
        "{python} {samples}/training/elastic_ddp.py "
        + " ".join(_TRAINER)
        + " --request-file {job_directory}/request --rendezvous {job_directory}/rendezvous.json"
        " --log {log} --checkpoint-dir {checkpoint_path}"
    ),
    environment={"OMP_NUM_THREADS": "1"},
    workers=WORKERS,
    checkpoint="file:{job_directory}/request",
    interval=0.5,
    heartbeat=0.5,
)
_SETTINGS = Settings(policy="fifo", budgets=Budgets(cooldown=0.0), tick=0.2)


Found = TypeVar("Found")


async def _found(session: LocalSession, look: Callable[[State], Found | None]) -> Found:
    """Return what `look` finds in the state, once it does."""
    changed = asyncio.Event()
    session.controller.observers.append(lambda _: changed.set())
    while (found := look(session.controller.state)) is None:
        await changed.wait()
        changed.clear()
    return found


async def _moved(session: LocalSession, number: int, target: str) -> Transaction:
    """Ask for a move of the gang once it trains, and return its record."""
    job, name = f"default/{_JOB.name}", f"move-{number}"
    lead = f"{job}/worker/0"
    await _found(
        session, lambda state: state.replicas[lead].progress.step if lead in state.replicas else None
    )
    session.controller.post(MoveRequested(id=name, job=job, targets=(target,)))
    found = await _found(session, lambda state: next((e for e in state.history if e.id == name), None))
    if found.state is not TransactionState.SUCCEEDED:
        raise RuntimeError(f"{name} ended as {found.state}: {found.note}")
    return found


async def run(directory: Path, nodes: tuple[VirtualNode, ...], moves: int, workers: int) -> list[Transaction]:
    """Run the gang and move it to and fro; return the records."""
    found = list[Transaction]()
    job = msgspec.structs.replace(_JOB, workers=workers)
    async with session_of([job], directory, nodes, _SETTINGS) as session:
        for number in range(moves):
            target = nodes[(number + 1) % 2].name
            async with asyncio.timeout(_PATIENCE):
                found.append(await _moved(session, number, target))
            print(f"{found[-1].id}: {found[-1].downtime:.1f} s", file=sys.stderr, flush=True)
    return found


def by_hand(directory: Path, cpu: int, workers: int) -> tuple[float, float]:
    """Go on from the checkpoints without a manager: return the seconds to save, and to start all again."""
    shared = next(directory.glob("jobs/*"))
    log, request = directory / "by-hand.log", directory / "asked"
    command = [str(child.SAMPLES / "elastic_ddp.py"), *_TRAINER, f"--request-file={request}"]
    command += [f"--rendezvous={directory / 'by-hand.json'}", f"--checkpoint-dir={shared / 'checkpoints'}"]
    log.unlink(missing_ok=True)  # that of the hand before shows steps already
    with ExitStack() as stack:
        team = _team(stack, command, log, cpu, workers)
        _first_step(log)
        time.sleep(1.0)  # as in the moved gang, nothing of the start is left to do
        newest = _newest(shared)
        asked = time.perf_counter()
        request.touch()
        _until(lambda: _newest(shared) > newest, "checkpoint")
        save = time.perf_counter() - asked
        ending = time.perf_counter()
        for worker in team:
            worker.send_signal(signal.SIGTERM)
        for worker in team:
            worker.wait(timeout=_PATIENCE)
        save += time.perf_counter() - ending
    log.unlink()
    started = time.perf_counter()
    with ExitStack() as stack:
        _team(stack, command, log, cpu, workers)
        _first_step(log)
        return save, time.perf_counter() - started


def _team(stack: ExitStack, command: list[str], log: Path, cpu: int, workers: int) -> list[child.Child]:
    found = []
    for rank in range(workers):
        place = {"RANK": str(rank), "WORLD_SIZE": str(workers)}
        own = log if rank == 0 else log.with_name(f"by-hand-{rank}.log")
        words = [*command, f"--log={own}"]
        found.append(stack.enter_context(child.python(*words, cpu=cpu, environment=place, alone=True)))
    return found


def _first_step(log: Path) -> None:
    _until(lambda: log.exists() and b"\nstep=" in log.read_bytes(), "first step")


def _newest(shared: Path) -> str:
    return max((path.name for path in (shared / "checkpoints").glob("step-*.pt")), default="")


def _until(happened: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + _PATIENCE
    while not happened():
        if time.monotonic() > deadline:
            raise RuntimeError(f"no {what} of a gang that was started by hand")
        time.sleep(_POLL)


class Round(Struct, frozen=True):
    """Moves of one gang, and the same by hand right after."""

    moves: list[Transaction]
    own: list[tuple[float, float]]
    """Seconds to save, and to start again."""
    chains: list[Chain]
    """Of each worker's log."""

    @property
    def alone(self) -> float:
        """What it takes by hand, seconds."""
        return median(save + start for save, start in self.own)

    @property
    def beyond(self) -> list[float]:
        """What each move took beyond that, seconds."""
        return [(record.downtime or 0.0) - self.alone for record in self.moves]


def one_round(moves: int, hands: int, workers: int) -> Round:
    """Move a new gang so often, and then do the same by hand."""
    nodes = nodes_of_this_machine("2")
    with tempfile.TemporaryDirectory() as root:
        directory = Path(root) / "state"
        records = asyncio.run(run(directory, nodes, moves, workers))
        logs = directory.glob(f"replicas/default.{_JOB.name}.worker.*/train.log")
        chains = [chain_of(log.read_bytes().splitlines()) for log in logs]
        turns = itertools.islice(itertools.cycle(nodes), hands)
        return Round(records, [by_hand(directory, node.cpus[0], workers) for node in turns], chains)


def measure(rounds: int = ROUNDS, moves: int = MOVES, hands: int = 3, workers: int = WORKERS) -> list[Figure]:
    """Move gangs, do the same by hand, and compare."""
    seen = [one_round(moves, hands, workers) for _ in range(rounds)]
    records = [record for each in seen for record in each.moves]
    downtimes = [record.downtime or 0.0 for record in records]
    beyond = [seconds for each in seen for seconds in each.beyond]
    own = [pair for each in seen for pair in each.own]
    chains = [chain for each in seen for chain in each.chains]
    spread = f"from {min(downtimes):.2f} to {max(downtimes):.2f}, {len(records)} moves of {workers} workers"
    return [
        Figure(what="downtime of a gang's move, median", value=median(downtimes), unit="s", note=spread),
        Figure(what="by hand: save and end", value=median(each[0] for each in own), unit="s"),
        Figure(what="by hand: start, rendezvous, load", value=median(each[1] for each in own), unit="s"),
        Figure(
            what="beyond that, median",
            value=median(beyond),
            unit="s",
            at_most=BOUND,
            note=f"from {min(beyond):.2f} to {max(beyond):.2f}, {len(own)} times by hand",
        ),
        Figure(what="steps lost", value=sum(r.steps_lost or 0 for r in records), unit="steps", at_most=0),
        Figure(what="workers killed", value=sum(len(r.killed) for r in records), unit="", at_most=0),
        Figure(what="resumes of a worker", value=sum(chain.resumes for chain in chains), unit=""),
        Figure(
            what="resumes from another chain of parameters",
            value=sum(chain.broken for chain in chains),
            unit="",
            at_most=0,
        ),
        Figure(
            what="moves that were whole",
            value=sum(each.whole and each.kind is Kind.MOVE for each in records),
            unit="",
        ),
    ]


def quick() -> list[Figure]:
    """Measure three moves and three times by hand."""
    return measure(rounds=1, moves=3)


def smallest() -> list[Figure]:
    """Give every figure, of next to nothing."""
    return measure(rounds=1, moves=1, hands=1, workers=2)


if __name__ == "__main__":
    figure.main(__doc__, measure, smallest, quick=quick)
