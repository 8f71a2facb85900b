"""Trains all runs and writes their curves: `python benchmarks/convergence/train [FAMILY...]`, ten minutes."""

import os
import sys
import time
from itertools import groupby
from pathlib import Path

for _library in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_library, "1")
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch  # noqa: E402 - it reads the number of threads when it is imported
from curves import Run, save  # noqa: E402 - found by the path above

from train.recipe import Recipe, TimedValue  # noqa: E402 - as above
from train.recipes import recipes  # noqa: E402 - as above


def record(recipe: Recipe) -> Run:
    """Train one run and note when each value came, in processor time: as on a node of its own."""
    begin = time.process_time()
    values, seconds = [], []
    for value in recipe.train():
        values.append(value)
        seconds.append(value.seconds if isinstance(value, TimedValue) else time.process_time() - begin)
    return Run(
        family=recipe.family,
        name=recipe.name,
        goal=recipe.goal,
        total=recipe.reports,
        values=tuple(values),
        seconds=tuple(seconds),
    )


def main(wanted: set[str]) -> None:
    """Train the families that are wanted, or all."""
    torch.set_num_threads(1)
    by_family = groupby(sorted(recipes(), key=lambda recipe: recipe.family), key=lambda recipe: recipe.family)
    for family, members in by_family:
        if wanted and family not in wanted:
            continue
        runs = []
        for recipe in members:
            runs.append(record(recipe))
            run = runs[-1]
            print(f"{family:20} {run.name:48} {len(run.values):5} {run.seconds[-1]:6.1f} s", flush=True)
        save(family, runs)


if __name__ == "__main__":
    main(set(sys.argv[1:]))
