"""Many simulations at once: each in a process of its own, none of which outlives this one."""

import contextlib
import itertools
import multiprocessing
import os
import signal
import threading
import time
import traceback
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.sharedctypes import RawArray
from types import FrameType
from typing import Any, Final

import msgspec
from msgspec import Struct

from specon_manager.cli.simulation_choice import PolicyChoice, chosen_settings
from specon_manager.cli.simulation_workload import Source
from specon_manager.sim.report import Run, condense
from specon_manager.sim.run import settings_for, simulate

_LOOK_SECONDS: Final = 0.1
_ENDING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

OnProgress = Callable[[Sequence[float], Collection[int]], None]
"""Called often with the done fraction of each task, and with the numbers of those that are over."""


class Task(Struct, frozen=True, kw_only=True):
    """One run: a policy, a workload and a seed."""

    policy: PolicyChoice
    workload: Source
    seed: int
    settings: tuple[str, ...]
    """`key=value` of the owner's settings; the others are those that fit the workload."""
    oracle: bool | None
    ticks_only: bool
    stays: bool
    """Whether to keep where everything ran."""


class Failure(Struct, frozen=True, kw_only=True):
    """A run that came to nothing."""

    policy: str
    seed: int
    reason: str
    """The error and where it arose."""


class Results(Struct, frozen=True, kw_only=True):
    """What came of the tasks, in their order."""

    runs: tuple[Run, ...]
    failures: tuple[Failure, ...]
    interrupted: bool

    def without_timing(self) -> "Results":
        """Return the same without how long the computer took: nothing in it differs from day to day."""
        runs = tuple(msgspec.structs.replace(run, seconds=None) for run in self.runs)
        return msgspec.structs.replace(self, runs=runs)


def run_tasks(tasks: Sequence[Task], *, processes: int, on_progress: OnProgress) -> Results:
    """Run every task; after Ctrl-C or SIGTERM return at once with the runs that are over.

    No process that was started here is left behind, however this ends.
    """
    done: dict[int, Run | Failure] = {}
    if min(processes, len(tasks)) > 1:
        interrupted = _in_processes(tasks, processes, done, on_progress)
    else:
        interrupted = _in_turn(tasks, done, on_progress)
    results = [done[number] for number in sorted(done)]
    return Results(
        runs=tuple(result for result in results if isinstance(result, Run)),
        failures=tuple(result for result in results if isinstance(result, Failure)),
        interrupted=interrupted,
    )


@contextlib.contextmanager
def _when_asked_to_end(handler: Callable[[int, FrameType | None], Any]) -> Iterator[None]:
    """Have Ctrl-C, SIGTERM and SIGHUP handled so; other threads than the first cannot, and need not."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, handler) for number in _ENDING}
    try:
        yield
    finally:
        for number, known in before.items():
            signal.signal(number, known)


def _in_turn(tasks: Sequence[Task], done: dict[int, Run | Failure], on_progress: OnProgress) -> bool:
    fractions = [0.0] * len(tasks)

    def note(fraction: float) -> None:
        fractions[len(done)] = fraction
        on_progress(fractions, done)

    try:
        with _when_asked_to_end(signal.default_int_handler):
            for number, task in enumerate(tasks):
                done[number] = _outcome_of(task, note)
                fractions[number] = 1.0
                on_progress(fractions, done)
    except KeyboardInterrupt:
        return True
    return False


def _in_processes(
    tasks: Sequence[Task], processes: int, done: dict[int, Run | Failure], on_progress: OnProgress
) -> bool:
    # A fresh interpreter for each: what this one holds, threads of the progress bar too, is not copied.
    context = multiprocessing.get_context("spawn")
    fractions = RawArray("d", len(tasks))
    others = set(multiprocessing.active_children())
    executor = ProcessPoolExecutor(
        max_workers=min(processes, len(tasks)),
        mp_context=context,
        initializer=_begin_worker,
        initargs=(fractions,),
    )
    # Asked for by a flag, not by an exception: that might leave a lock of the executor locked for ever.
    stop = threading.Event()
    waiting: dict[Future[Run | Failure], int] = {}
    upcoming = iter(range(len(tasks)))
    try:
        with _when_asked_to_end(lambda _number, _frame: stop.set()):
            while not stop.is_set():
                for number in itertools.islice(upcoming, 2 * processes - len(waiting)):
                    waiting[_submit(executor, number, tasks[number])] = number
                if not waiting:
                    break
                over, _ = wait(waiting, timeout=_LOOK_SECONDS, return_when=FIRST_COMPLETED)
                for future in over:
                    number = waiting.pop(future)
                    fractions[number] = 1.0
                    done[number] = _result(future, tasks[number])
                on_progress(list(fractions), done)
    finally:
        if waiting:  # it was not left by its end
            for process in set(multiprocessing.active_children()) - others:
                process.terminate()
        executor.shutdown(cancel_futures=True)
    return stop.is_set()


def _submit(executor: ProcessPoolExecutor, number: int, task: Task) -> "Future[Run | Failure]":
    try:
        return executor.submit(_work, number, task)
    except BrokenProcessPool as error:
        broken: Future[Run | Failure] = Future()
        broken.set_exception(error)
        return broken


def _result(future: "Future[Run | Failure]", task: Task) -> Run | Failure:
    try:
        return future.result()
    except BrokenProcessPool:
        reason = "a process of the simulation died (out of memory?); fewer --jobs may help"
        return Failure(policy=task.policy.label, seed=task.seed, reason=reason)


_fractions: Any = None
"""In a worker process: the done fraction of each task, shared with the process that started it."""


def _begin_worker(fractions: Any) -> None:
    global _fractions  # noqa: PLW0603  (an executor hands shared memory to its workers in no other way)
    _fractions = fractions
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all; the parent decides
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _work(number: int, task: Task) -> Run | Failure:
    def note(fraction: float) -> None:
        _fractions[number] = fraction

    return _outcome_of(task, note)


def _outcome_of(task: Task, on_progress: Callable[[float], None]) -> Run | Failure:
    began = time.perf_counter()
    try:
        workload = task.workload.read(task.seed)
        outcome = simulate(
            workload,
            task.policy.name,
            parameters=task.policy.parameters,
            settings=chosen_settings(task.settings, settings_for(workload)),
            oracle=task.oracle,
            ticks_only=task.ticks_only,
            stays=task.stays,
            on_progress=on_progress,
        )
        return condense(outcome, task.policy.label, seed=task.seed, seconds=time.perf_counter() - began)
    except Exception as error:  # noqa: BLE001  (one broken policy takes nothing from the others)
        return Failure(policy=task.policy.label, seed=task.seed, reason=_where(error))


def _where(error: Exception) -> str:
    """Return the error on one line, with the place where it arose."""
    frame = traceback.extract_tb(error.__traceback__)[-1:]
    place = f" ({frame[0].filename}:{frame[0].lineno})" if frame else ""
    return f"{type(error).__name__}: {error}{place}"
