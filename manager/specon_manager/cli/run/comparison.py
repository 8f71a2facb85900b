"""Two runs of the same jobs side by side: with moves, and without. A worse result reads as worse.

Results are also written as JSON, for other programs. A file holds one object:

- `schema`: 1
- `runs`: an array of results of runs (`RunResult`): `policy`; `jobs` with `name`, `submitted_at`,
  `finished_at`, `completion_seconds`, `succeeded`, `moves`, `downtimes`, `steps_lost`, `crashes`, `category`,
  `steps`; `average_completion_seconds`; `makespan_seconds`; `moves_by_outcome`; `moves`, and `changes` of
  jobs by admissions, scalings and preemptions, both with `id`, `kind`, `job`, `replica`, `source`, `target`,
  `state`, `policy`, `purpose`, `reason`, `note`, `beneficiary`, `workers_before`, `workers_after`, `restart`,
  `started_at`, `ended_at`, `checkpoint_step`, `last_step_before`, `first_step_after`, `downtime`,
  `steps_lost`; `placements` with `job`, `replica`, `node`, `start`, `end`; `machine` with `nodes`, `cpus`,
  `names`; `workers`, by job an array of `at` and `workers`; `load` of the machine with `cpus`,
  `seconds`, and the processor seconds of the run, `own`, and of everything else, `others`
- `comparison`: of the first run with the second where there are two (`Comparison`), else null: `policy`,
  `policy_without`, `moved`, `drifted`, `load`, `load_without`; `jobs` with `name`, `completion`, `verdict`;
  `helped`, `hurt`, `unchanged`, `no_verdict`, `not_comparable`; `average_completion` and `makespan`, which
  are like each `completion` an object of `with_moves`, `without`, `seconds`, `percent`, and
  `percent_normalised`, which is what `percent` would be of the processor time that others left

All times are in seconds, those of a run since its begin. What is not known is null.
"""

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal

import msgspec
from msgspec import Struct
from rich.console import Console
from rich.table import Table
from rich.text import Text

from specon_manager.cli.run.machine_load import Load
from specon_manager.cli.run.result import RunResult, in_jobs, in_seconds
from specon_manager.cli.run.verdict import THRESHOLD_PERCENT, Difference, Judge, Verdict
from specon_manager.views.names import job_label

_STYLES: Final = {
    Verdict.HELPED: "green",
    Verdict.HURT: "red",
    Verdict.UNCHANGED: "",
    Verdict.NO_VERDICT: "",
    Verdict.NOT_COMPARABLE: "yellow",
}


class JobComparison(Struct, frozen=True, kw_only=True):
    """The completion time of one job in both runs."""

    name: str
    completion: Difference
    verdict: Verdict


class Comparison(Struct, frozen=True, kw_only=True):
    """Both runs, job by job and as a whole."""

    policy: str
    policy_without: str
    moved: bool
    """Whether the first run moved anything: without that there is no verdict."""
    drifted: bool
    """Whether others took another part of the machine in one run than in the other."""
    jobs: tuple[JobComparison, ...]
    helped: int
    hurt: int
    unchanged: int
    """Within 2 % of the time without moves."""
    no_verdict: int
    not_comparable: int
    average_completion: Difference
    """Over the jobs that succeeded in both runs, so that a job which failed makes no run look faster."""
    makespan: Difference
    load: Load | None = None
    load_without: Load | None = None


def compare(with_moves: RunResult, without: RunResult) -> Comparison:
    """Compare two runs; jobs are the same where their names are."""
    judge = Judge(with_moves, without)
    first = {job.name: job for job in with_moves.jobs}
    second = {job.name: job for job in without.jobs}
    jobs = tuple(
        JobComparison(name=name, completion=completion, verdict=verdict)
        for name in dict.fromkeys([*first, *second])
        for completion, verdict in [judge.job(first.get(name), second.get(name))]
    )
    both = [job.completion for job in jobs if job.completion.seconds is not None]
    verdicts = [job.verdict for job in jobs]
    return Comparison(
        policy=with_moves.policy,
        policy_without=without.policy,
        moved=judge.moved,
        drifted=judge.drifted,
        jobs=jobs,
        helped=verdicts.count(Verdict.HELPED),
        hurt=verdicts.count(Verdict.HURT),
        unchanged=verdicts.count(Verdict.UNCHANGED),
        no_verdict=verdicts.count(Verdict.NO_VERDICT),
        not_comparable=verdicts.count(Verdict.NOT_COMPARABLE),
        average_completion=judge.difference(
            _mean([each.with_moves for each in both]), _mean([each.without for each in both])
        ),
        makespan=judge.difference(with_moves.makespan_seconds, without.makespan_seconds),
        load=with_moves.load,
        load_without=without.load,
    )


def _mean(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def print_comparison(comparison: Comparison, console: Console) -> None:
    """Print both completion times of each job, then what the moves did as a whole."""
    title = f"completion times, {comparison.policy} against {comparison.policy_without}"
    table = Table(title=title, title_justify="left", box=None, padding=(0, 2, 0, 0))
    table.add_column("job", overflow="fold")
    for heading in ("with moves (s)", "without (s)", "difference (s)", "(%)"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("verdict", overflow="fold")
    for job in comparison.jobs:
        each = job.completion
        table.add_row(
            Text(job_label(job.name)),
            in_seconds(each.with_moves, "-"),
            in_seconds(each.without, "-"),
            "-" if each.seconds is None else f"{each.seconds:+.1f}",
            "-" if each.percent is None else f"{each.percent:+.1f}",
            Text(job.verdict, style=_STYLES[job.verdict]),
        )
    console.print(table)
    for line in conclusions(comparison):
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def conclusions(comparison: Comparison) -> list[str]:
    """Return in words what the moves did: times without moves first, then with them."""
    counted = sum(job.completion.seconds is not None for job in comparison.jobs)
    counts = f"{comparison.helped} helped, {comparison.hurt} hurt, {comparison.unchanged} unchanged"
    left_out = f", {comparison.no_verdict} without a verdict" if comparison.no_verdict else ""
    left_out += f", {comparison.not_comparable} not comparable" if comparison.not_comparable else ""
    lines = [
        f"average completion {_change(comparison.average_completion, comparison)}, {in_jobs(counted)}",
        f"makespan {_change(comparison.makespan, comparison)}",
        f"jobs: {counts} (within {THRESHOLD_PERCENT:g} %){left_out}",
    ]
    if not comparison.moved:
        lines = ["nothing was moved, so what differs is no doing of moves: no verdict", *lines]
    return [*lines, *_load_lines(comparison)]


def _load_lines(comparison: Comparison) -> list[str]:
    """Return what else the machine did, and what follows from it."""
    with_moves, without = comparison.load, comparison.load_without
    if with_moves is None or without is None:
        return []
    first, second = with_moves.others_share, without.others_share
    if first is None or second is None:
        return ["load: what others took of the machine is not known, and may have differed"]
    told = f"load: others took {second:.0%} of {without.cpus} CPUs without moves, {first:.0%} with them"
    if not comparison.drifted:
        return [told]
    figures = (("average completion", comparison.average_completion), ("makespan", comparison.makespan))
    normalised = [
        f"{name} {each.percent_normalised:+.1f} %"
        for name, each in figures
        if each.percent_normalised is not None
    ]
    if not normalised:
        return [f"{told}: it drifted, and what differs may come from that"]
    return [f"{told}: it drifted; of the processor time that was left: {', '.join(normalised)}"]


def _change(difference: Difference, comparison: Comparison) -> str:
    without = in_seconds(difference.without, "unknown")
    with_moves = in_seconds(difference.with_moves, "unknown")
    if difference.percent is None:
        return f"{without} s -> {with_moves} s (not comparable)".replace("unknown s", "unknown")
    shown = round(difference.percent, 1)
    word = _word(shown)
    if comparison.drifted:
        normalised = difference.percent_normalised
        agree = normalised is not None and _word(round(normalised, 1)) == word
        word = word if agree else "no verdict"
    return f"{without} s -> {with_moves} s ({shown:+.1f} %{f', {word}' if comparison.moved else ''})"


def _word(percent: float) -> str:
    return "the same" if percent == 0 else "worse" if percent > 0 else "better"


class ResultFile(Struct, frozen=True, kw_only=True):
    """What a file of results holds."""

    schema: Literal[1] = 1
    runs: tuple[RunResult, ...]
    comparison: Comparison | None


def to_json(runs: Sequence[RunResult]) -> bytes:
    """Return the results as indented JSON that ends in a newline."""
    comparison = compare(*runs) if len(runs) == 2 else None  # noqa: PLR2004 - a comparison is of two
    content = msgspec.json.encode(ResultFile(runs=tuple(runs), comparison=comparison))
    return msgspec.json.format(content, indent=2) + b"\n"


def write_json(path: Path, runs: Sequence[RunResult]) -> None:
    """Write the results to a file, whole or not at all; raises OSError where it cannot be written."""
    content = to_json(runs)
    with tempfile.TemporaryDirectory(prefix=".specon-", dir=path.parent) as folder:
        complete = Path(folder, "result.json")
        with complete.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        complete.replace(path)
