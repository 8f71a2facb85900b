"""Two runs of the same jobs side by side, under two policies. A worse result reads as worse.

Results are also written as JSON, for other programs. A file holds one object:

- `schema`: 2
- `runs`: an array of results of runs (`RunResult`): `policy`; `jobs` with `name`, `submitted_at`,
  `finished_at`, `completion_seconds`, `gain_seconds` (to 98 % of its gain), `succeeded`, `moves`,
  `downtimes`, `steps_lost`, `crashes`, `category`, `steps`; `average_completion_seconds`; `makespan_seconds`;
  `moves_by_outcome`; `reweighted`, how often a weight was changed; `moves`, and `changes` of
  jobs by admissions, scalings and preemptions, both with `id`, `kind`, `job`, `replica`, `source`, `target`,
  `state`, `policy`, `purpose`, `reason`, `note`, `beneficiary`, `workers_before`, `workers_after`, `restart`,
  `started_at`, `ended_at`, `checkpoint_step`, `last_step_before`, `first_step_after`, `downtime`,
  `steps_lost`; `placements` with `job`, `replica`, `node`, `start`, `end`; `machine` with `nodes`, `cpus`,
  `names`; `workers`, by job an array of `at` and `workers`; `load` of the machine with `cpus`,
  `seconds`, and the processor seconds of the run, `own`, and of everything else, `others`, and `left`, pairs
  of seconds and of what others left of each CPU until then
- `comparison`: of the first run with the second where there are two (`Comparison`), else null: `policy`,
  `policy_without`, `acted`, `drifted`, `normalised`, `load`, `load_without`; `jobs` with `name`,
  `completion`, `verdict`; `helped`, `hurt`, `unchanged`, `no_verdict`, `not_comparable`; `gain`,
  `average_completion` and `makespan`, which are like each `completion` an object of `first`, `second`,
  `seconds` and `percent`

All times are in seconds, those of a run since its begin. An unknown value is null. Times of a comparison
that is `normalised` are of a machine that nobody else uses: what others took meanwhile is taken out.
"""

import os
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Literal

import msgspec
from msgspec import Struct
from rich.console import Console
from rich.table import Table
from rich.text import Text

from specon_manager.cli.run.machine_load import Load
from specon_manager.cli.run.result import JobResult, RunResult, format_seconds
from specon_manager.cli.run.verdict import (
    THRESHOLD_PERCENT,
    Difference,
    Judge,
    Span,
    Verdict,
    completion_of,
    gain_of,
)
from specon_manager.views.names import job_label
from specon_sidecar.counts import format_count

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
    acted: bool
    """Whether anything was moved, scaled, preempted or reweighted: without that there is no verdict."""
    drifted: bool
    """Whether others took another part of the machine in one run than in the other."""
    normalised: bool
    """Whether times are of a machine that others left alone; else they are by the clock."""
    jobs: tuple[JobComparison, ...]
    helped: int
    hurt: int
    unchanged: int
    """Within 2 % of the time in the second run."""
    no_verdict: int
    not_comparable: int
    gain: Difference
    """Time to 98 % of the gain, over the jobs where both runs know it."""
    average_completion: Difference
    """Over the jobs that succeeded in both runs, so that a job which failed makes no run look faster."""
    makespan: Difference
    load: Load | None = None
    load_without: Load | None = None


def compare(one: RunResult, other: RunResult) -> Comparison:
    """Compare two runs; jobs are the same where their names are."""
    judge = Judge(one, other)
    first = {job.name: job for job in one.jobs}
    second = {job.name: job for job in other.jobs}
    jobs = tuple(
        JobComparison(name=name, completion=completion, verdict=verdict)
        for name in dict.fromkeys([*first, *second])
        for completion, verdict in [judge.job(first.get(name), second.get(name))]
    )
    verdicts = [job.verdict for job in jobs]

    def mean(spans: Callable[[JobResult | None], list[Span]]) -> Difference:
        both = [name for name in first if spans(first[name]) and spans(second.get(name))]
        return judge.difference(
            *([span for name in both for span in spans(jobs_[name])] for jobs_ in (first, second))
        )

    return Comparison(
        policy=one.policy,
        policy_without=other.policy,
        acted=judge.acted,
        drifted=judge.drifted,
        normalised=judge.normalised,
        jobs=jobs,
        helped=verdicts.count(Verdict.HELPED),
        hurt=verdicts.count(Verdict.HURT),
        unchanged=verdicts.count(Verdict.UNCHANGED),
        no_verdict=verdicts.count(Verdict.NO_VERDICT),
        not_comparable=verdicts.count(Verdict.NOT_COMPARABLE),
        gain=mean(gain_of),
        average_completion=mean(completion_of),
        makespan=judge.difference(_makespan(one), _makespan(other)),
        load=one.load,
        load_without=other.load,
    )


def _makespan(run: RunResult) -> list[Span]:
    if run.makespan_seconds is None:
        return []
    begin = min((job.submitted_at for job in run.jobs), default=0.0)
    return [(begin, begin + run.makespan_seconds)]


def print_comparison(runs: Sequence[RunResult], console: Console) -> None:
    """Print both completion times of each job, then what each policy came to, and what that is worth."""
    one, other = runs
    comparison = compare(one, other)
    table = _table(f"completion times, {one.policy} against {other.policy}", "job", comparison)
    table.add_column("verdict", overflow="fold")
    for job in comparison.jobs:
        cells = _cells(job.completion)
        table.add_row(Text(job_label(job.name)), *cells, Text(job.verdict, style=_STYLES[job.verdict]))
    console.print(table)
    table = _table("as a whole", "", comparison)
    for name, difference in (
        ("time to 98 % of the gain", comparison.gain),
        ("completion", comparison.average_completion),
        ("makespan", comparison.makespan),
    ):
        table.add_row(name, *_cells(difference))
    for name, counts in (
        ("moves", [run.moved for run in runs]),
        ("preemptions", [run.preemptions for run in runs]),
        ("steps lost", [run.steps_lost for run in runs]),
    ):
        table.add_row(name, *map(str, counts), "", "")
    console.print(table)
    for line in conclusions(comparison, runs):
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def _table(title: str, of: str, comparison: Comparison) -> Table:
    table = Table(title=title, title_justify="left", box=None, padding=(0, 2, 0, 0))
    table.add_column(of, overflow="fold")
    for heading in (comparison.policy, comparison.policy_without, "difference", "(%)"):
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def _cells(each: Difference) -> tuple[str, str, str, str]:
    return (
        format_seconds(each.first, "-"),
        format_seconds(each.second, "-"),
        "-" if each.seconds is None else f"{each.seconds:+.1f}",
        "-" if each.percent is None else f"{each.percent:+.1f}",
    )


def conclusions(comparison: Comparison, runs: Sequence[RunResult]) -> list[str]:
    """Return in words whom the first policy served better, and what stands against saying so."""
    counts = f"{comparison.helped} helped, {comparison.hurt} hurt, {comparison.unchanged} unchanged"
    left_out = f", {comparison.no_verdict} without a verdict" if comparison.no_verdict else ""
    left_out += f", {comparison.not_comparable} not comparable" if comparison.not_comparable else ""
    lines = [f"jobs: {counts} (within {THRESHOLD_PERCENT:g} %){left_out}"]
    if not any(run.moved for run in runs):
        lines.append("no moves were made")
    if not comparison.acted:
        lines.append(
            "and nothing else was done to a job that trained: only the first nodes may differ, no verdict"
        )
    return [*lines, *_load_lines(comparison)]


def _load_lines(comparison: Comparison) -> list[str]:
    """Return what else the machine did, and what follows from it.

    Processor seconds are not all alike: where others use the caches, the same training takes more of them.
    """
    first, second = comparison.load, comparison.load_without
    if first is None or second is None:
        return []
    shares = first.others_share, second.others_share
    if shares[0] is None or shares[1] is None:
        return ["load: the use of the machine by others is not known, and may have differed"]
    told = (
        f"load: others took {shares[0]:.0%} of {format_count(first.cpus, 'CPU')} under {comparison.policy},"
        f" {shares[1]:.0%} under {comparison.policy_without};"
        f" the runs themselves took {first.own:.0f} and {second.own:.0f} processor seconds"
    )
    if comparison.normalised:
        meaning = "times are of a machine that others left alone"
        drift = "; the load drifted: that takes out most of it, not all"
    else:
        meaning, drift = "times are wall-clock time", "; the load drifted: no verdict"
    lines = [told, meaning + drift * comparison.drifted]
    if comparison.drifted and comparison.normalised and first.own > 0 and second.own > 0:
        slower = first.own / second.own
        figures = (
            ("time to 98 % of the gain", comparison.gain),
            ("completion", comparison.average_completion),
        )
        alike = [
            f"{name} {100 * (each.first / slower / each.second - 1):+.1f} %"
            for name, each in figures
            if each.first is not None and each.second
        ]
        lines += [f"had both runs taken as many processor seconds: {', '.join(alike)}"] if alike else []
    return lines


class ResultFile(Struct, frozen=True, kw_only=True):
    """What a file of results holds."""

    schema: Literal[2] = 2
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
