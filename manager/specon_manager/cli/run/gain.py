"""When a job had 98 % of what it gained: the step from its log, when it got there from its sidecar's reports.

The step is a property of the training, whatever else the machine did; the time is what a policy can change.
"""

import math
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Final

import msgspec

from specon_manager.backends.local.jobs import LocalJob, fill_in
from specon_manager.backends.local.pod_files import job_directory, replica_directory
from specon_manager.cli.run.result import RunResult
from specon_manager.core.state import State
from specon_sidecar.following.lines import LineSplitter
from specon_sidecar.formats.parser import FormatOptions
from specon_sidecar.formats.table import make_reader

SHARE: Final = 0.98
_PARTS: Final = 50  # whose means are the curve: single samples are noise
_CHUNK: Final = 1 << 18


class StepLog:
    """Feed it every state: it notes when the first worker of each job was at which step."""

    def __init__(self) -> None:
        self._seen: dict[str, list[tuple[float, int]]] = {}

    def observe(self, state: State) -> None:
        """Take note of the latest reports, on the clock of the manager."""
        for job in state.jobs.values():
            for name in job.spec.worker_names[:1]:
                progress = state.replicas[name].progress
                seen = self._seen.setdefault(job.name, [])
                if progress.step is None or progress.step_at is None:
                    continue
                if not seen or progress.step > seen[-1][1]:
                    seen.append((progress.step_at, progress.step))

    def reached(self, job: str, step: float) -> float | None:
        """Return when the job was at a step first; between two reports by its pace between them."""
        seen = self._seen.get(job, [])
        index = bisect_left(seen, step, key=lambda each: each[1])
        if index == len(seen):
            return None
        after, there = seen[index]
        if index == 0:
            return after
        before, here = seen[index - 1]
        return before + (after - before) * (step - here) / (there - here)


def add_gains(result: RunResult, state: State, steps: StepLog, directory: Path, began: float) -> RunResult:
    """Return the result with the time that each job took to 98 % of its gain, where its log tells."""
    times: dict[str, float] = {}
    for job in result.jobs:
        template = msgspec.convert(state.jobs[job.name].spec.template, LocalJob)
        step = _step_of(template, job.name, directory)
        at = None if step is None else steps.reached(job.name, step)
        if at is not None:
            times[job.name] = max(0.0, at - began - job.submitted_at)
    jobs = tuple(msgspec.structs.replace(job, gain_seconds=times.get(job.name)) for job in result.jobs)
    return msgspec.structs.replace(result, jobs=jobs)


def step_of_gain(values: Mapping[int, float], *, more_is_better: bool) -> float | None:
    """Return the first step with 98 % of the gain, by means of fiftieths of a run; None without a gain."""
    steps = sorted(values)
    length = max(1, -(-len(steps) // _PARTS))
    parts = [steps[start : start + length] for start in range(0, len(steps), length)]
    sign = -1.0 if more_is_better else 1.0
    curve = [sign * fmean(values[step] for step in part) for part in parts]
    if not curve or curve[0] <= min(curve):
        return None
    target = curve[0] - SHARE * (curve[0] - min(curve))
    return float(next(part[-1] for part, value in zip(parts, curve, strict=True) if value <= target))


def _step_of(job: LocalJob, name: str, directory: Path) -> float | None:
    replica = f"{name}/worker/0"
    values = {
        "directory": str(replica_directory(directory / "replicas", replica)),
        "job_directory": str(job_directory(directory / "jobs", replica)),
    }
    reader = make_reader(job.format, FormatOptions(metric=job.metric, pattern=job.pattern, goal=job.goal))
    samples = []
    try:
        for lines in _lines(Path(fill_in(job.log, values))):
            samples += reader.read(lines)
    except OSError:
        return None
    samples += reader.finish()
    metric = samples[-1].name if samples else ""
    # A step that was trained again counts as it was the last time.
    curve = {
        sample.step: sample.value
        for sample in samples
        if sample.step is not None and sample.name == metric and math.isfinite(sample.value)
    }
    return step_of_gain(curve, more_is_better=(job.goal or reader.goal) == "max")


def _lines(path: Path) -> Iterator[Sequence[bytes]]:
    splitter = LineSplitter()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            yield splitter.feed(chunk)
    rest = splitter.flush()
    yield [] if rest is None else [rest]
