"""`specon demo`: the main job on this machine, with real training; `--compare` also with placement only."""

import argparse
import contextlib
import importlib.util
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from specon_manager.backends.local.jobs import JobFile
from specon_manager.cli.output import console_for_results
from specon_manager.cli.run import scenarios
from specon_manager.cli.run.change_table import print_changes
from specon_manager.cli.run.comparison import print_comparison, write_json
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
from specon_manager.serving.session import SessionOptions
from specon_manager.usage import UsageError

BASELINE = "round-robin"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument("--jobs", type=Path, help="job file (default: the sample of ten training jobs)")
    parser.add_argument(
        "--scenario",
        choices=sorted(scenarios.PROMISES),
        help="elastic jobs instead: workers that leave for heavier jobs (kod2), or preemption (fitgpp)",
    )
    parser.add_argument("--policy", metavar="NAME", help="another one than the job file names")
    parser.add_argument("--nodes", default="auto", help="auto (one per core, at most four), a number, or gpu")
    parser.add_argument("--compare", action="store_true", help="run again with placement only and compare")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures as JSON")
    parser.add_argument("--plot", type=Path, metavar="FILE.png", help="draw completion times and placements")
    parser.add_argument("--plain", action="store_true", help="plain lines also on a terminal")
    parser.add_argument("--web", action="store_true", help="print a link to the status page, live")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep logs, checkpoints and journal there")
    parser.add_argument("--verbose", action="store_true", help="also print refused moves with their reasons")


def main(arguments: argparse.Namespace) -> int:
    """Run and print; 0 when every job succeeded, 1 when one failed or a scenario did not show its point."""
    scenario: str | None = arguments.scenario
    file = _file(arguments)
    console = console_for_results()
    with _directory(arguments.keep) as directory:
        runs = [_run(arguments, file, directory / file.settings.policy)]
        print_result(runs[0], console)
        print_changes(runs[0], console)
        for line in proofs(runs[0].moves, directory / file.settings.policy):
            console.print(line)
        if arguments.compare:
            baseline = with_policy(file, BASELINE)
            runs.append(_run(arguments, baseline, directory / BASELINE))
            print_result(runs[1], console)
            print_comparison(runs, console)
    if arguments.json is not None:
        write_json(arguments.json, runs)
        console.print(f"figures written to {arguments.json}")
    if arguments.plot is not None:
        plot(arguments.plot, runs)
        console.print(f"picture written to {arguments.plot}")
    kept = True
    for words, met in [] if scenario is None else scenarios.shown(scenario, runs[0]):
        console.print(f"{'shown' if met else 'NOT shown'}: {words}", style="" if met else "red")
        kept = kept and met
    return 0 if kept and all(job.succeeded for result in runs for job in result.jobs) else 1


def _file(arguments: argparse.Namespace) -> JobFile:
    """Return what is to be run; raises UsageError for flags that do not go together."""
    if arguments.scenario is not None:
        for name, given in (
            ("--jobs", arguments.jobs is not None),
            ("--compare", arguments.compare),
            ("--policy", arguments.policy is not None),
            ("--nodes", arguments.nodes != "auto"),
        ):
            if given:
                raise UsageError(f"{name}: a scenario has its own")
    if arguments.jobs is None:
        _require("torch", "sklearn")
    file = load(arguments.jobs or scenarios.file_of(arguments.scenario or "demo", samples_directory()))
    if arguments.policy is not None:
        file = with_policy(file, arguments.policy)
    if arguments.compare and file.settings.policy == BASELINE:
        raise UsageError(f"--compare: {BASELINE} is what another policy is compared with")
    return file


def _run(arguments: argparse.Namespace, file: JobFile, directory: Path) -> RunResult:
    options = SessionOptions(
        directory=directory,
        jobs=file.jobs,
        settings=file.settings,
        nodes=nodes_of_this_machine(arguments.nodes) if arguments.scenario is None else scenarios.nodes(),
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
            web=arguments.web,
            verbose=arguments.verbose,
            gains=True,
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
