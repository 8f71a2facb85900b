"""`specon what-if`: what other policies would do with a manager's jobs now, and what might come of it.

Nothing is touched: the state is read, and everything else is simulated.
"""

import argparse
import math
import os
import sys
from pathlib import Path
from typing import Final

from msgspec import Struct

from specon_lab.commands import what_if_defragment
from specon_lab.commands.simulation_choice import PolicyChoice, policy_choice
from specon_lab.commands.simulation_progress import progress
from specon_lab.commands.state_source import read_state
from specon_lab.commands.what_if_result import PolicyForecast, answer, policy_forecast, to_json
from specon_lab.commands.what_if_table import print_what_if
from specon_lab.engine.outcome import Outcome
from specon_lab.engine.run import check_workload, simulate
from specon_lab.forecasts.forecast import Forecast, forecast, verdicts_now
from specon_lab.process_pool import Job, Note, run_all, where
from specon_manager.cli.output import add_output, console_for_results
from specon_manager.core.state import State
from specon_manager.policies.progress import ProgressSettings
from specon_manager.usage import UsageError

_OWN: Final = "progress"
_LINES: Final = 20
_INTERRUPTED: Final = 130


class WhatIfTask(Struct, frozen=True, kw_only=True):
    """The simulation of one policy."""

    policy: PolicyChoice
    forecast: Forecast
    horizon: float | None


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument(
        "--state",
        required=True,
        metavar="S",
        help="a file with the answer of /v1/state, the URL of a manager, a journal, or a state directory",
    )
    parser.add_argument("--token", type=Path, metavar="FILE", help="the owner's token, for a URL")
    parser.add_argument(
        "--policy",
        action="append",
        default=[],
        metavar="P",
        help=f"NAME[:key=value,...] beside the present one, several times for several (default {_OWN})",
    )
    parser.add_argument("--horizon", type=float, metavar="SECONDS", help="predict no further than this")
    parser.add_argument(
        "--prior",
        type=float,
        default=ProgressSettings().prior_seconds,
        metavar="SECONDS",
        help="how long a job trains where nothing was learnt yet (default 600)",
    )
    parser.add_argument(
        "--top",
        type=int,
        default=_LINES,
        metavar="N",
        help=f"show at most so many lines of each (default {_LINES})",
    )
    parser.add_argument(
        "--defragment",
        action="store_true",
        help="say instead which moves would make room, or jobs faster, at which price",
    )
    parser.add_argument("--jobs", type=int, metavar="N", help="processes (default: one per core)")
    parser.add_argument("--json", action="store_const", const="json", dest="output", help="as --output json")
    add_output(parser)


def main(arguments: argparse.Namespace) -> int:
    """Read, ask, simulate and show; 0 when every policy has its forecast, 1 when one broke."""
    _check(arguments)
    if arguments.defragment and arguments.policy:
        raise UsageError("--defragment: it is about the present policy; leave --policy out")
    read = read_state(arguments.state, arguments.token)
    state, now = read.state, read.now
    if arguments.defragment:
        return _room_making(state, now, arguments)
    policies = _policies(state, arguments.policy)
    try:
        expected = forecast(state, now, prior_seconds=arguments.prior)
        check_workload(expected.workload)
    except ValueError as error:
        raise UsageError(f"--state: {arguments.state}: {error}") from error
    tasks = [WhatIfTask(policy=each, forecast=expected, horizon=arguments.horizon) for each in policies]
    with progress([task.policy.label for task in tasks]) as on_progress:
        outcomes, interrupted = run_all(
            tasks,
            Job(work=_outcome, died=_report_death),
            processes=_processes(arguments),
            on_progress=on_progress,
        )
    if interrupted:
        print("specon: interrupted", file=sys.stderr)
        return _INTERRUPTED
    shown, broken = _forecasts(state, now, tasks, outcomes)
    for line in broken:
        print(f"specon: {line}", file=sys.stderr)
    if shown:
        found = answer(state, expected.remaining, shown, arguments.horizon)
        if arguments.output == "json":
            sys.stdout.write(to_json(found).decode())
        else:
            print_what_if(found, console_for_results(), most=arguments.top)
    return 1 if broken else 0


def _room_making(state: State, now: float, arguments: argparse.Namespace) -> int:
    found = what_if_defragment.answer(state, now)
    if arguments.output == "json":
        sys.stdout.write(what_if_defragment.to_json(found).decode())
    else:
        what_if_defragment.print_room_making(found, console_for_results(), most=arguments.top)
    return 0


def _forecasts(
    state: State, now: float, tasks: list[WhatIfTask], outcomes: dict[int, Outcome | str]
) -> tuple[list[PolicyForecast], list[str]]:
    """Return the results of each policy, and the failures; without the present one nothing is compared."""
    present = outcomes[0]
    if isinstance(present, str):
        return [], [f"{tasks[0].policy.label}, the present policy: {present}"]
    shown, broken = [], []
    for number, task in enumerate(tasks):
        outcome, policy = outcomes[number], task.policy
        if isinstance(outcome, str):
            broken.append(f"{policy.label}: {outcome}")
            continue
        try:
            judged = verdicts_now(state, now, policy.name, policy.parameters, task.forecast.remaining)
        except Exception as error:  # noqa: BLE001  (one broken policy takes nothing from the others)
            broken.append(f"{policy.label}: {where(error)}")
            continue
        shown.append(policy_forecast(policy.label, judged, outcome, present, state))
    return shown, broken


def _policies(state: State, texts: list[str]) -> list[PolicyChoice]:
    """Return the present policy as it is set, and those that were asked for."""
    name, parameters = state.settings.policy, state.settings.parameters
    label = f"{name} (as it is set)" if parameters else name
    present = PolicyChoice(label=label, name=name, parameters=parameters)
    chosen = [policy_choice(text, "--policy") for text in texts or [_OWN]]
    labels = [each.label for each in chosen]
    for label in labels:
        if labels.count(label) > 1:
            raise UsageError(f"--policy: {label} is given {labels.count(label)} times")
    return [present, *(each for each in chosen if (each.name, each.parameters) != (name, parameters))]


def _check(arguments: argparse.Namespace) -> None:
    for flag in ("horizon", "prior"):
        value = getattr(arguments, flag)
        if value is not None and not (0 < value < math.inf):
            raise UsageError(f"--{flag}: {value:g} is not a number of seconds above 0")
    for flag in ("top", "jobs"):
        value = getattr(arguments, flag)
        if value is not None and value < 1:
            raise UsageError(f"--{flag}: {value} is less than 1")


def _processes(arguments: argparse.Namespace) -> int:
    return len(os.sched_getaffinity(0)) if arguments.jobs is None else int(arguments.jobs)


def _outcome(task: WhatIfTask, on_progress: Note) -> Outcome | str:
    expected = task.forecast
    try:
        return simulate(
            expected.workload,
            task.policy.name,
            parameters=task.policy.parameters,
            settings=expected.settings,
            limit=task.horizon,
            beginning=expected.beginning,
            on_progress=on_progress,
        )
    except Exception as error:  # noqa: BLE001  (one broken policy takes nothing from the others)
        return where(error)


def _report_death(task: WhatIfTask, reason: str) -> Outcome | str:
    del task
    return reason
