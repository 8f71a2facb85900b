"""Many pieces of work at once: each has a process of its own, and none outlives this process."""

import contextlib
import itertools
import multiprocessing
import os
import signal
import threading
import traceback
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.sharedctypes import RawArray
from types import FrameType
from typing import Any, Final, Generic, TypeVar

from msgspec import Struct

_LOOK_SECONDS: Final = 0.1
_ENDING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_DIED: Final = "a process of the simulation died (out of memory?); fewer --jobs may help"

OnProgress = Callable[[Sequence[float], Collection[int]], None]
"""Called often with the done fraction of each task, and with the numbers of the finished tasks."""
Note = Callable[[float], None]
"""What a piece of work tells its done fraction."""

Task = TypeVar("Task")
Result = TypeVar("Result")


class Job(Struct, Generic[Task, Result], frozen=True, kw_only=True):
    """The work on each task."""

    work: Callable[[Task, Note], Result]
    """A module-level function; it raises nothing."""
    died: Callable[[Task, str], Result]
    """What stands for the result where the process died, with the reason."""


def run_all(
    tasks: Sequence[Task], job: Job[Task, Result], *, processes: int, on_progress: OnProgress
) -> tuple[dict[int, Result], bool]:
    """Return the results by number of the task, and whether it was interrupted.

    After Ctrl-C or SIGTERM it returns at once with the results so far. No process that was started here
    stays behind, however this ends.
    """
    done: dict[int, Result] = {}
    if min(processes, len(tasks)) > 1:
        interrupted = _in_processes(tasks, job, processes, done, on_progress)
    else:
        interrupted = _in_turn(tasks, job, done, on_progress)
    return {number: done[number] for number in sorted(done)}, interrupted


def where(error: Exception) -> str:
    """Return the error on one line, with the place where it arose."""
    frame = traceback.extract_tb(error.__traceback__)[-1:]
    place = f" ({frame[0].filename}:{frame[0].lineno})" if frame else ""
    return f"{type(error).__name__}: {error}{place}"


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


def _in_turn(
    tasks: Sequence[Task], job: Job[Task, Result], done: dict[int, Result], on_progress: OnProgress
) -> bool:
    fractions = [0.0] * len(tasks)

    def note(fraction: float) -> None:
        fractions[len(done)] = fraction
        on_progress(fractions, done)

    try:
        with _when_asked_to_end(signal.default_int_handler):
            for number, task in enumerate(tasks):
                done[number] = job.work(task, note)
                fractions[number] = 1.0
                on_progress(fractions, done)
    except KeyboardInterrupt:
        return True
    return False


def _in_processes(
    tasks: Sequence[Task],
    job: Job[Task, Result],
    processes: int,
    done: dict[int, Result],
    on_progress: OnProgress,
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
    waiting: dict[Future[Result], int] = {}
    upcoming = iter(range(len(tasks)))
    try:
        with _when_asked_to_end(lambda _number, _frame: stop.set()):
            while not stop.is_set():
                for number in itertools.islice(upcoming, 2 * processes - len(waiting)):
                    waiting[_submit(executor, job.work, number, tasks[number])] = number
                if not waiting:
                    break
                over, _ = wait(waiting, timeout=_LOOK_SECONDS, return_when=FIRST_COMPLETED)
                for future in over:
                    number = waiting.pop(future)
                    fractions[number] = 1.0
                    done[number] = _result(future, job, tasks[number])
                on_progress(list(fractions), done)
    finally:
        if waiting:  # it was not left by its end
            for process in set(multiprocessing.active_children()) - others:
                process.terminate()
        executor.shutdown(cancel_futures=True)
    return stop.is_set()


def _submit(
    executor: ProcessPoolExecutor, work: Callable[[Task, Note], Result], number: int, task: Task
) -> "Future[Result]":
    try:
        return executor.submit(_work, work, number, task)
    except BrokenProcessPool as error:
        broken: Future[Result] = Future()
        broken.set_exception(error)
        return broken


def _result(future: "Future[Result]", job: Job[Task, Result], task: Task) -> Result:
    try:
        return future.result()
    except BrokenProcessPool:
        return job.died(task, _DIED)


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


def _work(work: Callable[[Task, Note], Result], number: int, task: Task) -> Result:
    def note(fraction: float) -> None:
        _fractions[number] = fraction

    return work(task, note)
