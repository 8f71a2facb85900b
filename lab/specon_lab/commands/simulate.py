"""`specon simulate`: policies on a workload in virtual time, over several seeds, side by side."""

import argparse
import math
import os
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

from specon_lab.commands.simulation_choice import PolicyChoice, read_policies, read_settings
from specon_lab.commands.simulation_json import to_json
from specon_lab.commands.simulation_plot import check_picture, plot_runs
from specon_lab.commands.simulation_progress import progress
from specon_lab.commands.simulation_run import Results, SimulationTask, run_tasks
from specon_lab.commands.simulation_table import print_report
from specon_lab.commands.simulation_workload import Source
from specon_lab.engine.run import check_workload, settings_for
from specon_lab.results.report import HURT_MARGIN_PERCENT, report_on
from specon_lab.results.statistics import student_quantile
from specon_lab.workloads.table import WORKLOADS
from specon_lab.workloads.workload import Workload
from specon_manager.cli.output import add_output, console_for_results
from specon_manager.usage import UsageError
from specon_manager.views.names import printable
from specon_sidecar.counts import format_count

_STDOUT: Final = "-"
_QUICK_JOBS, _QUICK_SEEDS = 200, 2
_INTERRUPTED: Final = 130
_MAX_SEEDS: Final = 10_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument(
        "--workload",
        required=True,
        metavar="W",
        help=f"NAME[:key=value,...] with a name of {', '.join(WORKLOADS)}; or FILE[:key=value,...], a trace",
    )
    parser.add_argument(
        "--policy",
        action="append",
        required=True,
        metavar="P",
        help="NAME[:key=value,...], see `specon policies`; several times to compare several",
    )
    parser.add_argument("--baseline", metavar="P", help="the policy that the others are compared with")
    parser.add_argument(
        "--seeds", type=int, default=1, metavar="N", help="run with seeds 0 to N-1 (default 1)"
    )
    parser.add_argument("--nodes", type=Path, metavar="FILE", help="nodes instead of those of the workload")
    parser.add_argument(
        "--settings",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="of the owner of the cluster, for instance tick=60 or gate.enabled=false",
    )
    parser.add_argument(
        "--ticks-only", action="store_true", help="ask the policy on ticks only, not on events"
    )
    parser.add_argument("--oracle", action="store_true", help="tell every policy how long each job trains")
    parser.add_argument(
        "--quick", action="store_true", help=f"at most {_QUICK_JOBS} jobs and {_QUICK_SEEDS} seeds"
    )
    parser.add_argument("--jobs", type=int, metavar="N", help="processes (default: one per core)")
    parser.add_argument(
        "--hurt-margin",
        type=float,
        default=HURT_MARGIN_PERCENT,
        metavar="PERCENT",
        help="a job is helped or hurt when its completion time differs by more (default 1)",
    )
    parser.add_argument(
        "--json",
        nargs="?",
        const=_STDOUT,
        metavar="FILE",
        help="write JSON there; without FILE as --output json",
    )
    add_output(parser)
    parser.add_argument("--plot", type=Path, metavar="FILE.png", help="draw completion times, load and nodes")
    parser.add_argument("--timing", action="store_true", help="also say how long the computer took")


def main(arguments: argparse.Namespace) -> int:
    """Run and show; 0 when every run came to its end, 1 when one broke, 130 after Ctrl-C."""
    seeds = _seeds(arguments)
    policies = read_policies(arguments.policy, arguments.baseline)
    workload, tasks = _prepare(arguments, policies, seeds)
    console = console_for_results()
    with progress([f"{task.policy.label}, seed {task.seed}" for task in tasks]) as on_progress:
        results = run_tasks(tasks, processes=_processes(arguments), on_progress=on_progress)
    if not arguments.timing:
        results = results.without_timing()
    report = report_on(results.runs, baseline=arguments.baseline, margin_percent=arguments.hurt_margin)
    as_json = arguments.output == "json" or arguments.json == _STDOUT
    if not as_json and results.runs:
        print_report(report, console, title=_title(arguments, workload) + _spread(seeds))
    if as_json or arguments.json is not None:
        content = to_json(report, results, command=_command(arguments), workload=workload, seeds=seeds)
        if as_json:
            sys.stdout.write(content.decode())
        if arguments.json not in {None, _STDOUT}:
            _write(Path(arguments.json), "--json", lambda path: path.write_bytes(content))
    if arguments.plot is not None and results.runs:
        title, nodes = _title(arguments, workload), [node.name for node in workload.nodes]
        _write(arguments.plot, "--plot", lambda path: plot_runs(path, results.runs, title=title, nodes=nodes))
    return _conclude(results, len(tasks))


def _prepare(
    arguments: argparse.Namespace, policies: tuple[PolicyChoice, ...], seeds: range
) -> tuple[Workload, list[SimulationTask]]:
    """Return the workload of the first seed and all runs; everything that can be wrong is found here."""
    if not 0 <= arguments.hurt_margin < math.inf:
        raise UsageError(f"--hurt-margin: {arguments.hurt_margin:g} is not a number from 0 on")
    try:
        if len(seeds) > 1:
            student_quantile(1, 0.5)
        if arguments.plot is not None:
            check_picture(arguments.plot)
    except ModuleNotFoundError as error:
        raise UsageError(str(error)) from error
    except ValueError as error:
        raise UsageError(f"--plot: {error}") from error
    _expect_directory("--plot", arguments.plot)
    _expect_directory("--json", None if arguments.json in {None, _STDOUT} else Path(arguments.json))
    source = Source(
        text=arguments.workload, nodes=arguments.nodes, most_jobs=_QUICK_JOBS if arguments.quick else None
    )
    workload = source.read(seeds[0])
    for warning in source.warnings(seeds[0]):
        print(f"specon: {printable(warning)}", file=sys.stderr)
    if not workload.jobs:
        raise UsageError(f"--workload: {arguments.workload} holds no job")
    try:
        check_workload(workload)
    except ValueError as error:
        raise UsageError(f"--workload: {arguments.workload}: {error}") from error
    read_settings(arguments.settings, settings_for(workload))
    tasks = [
        SimulationTask(
            policy=policy,
            workload=source,
            seed=seed,
            settings=tuple(arguments.settings),
            oracle=True if arguments.oracle else None,
            ticks_only=arguments.ticks_only,
            stays=arguments.plot is not None and seed == seeds[0],
        )
        for seed in seeds  # those of a seed follow each other: they share its workload
        for policy in policies
    ]
    return workload, tasks


def _seeds(arguments: argparse.Namespace) -> range:
    if not 1 <= arguments.seeds <= _MAX_SEEDS:
        raise UsageError(f"--seeds: {arguments.seeds} is not between 1 and {_MAX_SEEDS}")
    return range(min(arguments.seeds, _QUICK_SEEDS) if arguments.quick else arguments.seeds)


def _processes(arguments: argparse.Namespace) -> int:
    if arguments.jobs is None:
        return len(os.sched_getaffinity(0))
    if arguments.jobs < 1:
        raise UsageError(f"--jobs: {arguments.jobs} is less than 1")
    return int(arguments.jobs)


def _expect_directory(flag: str, path: Path | None) -> None:
    """Raise UsageError before anything runs where the result could not be written."""
    if path is not None and not path.parent.is_dir():
        raise UsageError(f"{flag}: {path}: there is no directory {path.parent}")


def _write(path: Path, flag: str, write: Callable[[Path], object]) -> None:
    try:
        write(path)
    except ValueError as error:  # a format that matplotlib does not know
        raise UsageError(f"{flag}: {path}: {error}") from error
    except OSError as error:
        raise UsageError(f"{flag}: {path}: {error.strerror}") from error


def _title(arguments: argparse.Namespace, workload: Workload) -> str:
    cut = ", --quick: the first to arrive" if arguments.quick else ""
    size = f"{format_count(len(workload.jobs), 'job')}, {format_count(len(workload.nodes), 'node')}"
    return f"{arguments.workload}: {size}{cut}"


def _spread(seeds: range) -> str:
    return f"; seeds 0 to {seeds[-1]}: mean ± half of the 95 % interval" if len(seeds) > 1 else "; seed 0"


def _command(arguments: argparse.Namespace) -> str:
    """Return the command as JSON names it: what changes no figure is left out."""
    words = ["specon", "simulate", "--workload", arguments.workload]
    for policy in arguments.policy:
        words += ["--policy", policy]
    if arguments.baseline is not None:
        words += ["--baseline", arguments.baseline]
    words += ["--seeds", str(arguments.seeds)]
    if arguments.nodes is not None:
        words += ["--nodes", str(arguments.nodes)]
    for setting in arguments.settings:
        words += ["--settings", setting]
    for flag in ("ticks_only", "oracle", "quick"):
        words += [f"--{flag.replace('_', '-')}"] if getattr(arguments, flag) else []
    if arguments.hurt_margin != HURT_MARGIN_PERCENT:
        words += ["--hurt-margin", f"{arguments.hurt_margin:g}"]
    return shlex.join(words)


def _conclude(results: Results, asked: int) -> int:
    """Name the missing runs on the error stream, and return the exit code."""
    for failure in results.failures:
        print(f"specon: {failure.policy}, seed {failure.seed}: {failure.reason}", file=sys.stderr)
    if results.interrupted:
        print(
            f"specon: interrupted after {len(results.runs)} of {format_count(asked, 'run')}", file=sys.stderr
        )
        return _INTERRUPTED
    return 1 if results.failures else 0
