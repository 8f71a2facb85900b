"""A manager for tests, to be run as a process: a session on a directory, which can kill itself at will.

Writes a JSON line for each change of a move and of a replica, and the whole state as the last one, once
every job has ended. SIGINT ends it, and the training with it.
"""

import argparse
import asyncio
import contextlib
import functools
import os
import random
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from specon_manager.backends.local.backend import LocalBackend
from specon_manager.backends.local.jobs import read_job_file
from specon_manager.backends.local.nodes import VirtualNode
from specon_manager.core.state import State
from specon_manager.model.transactions import Kind, Transaction, TransactionState
from specon_manager.runtime.clock import Clock
from specon_manager.runtime.controller import Stepped
from specon_manager.runtime.memory import Memory
from specon_manager.serving import session as sessions

sys.path.insert(0, str(Path(__file__).parents[2]))  # tests are no package

from support.local.former_wire import FormerWire
from support.local.proxy import Proxy

AFTER_SECONDS = 0.02  # long enough for the orders to go out, short enough for the next state not to come


def entered(before: State, after: State) -> Iterator[Transaction]:
    """Yield the transactions that entered a state."""
    known = {each.id: each.state for each in (*before.history, *before.transactions.values())}
    for each in (*after.history, *after.transactions.values()):
        if known.get(each.id) is not each.state:
            yield each


class Teller:
    """Writes what changes to standard output."""

    def __call__(self, stepped: Stepped) -> None:
        for each in entered(stepped.before, stepped.after):
            self.tell(transaction=each.id, kind=each.kind, state=each.state, note=each.note)
        for name, replica in stepped.after.replicas.items():
            before = stepped.before.replicas.get(name)
            seen, now = (self._shown(one) for one in (before, replica))
            if seen != now:
                self.tell(replica=name, **now)

    def _shown(self, replica: Any) -> dict[str, object]:
        if replica is None:
            return {}
        progress = replica.progress
        return {
            "phase": replica.phase,
            "incarnation": replica.incarnation,
            "crashes": replica.crashes,
            "category": progress.category,
            "session": progress.sessions[-1].name if progress.sessions else "",
        }

    def tell(self, **fields: object) -> None:
        sys.stdout.buffer.write(msgspec.json.encode(fields) + b"\n")
        sys.stdout.buffer.flush()


class Killer:
    """Ends this process by SIGKILL when the first transaction of a kind enters a state.

    `before` is in the middle of the step, so that its journal line is not on disk yet; `after` is when that
    line was written, and what the step ordered has been given to the backend.
    """

    def __init__(self, memory: Memory, state: str, when: str) -> None:
        """Take `KIND:STATE`, or the state alone of a move, and what writes the journal."""
        self._memory = memory
        self._state = state if ":" in state else f"{Kind.MOVE}:{state}"
        self._when = when

    def __call__(self, stepped: Stepped) -> None:
        if self._state not in {
            f"{each.kind}:{each.state}" for each in entered(stepped.before, stepped.after)
        }:
            return
        if self._when == "before":
            kill_myself()
        # However slow the disk is: the next commit is the one that writes the line of this step.
        commit = self._memory.commit

        async def commit_and_die(state: State, *, acting: bool) -> Mapping[str, str]:
            refused = await commit(state, acting=acting)
            asyncio.get_running_loop().call_later(AFTER_SECONDS, kill_myself)
            return refused

        vars(self._memory)["commit"] = commit_and_die


def kill_myself() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def hurry_when_changed(file: Path) -> Callable[[Stepped], None]:
    """Return an observer that lets the trainers hurry once a move, a scaling or a preemption has ended."""

    def observe(stepped: Stepped) -> None:
        if any(each.kind is not Kind.ADMIT for each in stepped.after.history):
            file.touch()

    return observe


def wall_clock(offset: float, jump: float) -> Callable[[], float]:
    """Return a wall clock that is wrong by `offset`, and at each look by up to `jump` more, seconds."""
    rng = random.Random(1)
    return lambda: time.time() + offset + rng.uniform(-jump, jump)


async def run(arguments: argparse.Namespace) -> None:
    file = read_job_file(arguments.jobs.read_text())
    cpus = tuple(sorted(os.sched_getaffinity(0)))
    options = sessions.SessionOptions(
        directory=arguments.state,
        jobs=file.jobs,
        settings=file.settings,
        nodes=tuple(
            VirtualNode(
                name=f"node-{index}",
                # They share the CPUs, so that a machine with one can have two.
                cpus=cpus[index : index + 1] if arguments.apart else cpus,
                capacity=arguments.capacity,
            )
            for index in range(2)
        ),
        working_directory=Path.cwd(),
        environment=os.environ,
        samples=Path.cwd(),
    )
    wall = wall_clock(arguments.wall_offset, arguments.wall_jump)
    vars(sessions)["Clock"] = functools.partial(Clock, wall=wall)
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGINT, stop.set)
    teller = Teller()
    made = Proxy(arguments.proxy_seed) if arguments.proxy_seed is not None else None
    made = FormerWire() if arguments.former_wire else made
    async with proxied(made) as proxy, sessions.open_session(options) as session:
        if proxy is not None:
            proxy.upstream = session.address.url
        if arguments.kill_at is not None:
            session.controller.observers.append(
                Killer(vars(session.controller)["_memory"], arguments.kill_at, arguments.when)
            )
        session.controller.observers.append(teller)
        if arguments.hurry is not None:
            session.controller.observers.append(hurry_when_changed(arguments.hurry))
        ending = asyncio.ensure_future(session.wait_until_finished())
        stopping = asyncio.ensure_future(stop.wait())
        await asyncio.wait({ending, stopping}, return_when=asyncio.FIRST_COMPLETED)
        ending.cancel()
        stopping.cancel()
        state = session.controller.state
    if proxy is not None:
        teller.tell(proxy=proxy.done)
    if not stop.is_set():
        teller.tell(end=state)


@contextlib.asynccontextmanager
async def proxied(made: Proxy | None) -> AsyncIterator[Proxy | None]:
    """Put a proxy between the sidecars and the manager, where there is one."""
    if made is None:
        yield None
        return
    async with made as proxy:

        def backend(*positional: Any, **named: Any) -> LocalBackend:
            return LocalBackend(*positional, **{**named, "manager_url": lambda: proxy.url})

        vars(sessions)["LocalBackend"] = backend
        yield proxy


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--state", type=Path, required=True, help="state directory")
    parser.add_argument("--jobs", type=Path, required=True, help="job file")
    parser.add_argument("--hurry", type=Path, help="file to create once a move has ended")
    states = [f"{kind}:{state}" for kind in Kind for state in TransactionState]
    parser.add_argument("--kill-at", choices=[*(state.value for state in TransactionState), *states])
    parser.add_argument("--apart", action="store_true", help="each node has one processor of its own")
    parser.add_argument("--capacity", type=float, help="processors to reserve on each node")
    parser.add_argument("--when", choices=("before", "after"), default="before")
    parser.add_argument("--wall-offset", type=float, default=0.0)
    parser.add_argument("--wall-jump", type=float, default=0.0)
    parser.add_argument("--proxy-seed", type=int, help="put a misbehaving proxy in front of the manager")
    parser.add_argument("--former-wire", action="store_true", help="let through what version 0.1 knew alone")
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
