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
  `names`; `workers`, by job an array of `at` and `workers`
- `comparison`: of the first run with the second where there are two (`Comparison`), else null: `policy`,
  `policy_without`; `jobs` with `name`, `completion`, `verdict`; `helped`, `hurt`, `unchanged`,
  `not_comparable`; `average_completion` and `makespan`, which are like each `completion` an object of
  `with_moves`, `without`, `seconds`, `percent`

All times are in seconds, those of a run since its begin. What is not known is null.
"""

import os
import tempfile
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Final, Literal

import msgspec
from msgspec import Struct
from rich.console import Console
from rich.table import Table
from rich.text import Text

from specon_manager.cli.run.result import JobResult, RunResult, in_jobs, in_seconds
from specon_manager.views.names import job_label

THRESHOLD_PERCENT: Final = 2.0
"""A job whose completion time differs by no more than this is called unchanged."""


class Verdict(StrEnum):
    """What the moves did to a job; one that failed in only one of the runs was hurt or helped as well."""

    HELPED = "helped"
    HURT = "hurt"
    UNCHANGED = "unchanged"
    NOT_COMPARABLE = "not comparable"  # not in both runs, not over in both, or a failure in both


_STYLES: Final = {
    Verdict.HELPED: "green",
    Verdict.HURT: "red",
    Verdict.UNCHANGED: "",
    Verdict.NOT_COMPARABLE: "yellow",
}


class Difference(Struct, frozen=True, kw_only=True):
    """One time in both runs, in seconds; negative differences mean that it was shorter with moves."""

    with_moves: float | None
    without: float | None
    seconds: float | None
    """None where one of the two is not known."""
    percent: float | None
    """Of the time without moves; None where that is not known or 0."""


class JobComparison(Struct, frozen=True, kw_only=True):
    """The completion time of one job in both runs."""

    name: str
    completion: Difference
    verdict: Verdict


class Comparison(Struct, frozen=True, kw_only=True):
    """Both runs, job by job and as a whole."""

    policy: str
    policy_without: str
    jobs: tuple[JobComparison, ...]
    helped: int
    hurt: int
    unchanged: int
    """Within 2 % of the time without moves."""
    not_comparable: int
    average_completion: Difference
    """Over the jobs that succeeded in both runs, so that a job which failed makes no run look faster."""
    makespan: Difference


def compare(with_moves: RunResult, without: RunResult) -> Comparison:
    """Compare two runs; jobs are the same where their names are."""
    first = {job.name: job for job in with_moves.jobs}
    second = {job.name: job for job in without.jobs}
    jobs = tuple(_job(name, first.get(name), second.get(name)) for name in dict.fromkeys([*first, *second]))
    both = [job.completion for job in jobs if job.completion.seconds is not None]
    verdicts = [job.verdict for job in jobs]
    return Comparison(
        policy=with_moves.policy,
        policy_without=without.policy,
        jobs=jobs,
        helped=verdicts.count(Verdict.HELPED),
        hurt=verdicts.count(Verdict.HURT),
        unchanged=verdicts.count(Verdict.UNCHANGED),
        not_comparable=verdicts.count(Verdict.NOT_COMPARABLE),
        average_completion=_difference(
            _mean([each.with_moves for each in both]), _mean([each.without for each in both])
        ),
        makespan=_difference(with_moves.makespan_seconds, without.makespan_seconds),
    )


def _job(name: str, first: JobResult | None, second: JobResult | None) -> JobComparison:
    completion = _difference(
        None if first is None else first.completion_seconds,
        None if second is None else second.completion_seconds,
    )
    percent = completion.percent
    if first is not None and second is not None and first.succeeded is not second.succeeded:
        # An end in failure is worse than any completion time; a job that still runs shows nothing.
        over = first.finished_at is not None and second.finished_at is not None
        ending = Verdict.HELPED if first.succeeded else Verdict.HURT
        verdict = ending if over else Verdict.NOT_COMPARABLE
    elif percent is None:
        verdict = Verdict.NOT_COMPARABLE
    elif abs(percent) <= THRESHOLD_PERCENT:
        verdict = Verdict.UNCHANGED
    else:
        verdict = Verdict.HURT if percent > 0 else Verdict.HELPED
    return JobComparison(name=name, completion=completion, verdict=verdict)


def _difference(with_moves: float | None, without: float | None) -> Difference:
    known = with_moves is not None and without is not None
    seconds = with_moves - without if with_moves is not None and without is not None else None
    percent = 100 * seconds / without if known and seconds is not None and without else None
    return Difference(with_moves=with_moves, without=without, seconds=seconds, percent=percent)


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
    left_out = f", {comparison.not_comparable} not comparable" if comparison.not_comparable else ""
    return [
        f"average completion {_change(comparison.average_completion)}, {in_jobs(counted)}",
        f"makespan {_change(comparison.makespan)}",
        f"jobs: {counts} (within {THRESHOLD_PERCENT:g} %){left_out}",
    ]


def _change(difference: Difference) -> str:
    without = in_seconds(difference.without, "unknown")
    with_moves = in_seconds(difference.with_moves, "unknown")
    if difference.percent is None:
        return f"{without} s -> {with_moves} s (not comparable)".replace("unknown s", "unknown")
    shown = round(difference.percent, 1)
    word = "the same" if shown == 0 else "worse" if shown > 0 else "better"
    return f"{without} s -> {with_moves} s ({shown:+.1f} %, {word})"


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
