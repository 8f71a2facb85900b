"""`specon local JOBS.yaml`: anybody's training commands on the virtual nodes of this machine."""

import argparse
import os
import sys
from pathlib import Path

from specon_manager.cli.output import add_output, console_for_results
from specon_manager.cli.run.comparison import to_json, write_json
from specon_manager.cli.run.plot import plot
from specon_manager.cli.run.put_aside import put_aside
from specon_manager.cli.run.result import print_result
from specon_manager.cli.run.running import (
    RunOptions,
    load,
    nodes_of_this_machine,
    run,
    samples_directory,
    with_policy,
)
from specon_manager.serving.session import SessionOptions


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument("jobs", type=Path, help="job file; see docs/local.md")
    parser.add_argument("--nodes", default="auto", help="auto (one per core, at most four), a number, or gpu")
    parser.add_argument(
        "--state", type=Path, metavar="DIR", help="journal, logs and checkpoints (default: JOBS.specon)"
    )
    parser.add_argument(
        "--fresh", action="store_true", help="run every job again; put the files of the earlier run aside"
    )
    parser.add_argument("--policy", help="policy in place of the file's, with its default parameters")
    parser.add_argument(
        "--leave-running",
        action="store_true",
        help="let training continue when this command stops; the next one adopts it",
    )
    parser.add_argument("--port", type=int, default=0, help="port of the HTTP server on loopback")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures as JSON into a file")
    add_output(parser)
    parser.add_argument("--plot", type=Path, metavar="FILE.png", help="draw completion times and placements")
    parser.add_argument("--plain", action="store_true", help="plain lines also on a terminal")
    parser.add_argument("--web", action="store_true", help="print a link to the status page, live")
    parser.add_argument("--verbose", action="store_true", help="also print refused moves with their reasons")


def main(arguments: argparse.Namespace) -> int:
    """Run and print; 0 when every job succeeded, 1 when one failed."""
    file = load(arguments.jobs)
    if arguments.policy is not None:
        file = with_policy(file, arguments.policy)
    directory = arguments.state or arguments.jobs.with_suffix(".specon")
    if arguments.fresh and (aside := put_aside(directory)) is not None:
        print(f"specon: the earlier run is put aside in {aside}", file=sys.stderr, flush=True)
    session = SessionOptions(
        directory=directory,
        jobs=file.jobs,
        settings=file.settings,
        nodes=nodes_of_this_machine(arguments.nodes),
        working_directory=Path.cwd(),
        environment=os.environ,
        samples=samples_directory(),
        leave_running=arguments.leave_running,
        forecasts=True,
        port=arguments.port,
    )
    title = f"{arguments.jobs}, policy {file.settings.policy}"
    result = run(
        RunOptions(
            title=title,
            session=session,
            plain=arguments.plain,
            aside=arguments.output == "json",
            web=arguments.web,
            verbose=arguments.verbose,
            anew="the same command with --fresh (it puts the earlier run aside), or give a job another name",
        )
    )
    as_json = arguments.output == "json"
    console = console_for_results(aside=as_json)
    print_result(result, console)
    if arguments.json is not None:
        write_json(arguments.json, [result])
    if as_json:
        sys.stdout.write(to_json([result]).decode())
    if arguments.plot is not None:
        plot(arguments.plot, [result])
    return 0 if all(job.succeeded for job in result.jobs) else 1
