"""What `specon` can do: each command by name, loaded when it is asked for and not before."""

import argparse
import importlib
from collections.abc import Callable
from typing import Any, Final, Literal, NamedTuple

from specon_manager.usage import UsageError

CommandGroup = Literal["run", "look", "act", "study"]
GROUPS: Final[dict[CommandGroup, str]] = {
    "run": "run training jobs",
    "look": "look at a manager",
    "act": "have a manager do something",
    "study": "study logs, policies and decisions",
}
"""What people do, in the order of the help."""

_EXTRAS: Final = {
    "cryptography": "manager",
    "kubernetes": "manager",
    "matplotlib": "simulate",
    "psutil": "manager",
    "rich": "manager",
    "scipy": "simulate",
    "shtab": "manager",
    "tensorboard": "tensorboard",
    "torch": "demo",
    "yaml": "manager",
}
"""Packages of extras, by the name under which they are imported."""


class Command(NamedTuple):
    """One command, and where it is."""

    name: str
    help: str
    group: CommandGroup
    module: str
    """Below `specon_manager.cli`, or of the lab: `lab:NAME`. Nothing else is loaded for it."""
    declare: str = "add_arguments"
    """Its function that declares the flags."""
    run: str = "main"
    """Its function that carries it out and returns the exit code."""
    extra: str = "manager"
    """What has all that it needs, where that is more than nothing."""
    of_clusters: bool = False
    """Whether a cluster answers it, so that `kubectl specon` has it."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the flags; raises UsageError where a package is not installed."""
        self._function(self.declare)(parser)

    def main(self, arguments: argparse.Namespace) -> int:
        """Carry it out and return the exit code; raises what `add_arguments` does."""
        run = self._function(self.run)
        try:
            return int(run(arguments))
        except ModuleNotFoundError as missing:  # of what it imports only now
            raise UsageError(_wanting(missing, self.extra)) from missing

    def _function(self, name: str) -> Callable[..., Any]:
        place, _, within = self.module.partition(":")
        try:
            if within:
                from specon_manager import lab  # noqa: PLC0415 - only its commands pass its door

                module = lab.command(within)
            else:
                module = importlib.import_module(f"{__package__}.{place}")
        except ModuleNotFoundError as missing:
            raise UsageError(_wanting(missing, self.extra)) from missing
        found: Callable[..., Any] = getattr(module, name)
        return found


def _wanting(missing: ModuleNotFoundError, enough: str) -> str:
    """Return which extra to install: the one with all that the command needs."""
    package = (missing.name or "").partition(".")[0]
    if package not in _EXTRAS:
        raise missing
    extra = enough if _EXTRAS[package] == "manager" else _EXTRAS[package]
    return f"{package} is not installed: pip install 'specon[{extra}]'"


COMMANDS: Final = (
    Command(
        name="demo",
        help="run twelve real training jobs on this machine and move them",
        group="run",
        module="run.demo",
        extra="demo",
    ),
    Command(
        name="init",
        help="write the job file or the annotations of your training, from the files found",
        group="run",
        module="begin.init",
    ),
    Command(name="local", help="run the training commands of a job file", group="run", module="run.local"),
    Command(
        name="serve",
        help="manage the training jobs of a Kubernetes cluster",
        group="run",
        module="run.serve",
    ),
    Command(
        name="observe",
        help="look at a cluster's training jobs, change nothing, and say what would have been done",
        group="run",
        module="run.observe",
        of_clusters=True,
    ),
    Command(name="submit", help="add a job to a running manager", group="run", module="act.submit"),
    Command(
        name="top",
        help="show who trains where and how it goes, live",
        group="look",
        module="look.top",
        of_clusters=True,
    ),
    Command(
        name="explain",
        help="list the decisions about a job, and their reasons",
        group="look",
        module="look.explain",
        of_clusters=True,
    ),
    Command(
        name="doctor",
        help="list the problems of a job, a job file or a manager, the likeliest first",
        group="look",
        module="begin.doctor",
        of_clusters=True,
    ),
    Command(
        name="moves",
        help="list the moves, with their outcomes and reasons",
        group="look",
        module="look.transactions",
        run="moves",
        of_clusters=True,
    ),
    Command(
        name="changes",
        help="list admissions, scalings and preemptions of jobs, with their outcomes and reasons",
        group="look",
        module="look.transactions",
        run="changes",
        of_clusters=True,
    ),
    Command(
        name="queue",
        help="show queues with their quotas and use, and the jobs that wait, next first",
        group="look",
        module="look.queue",
        of_clusters=True,
    ),
    Command(
        name="report",
        help="say what a manager did for its jobs in the last days, and what it cost",
        group="look",
        module="look.report",
        of_clusters=True,
    ),
    Command(
        name="migrate",
        help="move a replica to another node",
        group="act",
        module="act.migrate",
        of_clusters=True,
    ),
    Command(
        name="drain",
        help="move everything that can be moved off a node",
        group="act",
        module="act.drain",
        of_clusters=True,
    ),
    Command(
        name="pause",
        help="order nothing new; moves in flight finish",
        group="act",
        module="act.pause",
        declare="add_pause_arguments",
        run="pause",
        of_clusters=True,
    ),
    Command(
        name="resume",
        help="end a pause",
        group="act",
        module="act.pause",
        declare="add_resume_arguments",
        run="resume",
        of_clusters=True,
    ),
    Command(
        name="support-bundle",
        help="write the facts that support needs to a file, without secrets",
        group="look",
        module="look.bundle",
        of_clusters=True,
    ),
    Command(
        name="classify",
        help="say what a training log tells about its job",
        group="study",
        module="study.classify",
    ),
    Command(
        name="simulate",
        help="compare policies on a made-up workload or a trace, in virtual time",
        group="study",
        module="lab:simulate",
        extra="simulate",
    ),
    Command(
        name="reproduce",
        help="run the papers' experiments by simulation, their figures beside ours",
        group="study",
        module="lab:reproduce",
        extra="simulate",
    ),
    Command(
        name="what-if",
        help="say what other policies would do with a manager's jobs now, and what might come of it",
        group="study",
        module="lab:what_if",
        extra="simulate",
    ),
    Command(
        name="policies",
        help="list the policies and their parameters",
        group="study",
        module="study.policies",
    ),
    Command(
        name="replay",
        help="run a journal through the decisions again",
        group="study",
        module="study.replay",
    ),
    Command(
        name="completion",
        help="print what a shell needs to complete this",
        group="study",
        module="completion",
    ),
)
