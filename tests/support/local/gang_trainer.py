"""A replica of a gang, for tests: the first worker trains like `trainer.py`, the others keep it company.

Each writes down what it was told of its gang. A worker that lives beside one of another number of workers,
where all of them are to end before the number changes, is written down as a violation.
"""

import argparse
import contextlib
import fcntl
import json
import os
import signal
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))  # run with -I -S, which knows of no folder

from support.local import trainer

STARTS = "starts.jsonl"
DONE = "done"
_LOOK_SECONDS = 0.02


class Companion:
    """A replica that does nothing but live until the first worker is done, or it is told to end."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self._arguments = arguments
        self._stopped = False

    def run(self) -> int:
        signal.signal(signal.SIGTERM, self._stop)
        lock = os.open(self._arguments.directory / "trainer.lock", os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            violate(self._arguments, "TWO LIVE")
        done = self._arguments.job_directory / DONE
        while not self._stopped and (self._arguments.role == "ps" or not done.exists()):
            time.sleep(_LOOK_SECONDS)
        return 128 + signal.SIGTERM if self._stopped else 0

    def _stop(self, _number: int, _frame: object) -> None:
        self._stopped = True


def violate(arguments: argparse.Namespace, what: str) -> None:
    with (arguments.directory / trainer.VIOLATIONS).open("a") as file:
        file.write(f"{what}: {os.getpid()}, one of {arguments.workers}\n")


def join_world(arguments: argparse.Namespace) -> int:
    """Hold the lock of this number of workers, and tell when somebody holds that of another."""
    own = arguments.job_directory / f"world-{arguments.workers}"
    held = os.open(own, os.O_RDWR | os.O_CREAT)
    fcntl.flock(held, fcntl.LOCK_SH)
    with (arguments.job_directory / "looking").open("w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)  # a look is a lock too: two at once would each be taken for a life
        for other in set(arguments.job_directory.glob("world-*")) - {own}:
            with other.open("r+") as file:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    violate(arguments, f"BESIDE {other.name}")
    return held


def write_start(arguments: argparse.Namespace) -> None:
    told = {name: getattr(arguments, name) for name in ("role", "index", "rank", "workers", "start")}
    told["gang"] = os.environ["SPECON_GANG"]
    told["environment"] = {
        name: os.environ.get(name) for name in ("SPECON_ROLE", "SPECON_RANK", "RANK", "WORLD_SIZE")
    }
    line = json.dumps(told).encode() + b"\n"
    file = os.open(arguments.job_directory / STARTS, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, line)
    os.close(file)


def is_spread(arguments: argparse.Namespace) -> bool:
    """Whether the workers of this start have different processors, as on two virtual nodes; waits for all."""
    mine = ",".join(map(str, sorted(os.sched_getaffinity(0))))
    where = arguments.job_directory / "where"
    where.mkdir(exist_ok=True)
    temporary = where / f".{arguments.index}"
    temporary.write_text(f"{arguments.start} {mine}")
    temporary.replace(where / str(arguments.index))
    while True:
        told = [path.read_text() for path in where.glob("[0-9]*")]
        known = [place.partition(" ")[2] for place in told if place.startswith(f"{arguments.start} ")]
        if len(known) == arguments.workers:
            return len(set(known)) > 1
        time.sleep(_LOOK_SECONDS)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--job-directory", type=Path, required=True)
    parser.add_argument("--role", required=True)
    for number in ("index", "rank", "workers", "start"):
        parser.add_argument(f"--{number}", type=int, required=True)
    parser.add_argument("--restart", action="store_true", help="all end before the number changes")
    parser.add_argument("--crash-index", type=int, help="a worker that ends at once, each time")
    parser.add_argument(
        "--exchange-seconds", type=float, default=0.0, help="for each step where they are apart"
    )
    known, rest = parser.parse_known_args()
    arguments = trainer.parsed(rest)
    for name, value in vars(known).items():
        setattr(arguments, name, value)
    write_start(arguments)
    if arguments.exchange_seconds and is_spread(arguments):
        arguments.step_seconds += arguments.exchange_seconds
    held = join_world(arguments) if arguments.restart else None
    with contextlib.suppress(KeyboardInterrupt):
        if arguments.role == "worker" and arguments.index == arguments.crash_index:
            return 3
        if arguments.role == "worker" and arguments.index == 0:
            code = trainer.Trainer(arguments).run()
            if code == 0:
                (arguments.job_directory / DONE).touch()
        else:
            code = Companion(arguments).run()
    if held is not None:
        os.close(held)
    return code


if __name__ == "__main__":
    sys.exit(main())
