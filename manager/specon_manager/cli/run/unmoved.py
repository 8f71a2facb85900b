"""The jobs of the scenario `frameworks` once more, alone and never moved: the result should be the same."""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from specon_manager.backends.local.jobs import JobFile, LocalJob
from specon_manager.backends.local.pod_files import replica_directory

_RESULT: Final = re.compile(rb"^weights ([0-9a-f]{1,64})\r?$", re.MULTILINE)
_SECONDS: Final = 600.0
_MOST: Final = 1 << 20  # bytes at the end of a log


def compare_with_unmoved(file: JobFile, directory: Path, samples: Path) -> Iterator[tuple[str, bool]]:
    """Yield a line for each job, and whether its result is that of the same script that was left alone."""
    for job in file.jobs:
        log = replica_directory(directory / "replicas", f"default/{job.name}/worker/0") / "train.log"
        try:
            moved = _result(log.read_bytes()[-_MOST:])
            alone = _result(_alone(job, samples))
        except (OSError, subprocess.SubprocessError) as error:
            yield f"{job.name}: {error}", False
            continue
        same = moved is not None and moved == alone
        yield f"{job.name}: weights {moved} moved, {alone} left alone", same


def _result(told: bytes) -> str | None:
    """Return the hash of the parameters that a script printed last."""
    found = _RESULT.findall(told)
    return found[-1].decode() if found else None


def _alone(job: LocalJob, samples: Path) -> bytes:
    with tempfile.TemporaryDirectory(prefix="specon-alone-") as folder:
        filled = {"python": sys.executable, "samples": str(samples), "directory": folder}
        return subprocess.run(  # noqa: S603 - a command of a job file, as the local backend runs it
            [word.format_map(filled) for word in job.arguments],
            cwd=folder,
            env=os.environ | {name: value.format_map(filled) for name, value in job.environment.items()},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_SECONDS,
            check=True,
        ).stdout
