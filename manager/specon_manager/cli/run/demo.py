"""`specon demo`: the main job on this machine, with real training; `--compare` also with placement only."""

import argparse
import contextlib
import importlib.util
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from specon_manager.backends.local.jobs import JobFile
from specon_manager.cli.output import add_output, console_for_results
from specon_manager.cli.run import scenarios
from specon_manager.cli.run.change_table import print_changes
from specon_manager.cli.run.comparison import print_comparison, to_json, write_json
from specon_manager.cli.run.framework_moves import MoveOnce, keep_installed, lines
from specon_manager.cli.run.gang_proofs import proofs
from specon_manager.cli.run.plot import plot
from specon_manager.cli.run.result import RunResult, print_result
from specon_manager.cli.run.running import (
    RunOptions,
    load,
    nodes_of_this_machine,
    run,
    samples_directory,
    with_policy,
)
from specon_manager.cli.run.unmoved import compare_with_unmoved
from specon_manager.serving.session import SessionOptions
from specon_manager.usage import UsageError

if TYPE_CHECKING:
    from rich.console import Console

BASELINE = "round-robin"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument("--jobs", type=Path, help="job file (default: the sample of twelve training jobs)")
    parser.add_argument(
        "--scenario",
        choices=sorted(scenarios.PROMISES),
        help="other jobs instead: workers that leave for heavier jobs (kod2), preemption (fitgpp), gangs that"
        " move (gang), a gang that is brought together (gather), each framework's scripts as they are"
        " (frameworks)",
    )
    parser.add_argument("--policy", metavar="NAME", help="another one than the job file names")
    parser.add_argument("--nodes", default="auto", help="auto (one per core, at most four), a number, or gpu")
    parser.add_argument(
        "--compare",
        action="store_true",
        help="run again with placement only and compare; of frameworks: each script alone, and its result",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures as JSON into a file")
    add_output(parser)
    parser.add_argument("--plot", type=Path, metavar="FILE.png", help="draw completion times and placements")
    parser.add_argument("--plain", action="store_true", help="plain lines also on a terminal")
    parser.add_argument("--web", action="store_true", help="print a link to the status page, live")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep logs, checkpoints and journal there")
    parser.add_argument("--verbose", action="store_true", help="also print refused moves with their reasons")


def main(arguments: argparse.Namespace) -> int:
    """Run and print; 0 when every job succeeded, 1 when one failed or a scenario did not show its point."""
    scenario: str | None = arguments.scenario
    file = _file(arguments)
    console = console_for_results(aside=arguments.output == "json")
    mover = None
    if scenario == "frameworks":
        mover = MoveOnce()
        file, missing = keep_installed(file)
        for name in missing:
            console.print(f"{name} is not installed: its job is left out")
    with _directory(arguments.keep) as directory:
        runs = [_run(arguments, file, directory / file.settings.policy, mover)]
        print_result(runs[0], console)
        print_changes(runs[0], console)
        known = proofs(runs[0].moves, directory / file.settings.policy)
        for line in known if mover is None else lines(runs[0].moves, mover.values):
            console.print(line)
        if arguments.compare and mover is not None:
            for line, same in compare_with_unmoved(
                file, directory / file.settings.policy, samples_directory()
            ):
                console.print(
                    f"{line}: {'the same' if same else 'NOT the same'}", style="" if same else "red"
                )
        elif arguments.compare:
            baseline = with_policy(file, BASELINE)
            runs.append(_run(arguments, baseline, directory / BASELINE))
            print_result(runs[1], console)
            print_comparison(runs, console)
    _write(arguments, runs, console)
    kept = True
    for words, met in [] if scenario is None else scenarios.check_promises(scenario, runs[0]):
        console.print(f"{'shown' if met else 'NOT shown'}: {words}", style="" if met else "red")
        kept = kept and met
    return 0 if kept and all(job.succeeded for result in runs for job in result.jobs) else 1


def _write(arguments: argparse.Namespace, runs: Sequence[RunResult], console: "Console") -> None:
    """Write the figures and the picture where they were asked for."""
    if arguments.json is not None:
        write_json(arguments.json, runs)
        console.print(f"figures written to {arguments.json}")
    if arguments.plot is not None:
        plot(arguments.plot, runs)
        console.print(f"picture written to {arguments.plot}")
    if arguments.output == "json":
        sys.stdout.write(to_json(runs).decode())


def _file(arguments: argparse.Namespace) -> JobFile:
    """Return the jobs to run; raises UsageError for flags that do not go together."""
    if arguments.scenario is not None:
        for name, given in (
            ("--jobs", arguments.jobs is not None),
            ("--compare", arguments.compare and arguments.scenario != "frameworks"),
            ("--policy", arguments.policy is not None),
            ("--nodes", arguments.nodes != "auto"),
        ):
            if given:
                raise UsageError(f"{name}: a scenario has its own")
    if arguments.jobs is None and arguments.scenario != "frameworks":
        _require("torch", "sklearn")
    file = load(arguments.jobs or scenarios.file_of(arguments.scenario or "demo", samples_directory()))
    if arguments.policy is not None:
        file = with_policy(file, arguments.policy)
    if arguments.compare and arguments.scenario is None and file.settings.policy == BASELINE:
        raise UsageError(f"--compare: other policies are compared with {BASELINE}: name another one")
    return file


def _run(
    arguments: argparse.Namespace, file: JobFile, directory: Path, mover: MoveOnce | None = None
) -> RunResult:
    scenario: str | None = arguments.scenario
    options = SessionOptions(
        directory=directory,
        jobs=file.jobs,
        settings=file.settings,
        nodes=nodes_of_this_machine(arguments.nodes) if scenario is None else scenarios.nodes(scenario),
        working_directory=Path.cwd(),
        environment=os.environ,
        samples=samples_directory(),
        end_with_manager=True,
    )
    return run(
        RunOptions(
            title=f"specon demo, policy {file.settings.policy}",
            session=options,
            plain=arguments.plain,
            aside=arguments.output == "json",
            web=arguments.web,
            verbose=arguments.verbose,
            gains=True,
            mover=mover,
            anew="name another directory with --keep",
        )
    )


def _require(*modules: str) -> None:
    """Raise UsageError unless the modules that the samples import are installed."""
    missing = [name for name in modules if importlib.util.find_spec(name) is None]
    if missing:
        raise UsageError(f"the demo trains with {', '.join(missing)}: pip install 'specon[demo]'")


@contextlib.contextmanager
def _directory(keep: Path | None) -> Iterator[Path]:
    """Yield a directory for the run; a temporary one is removed afterwards."""
    if keep is not None:
        keep.mkdir(mode=0o700, parents=True, exist_ok=True)
        yield keep
        return
    temporary = Path(tempfile.mkdtemp(prefix="specon-demo-"))
    try:
        yield temporary
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
