"""`specon doctor`: lists the faults of a job, a job file or a manager, the likeliest first."""

import argparse
import importlib.metadata
import os
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from specon_manager import __version__
from specon_manager.backends.local.nodes import parse_nodes
from specon_manager.cli.begin.job_file_check import check_job_file
from specon_manager.cli.look.explain import read_whole
from specon_manager.cli.output import to_json
from specon_manager.cli.remote.choice import add_remote_arguments, run_remote
from specon_manager.cli.remote.names import find_job
from specon_manager.cli.remote.remote import Remote
from specon_manager.core.state import State
from specon_manager.usage import UsageError
from specon_manager.views.findings import Finding, findings
from specon_manager.views.names import printable
from specon_manager.views.times import iso

_SHOWN: Final = 20


class Diagnosis(Struct, frozen=True, kw_only=True):
    """What `specon doctor --output json` prints."""

    manager: str
    """Empty where a job file alone was looked at."""
    at: str | None
    job: str | None
    wrong: bool
    findings: tuple[Finding, ...]
    caveats: tuple[str, ...] = ()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument("job", nargs="?", help="name of the job (default: all, and the manager itself)")
    parser.add_argument(
        "--file",
        type=Path,
        metavar="JOBS.yaml",
        help="check a job file before it is run, and the traces of an earlier run",
    )
    add_remote_arguments(parser, bundles=True)


def main(arguments: argparse.Namespace) -> int:
    """Look and say; 0 where nothing is wrong, 1 where something is."""
    if arguments.file is not None:
        return _of_file(arguments)
    try:
        return run_remote(arguments, lambda remote: _of_manager(remote, arguments, ()))
    except UsageError as error:
        if arguments.job is not None or any((arguments.state, arguments.bundle)):
            raise
        return _say(
            Diagnosis(manager="", at=None, job=None, wrong=True, findings=_of_nothing(error)), arguments
        )


def _of_file(arguments: argparse.Namespace) -> int:
    path: Path = arguments.file
    nodes = parse_nodes("auto", sorted(os.sched_getaffinity(0)), [])
    found = tuple(check_job_file(path, nodes))
    directory = path.with_suffix(".specon")
    if arguments.state is None and arguments.bundle is None and (directory / "manager.json").is_file():
        arguments.state = directory
    if arguments.state is not None or arguments.bundle is not None:
        return run_remote(arguments, lambda remote: _of_manager(remote, arguments, found))
    wrong = any(each.wrong for each in found)
    return _say(Diagnosis(manager="", at=None, job=None, wrong=wrong, findings=found), arguments)


async def _of_manager(remote: Remote, arguments: argparse.Namespace, before: Sequence[Finding]) -> int:
    view = await remote.view()
    job = None if arguments.job is None else find_job(view.state, arguments.job, arguments.namespace)
    if job is not None:
        read = await read_whole(remote, view, partial(_replicas, job))
        unread = (f"the permissions of its owner are not known: {read}",) if isinstance(read, str) else ()
        whole = view if isinstance(read, str) else read
        view = msgspec.structs.replace(whole, answers=view.answers, caveats=(*view.caveats, *unread))
    logs = await _logs(remote, view.state, job)
    found = findings(view, job=job, versions=await remote.versions(), here=__version__, logs=logs)
    # A run that ended is no fault of a file that is only to be run.
    rest = [each for each in found if not (before or arguments.file) or each.kind != "no-manager"]
    every = (*before, *rest)
    return _say(
        Diagnosis(
            manager=remote.where,
            at=iso(view.now),
            job=job,
            wrong=any(each.wrong for each in every),
            findings=every,
            caveats=view.caveats,
        ),
        arguments,
    )


async def _logs(remote: Remote, state: State, job: str | None) -> dict[str, tuple[str, ...]]:
    """Return the last lines of the logs of the first replicas that crashed, where they can be read."""
    chosen = [each for each in state.replicas.values() if each.crashes and job in {None, each.job}]
    ends = {each.name: await remote.log_end(each.name) for each in chosen[:_SHOWN]}
    return {name: (end.path, *end.lines) for name, end in ends.items() if end is not None}


def _replicas(job: str, state: State) -> Sequence[str]:
    return state.jobs[job].spec.replicas if job in state.jobs else ()


def _of_nothing(error: UsageError) -> tuple[Finding, ...]:
    """Return that no manager is reached, and what of this installation may be the reason."""
    try:
        kubernetes = importlib.metadata.version("kubernetes")
    except importlib.metadata.PackageNotFoundError:
        kubernetes = "not installed: a cluster is reached with specon[manager]"
    return (
        Finding(
            kind="no-manager",
            about="",
            what="no manager is reached",
            evidence=(str(error), f"specon {__version__}, kubernetes {kubernetes}"),
            advice="specon local FILE starts one here; --state, --context or --bundle names one",
        ),
    )


def _say(told: Diagnosis, arguments: argparse.Namespace) -> int:
    if arguments.output == "json":
        sys.stdout.write(f"{to_json(told)}\n")
        return int(told.wrong)
    wrong = [each for each in told.findings if each.wrong]
    notes = [each for each in told.findings if not each.wrong]
    where = printable(told.manager) or "this machine"
    if not wrong:
        print(f"nothing is wrong, as far as {where} shows")
    for number, each in enumerate(wrong[:_SHOWN], 1):
        _print(f"{number}.", each)
    if notes:
        print("good to know:" if wrong else "possible reasons, where nothing happens:")
    for each in notes[:_SHOWN]:
        _print("-", each)
    left = max(0, len(wrong) - _SHOWN) + max(0, len(notes) - _SHOWN)
    if left:
        print(f"and {left} more: --output json has all of them")
    for caveat in told.caveats:
        print(printable(f"but: {caveat}"))
    return int(told.wrong)


def _print(mark: str, finding: Finding) -> None:
    about = f"{finding.about}: " if finding.about else ""
    print(printable(f"{mark} {about}{finding.what}"))
    for line in finding.evidence:
        print(f"     {printable(line)}")
    print(f"   > {printable(finding.advice)}")
