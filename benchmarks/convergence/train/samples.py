"""The training samples of this repository, run as they are; their log lines are read as they come."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from train.recipe import TimedValue

_FOLDER: Final = Path(__file__).resolve().parents[3] / "samples" / "training"
_LINE: Final = re.compile(r"step=\d+/\d+ loss=(\S+)")


def sample(
    script: str, steps: int, *, rate: float | None = None, batch: int = 64, seed: int = 0
) -> Iterator[float]:
    """Run a sample; yields the loss of each of its lines."""
    command = [sys.executable, str(_FOLDER / script), f"--steps={steps}", f"--seed={seed}"]
    command += [f"--batch-size={batch}"] + ([] if rate is None else [f"--learning-rate={rate}"])
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        if process.stdout is None:
            raise RuntimeError(f"{script}: has no standard output")
        for line in process.stdout:
            found = _LINE.search(line)
            if found:
                value = TimedValue(found[1])
                value.seconds = _processor_seconds(process.pid)
                yield value
    if process.returncode:
        raise RuntimeError(f"{script}: ended with status {process.returncode}")


def _processor_seconds(process: int) -> float:
    """Return the processor time of a process with one busy thread (Linux)."""
    return int(Path(f"/proc/{process}/schedstat").read_text(encoding="ascii").split()[0]) / 1e9
