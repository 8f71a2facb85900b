"""The training samples of several workers as processes, and what they wrote."""

import os
import re
import subprocess
import sys
import time
from pathlib import Path

TRAINING = Path(__file__).parents[3] / "samples" / "training"
DEADLINE = 60.0
STEP = re.compile(r"step=(\d+)/\d+ loss=(\S+) lr=")
CHAIN = re.compile(r"step=(\d+).* chain=(sha256:.*)")
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


class Processes:
    """What a test started; whatever is left of it at the end is killed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._all: list[subprocess.Popen] = []

    def start(self, script: str, log: str, *arguments: object, **environment: str) -> subprocess.Popen:
        common = ["--log", self.folder / log, "--checkpoint-dir", self.folder / "checkpoints"]
        words = [sys.executable, TRAINING / script, *common, *arguments]
        with (self.folder / f"{log}.err").open("a") as errors:
            process = subprocess.Popen(
                list(map(str, words)), stderr=errors, env={**os.environ, **ONE_THREAD, **environment}
            )
        self._all.append(process)
        return process

    def team(
        self, size: int, *arguments: object, script: str = "elastic_ddp.py"
    ) -> list[subprocess.Popen[bytes]]:
        """Start so many workers that train as one; a small model unless told otherwise."""
        meeting = ("--rendezvous", self.folder / "rendezvous.json", "--hidden", 16, "--batch-size", 60)
        return [
            self.start(
                script,
                f"log-{rank}",
                *(*meeting, "--request-file", self.request(rank), *arguments),
                RANK=str(rank),
                WORLD_SIZE=str(size),
            )
            for rank in range(size)
        ]

    def request(self, rank: int = 0) -> Path:
        """Return the file by which this worker is asked for a checkpoint."""
        return self.folder / f"save-{rank}"

    def chains(self, log: str) -> dict[int, str]:
        """Return the chain after each step that a worker tells it for."""
        found = (CHAIN.search(line) for line in self.lines(log))
        return {int(each[1]): each[2] for each in found if each}

    def role(self, role: str, index: int = 0, *arguments: object) -> subprocess.Popen:
        """Start a part of the parameter-server sample."""
        meeting = ("--address", self.folder / "server.json", "--hidden", 8, "--batch-size", 16)
        part = ("--role", role, "--index", index, *meeting, *arguments)
        return self.start("parameter_server.py", f"{role}-{index}", *part)

    def lines(self, log: str) -> list[str]:
        path = self.folder / log
        return path.read_text().splitlines() if path.exists() else []

    def losses(self, log: str) -> dict[int, float]:
        return {int(found[1]): float(found[2]) for line in self.lines(log) if (found := STEP.match(line))}

    def wait_for(self, log: str, text: str, count: int = 1) -> None:
        ends = time.monotonic() + DEADLINE
        while sum(text in line for line in self.lines(log)) < count:
            assert time.monotonic() < ends, f"no {text!r} in {self.lines(log)[-5:]}"
            time.sleep(0.01)

    def checkpoints(self) -> list[str]:
        return sorted(path.name for path in (self.folder / "checkpoints").iterdir())

    def close(self) -> None:
        for process in self._all:
            process.kill()
            process.wait()


def codes(started):
    return [process.wait(DEADLINE) for process in started]
