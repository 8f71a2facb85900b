"""Recorded training curves, one small file per family."""

import gzip
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

FOLDER: Final = Path(__file__).parent / "curves"
TUNING: Final = frozenset(
    {
        "perceptron",
        "step-rates",
        "regression",
        "boosting",
        "sklearn-perceptron",
        "samples-1",
        "broken-1",
        "accuracy",
    }
)
"""The families that the settings were chosen on; the results are those of all others."""


@dataclass(frozen=True, kw_only=True)
class Run:
    """One recorded run: report i is step i + 1, made after `seconds[i]` of processor time."""

    family: str
    name: str
    goal: Literal["min", "max"]
    total: int
    """Reports that were planned, as a log prints it; a run that broke off made fewer."""
    values: tuple[float, ...]
    seconds: tuple[float, ...]


def load(part: Literal["tuning", "report"]) -> list[Run]:
    """Return the runs of one part, in the order of their names. Raises OSError and ValueError."""
    files = sorted(FOLDER.glob("*.json.gz"))
    return [run for file in files if (_family(file) in TUNING) == (part == "tuning") for run in _read(file)]


def save(family: str, runs: Iterable[Run]) -> None:
    """Write the file of a family: five digits of each value, tenths of milliseconds between reports."""
    content = [
        {
            "name": run.name,
            "goal": run.goal,
            "total": run.total,
            "values": [float(f"{value:.5g}") for value in run.values],
            "waits": [
                round(10_000 * (at - before))
                for before, at in zip((0.0, *run.seconds), run.seconds, strict=False)
            ],
        }
        for run in runs
    ]
    # No time of writing in the file: the same curves are the same bytes.
    (FOLDER / f"{family}.json.gz").write_bytes(
        gzip.compress(json.dumps(content, separators=(",", ":")).encode(), mtime=0)
    )


def _family(file: Path) -> str:
    return file.name.removesuffix(".json.gz")


def _read(file: Path) -> list[Run]:
    runs = []
    for run in json.loads(gzip.decompress(file.read_bytes())):
        now, seconds = 0, []
        for wait in run["waits"]:
            now += wait
            seconds.append(now / 10_000)
        runs.append(
            Run(
                family=_family(file),
                name=run["name"],
                goal=run["goal"],
                total=run["total"],
                values=tuple(run["values"]),
                seconds=tuple(seconds),
            )
        )
    return runs
