"""Run jobs on this machine to their end, showing what happens: shared by `demo` and `local`."""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, TextIO

import msgspec
from msgspec import Struct
from rich.console import Console

from specon_manager.backends.local.gpus import find_gpus
from specon_manager.backends.local.jobs import JobFile, JobFileError, read_job_file
from specon_manager.backends.local.nodes import VirtualNode, parse_nodes
from specon_manager.cli.run.former_run import remarks
from specon_manager.cli.run.framework_moves import MoveOnce
from specon_manager.cli.run.gain import StepLog, add_gains
from specon_manager.cli.run.live_view import LiveView
from specon_manager.cli.run.machine_load import LoadMeter
from specon_manager.cli.run.manager_log import log_to
from specon_manager.cli.run.notices import Notices
from specon_manager.cli.run.result import PlacementLog, RunResult, summarize
from specon_manager.cli.run.transaction_results import TransactionLog
from specon_manager.policies.table import policy_named
from specon_manager.runtime.controller import Controller, StepObserver, Stepped
from specon_manager.runtime.state_directory import make_ours
from specon_manager.serving.session import LocalSession, SessionOptions, open_session
from specon_manager.usage import UsageError
from specon_manager.views.happenings import happenings
from specon_manager.views.names import printable

_FRAMES_PER_SECOND: Final = 4
_LOAD_SECONDS: Final = 1.0
_NOTICE_SECONDS: Final = 1.0


class RunOptions(Struct, frozen=True, kw_only=True):
    """A run and how it is shown."""

    title: str
    session: SessionOptions
    plain: bool = False
    """Plain lines also on a terminal."""
    web: bool = False
    """Plain lines, and before them a link to the status page: it shows what the live view would."""
    aside: bool = False
    """Plain lines, and on standard error: standard output has something for other programs."""
    verbose: bool = False
    gains: bool = False
    """Whether logs are read at the end for when each job had 98 % of its gain."""
    mover: MoveOnce | None = None
    """Who has each job moved once."""
    anew: str = ""
    """What one does to run jobs again that have ended in the state directory."""


def samples_directory() -> Path:
    """Return where the samples are: beside the sources, or inside an installed distribution.

    Raises UsageError where they are in neither.
    """
    here = Path(__file__).resolve()
    for candidate in (here.parents[4] / "samples", here.parents[2] / "samples"):
        if (candidate / "training").is_dir():
            return candidate
    raise UsageError("the samples are not there; install specon from its sources or its wheel")


def load(path: Path) -> JobFile:
    """Return a job file; raises UsageError with every mistake."""
    try:
        return read_job_file(path.read_text())
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: not UTF-8: {error.reason} at byte {error.start}") from error
    except JobFileError as error:
        raise UsageError("\n".join(f"{path}: {mistake}" for mistake in error.mistakes)) from error


def nodes_of_this_machine(text: str) -> tuple[VirtualNode, ...]:
    """Return the virtual nodes that `text` asks for; raises UsageError."""
    try:
        gpus = find_gpus(os.environ) if text == "gpu" else []
        return parse_nodes(text, sorted(os.sched_getaffinity(0)), gpus)
    except (ValueError, RuntimeError) as error:
        raise UsageError(f"--nodes: {str(error).removeprefix('nodes: ')}") from error


def with_policy(file: JobFile, policy: str) -> JobFile:
    """Return the file under another policy, whose parameters are then its defaults.

    Raises UsageError where there is no such policy, or it is one for simulations only.
    """
    try:
        known = policy_named(policy)
    except ValueError as error:
        raise UsageError(f"--{error}") from error
    if known.clairvoyant:
        raise UsageError(f"--policy: {policy} must be told how long every job takes: a bound for simulations")
    settings = msgspec.structs.replace(file.settings, policy=policy, parameters={})
    return msgspec.structs.replace(file, settings=settings)


def run(options: RunOptions) -> RunResult:
    """Run to the end and return what came of it. Raises KeyboardInterrupt after Ctrl-C has cleaned up.

    Raises UsageError where the state directory cannot be used, NotOursError, and as `open_session` does.
    """
    directory = options.session.directory
    try:
        make_ours(directory)
        with log_to(directory):
            return asyncio.run(_run(options))
    except OSError as error:
        raise UsageError(f"{error.filename or directory}: {error.strerror or error}") from error


async def _run(options: RunOptions) -> RunResult:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, stop.set)
    meter = LoadMeter({cpu for node in options.session.nodes for cpu in node.cpus})
    metering = asyncio.ensure_future(_look_at(meter))
    async with open_session(options.session) as session:
        _say_what_is_known(options, session)
        placements = PlacementLog()
        session.controller.observers.append(lambda step: placements.observe(step.after, step.now))
        log = TransactionLog()
        session.controller.observers.append(log.observe)
        steps, weights = StepLog(), WeightLog()
        session.controller.observers.append(lambda step: steps.observe(step.after))
        session.controller.observers.append(weights.observe)
        if options.mover is not None:
            session.controller.observers.append(_moving(options.mover, session.controller))
        ending = asyncio.ensure_future(session.wait_until_finished())
        stopping = asyncio.ensure_future(stop.wait())
        notices = Notices(options.session.directory)
        with _show(options, session, notices) as tell:
            noticing = asyncio.ensure_future(_notice(notices, session.controller, tell))
            await asyncio.wait({ending, stopping}, return_when=asyncio.FIRST_COMPLETED)
            await _last_look(noticing, notices, session.controller, tell)
        stopping.cancel()
        if not ending.done():
            ending.cancel()
            print("stopping: ending every process of this run ...", file=sys.stderr, flush=True)
        state, began_at = session.controller.state, session.began_at
    metering.cancel()
    if stop.is_set():
        raise KeyboardInterrupt
    result = summarize(state, began=began_at, placements=placements.placements)
    if options.gains:
        result = add_gains(result, state, steps, options.session.directory, began_at)
    return msgspec.structs.replace(
        result,
        load=meter.load(),
        reweighted=weights.changes,
        changes=log.changes(state, began_at),
        workers=log.courses(began_at),
    )


def _moving(mover: MoveOnce, controller: Controller) -> StepObserver:
    def observe(stepped: Stepped) -> None:
        for event in mover.look(stepped.after):
            controller.post(event)

    return observe


async def _look_at(meter: LoadMeter) -> None:
    while True:
        await asyncio.sleep(_LOAD_SECONDS)
        meter.look()


async def _notice(notices: Notices, controller: Controller, tell: Callable[[str], None]) -> None:
    """Tell what there is to be known of jobs at once, as it comes; files are read beside the loop."""
    while True:
        for line in await asyncio.to_thread(notices.look, controller.state, controller.clock.now()):
            tell(line)
        await asyncio.sleep(_NOTICE_SECONDS)


async def _last_look(
    noticing: asyncio.Future[None], notices: Notices, controller: Controller, tell: Callable[[str], None]
) -> None:
    """End the looking, with one more: a job may have crashed just now."""
    noticing.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await noticing
    for line in await asyncio.to_thread(notices.look, controller.state, controller.clock.now()):
        tell(line)


def _say_what_is_known(options: RunOptions, session: LocalSession) -> None:
    """Say which jobs an earlier run has submitted: they are not submitted again."""
    told = list(remarks(options.session.jobs, session.controller.state))
    for line in [*told, f"to run them again: {options.anew}"] if told and options.anew else told:
        print(f"specon: {printable(line)}", file=sys.stderr, flush=True)


@contextlib.contextmanager
def _show(options: RunOptions, session: LocalSession, notices: Notices) -> Iterator[Callable[[str], None]]:
    """Show the run, live on a terminal, else a line for each change; yield what tells a line besides."""
    out = sys.stderr if options.aside else sys.stdout
    if options.web:
        print(f"status page: {session.page}", file=out, flush=True)
    plain = options.aside or options.plain or options.web
    if plain or not Console().is_terminal or Console().is_dumb_terminal:
        session.controller.observers.append(_Printer(session.began_at, out, verbose=options.verbose))
        yield lambda line: print(line, file=out, flush=True)
        return
    controller = session.controller
    with LiveView(title=options.title, began=session.began_at, curve_of=session.curve_of) as view:

        async def draw() -> None:
            while True:
                now = controller.clock.now()
                view.update(
                    controller.state, now, controller.stalled, notices.lines_to_show(controller.state, now)
                )
                await asyncio.sleep(1 / _FRAMES_PER_SECOND)

        drawing = asyncio.ensure_future(draw())
        try:
            yield lambda _: None  # the picture shows it, and notices that are still true follow it
        finally:
            drawing.cancel()
            view.update(controller.state, controller.clock.now(), controller.stalled)
    for line in notices.last_lines(controller.state):
        print(line, file=sys.stderr)


class WeightLog:
    """Counts how often a running replica was given another weight."""

    def __init__(self) -> None:
        self.changes = 0

    def observe(self, stepped: Stepped) -> None:
        """Look at a step."""
        for name, replica in stepped.after.replicas.items():
            before = stepped.before.replicas.get(name)
            if before is not None and before is not replica and before.starts == replica.starts:
                self.changes += before.weight != replica.weight


class _Printer:
    def __init__(self, began: float, out: TextIO, *, verbose: bool) -> None:
        self._began, self._out = began, out
        self._verbose = verbose

    def __call__(self, stepped: Stepped) -> None:
        for line in happenings(
            stepped.before, stepped.after, began=self._began, now=stepped.now, verbose=self._verbose
        ):
            print(line, file=self._out, flush=True)
