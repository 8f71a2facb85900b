"""A perceptron trained by any number of workers: PyTorch's DistributedDataParallel on CPUs, through gloo.

The number of workers is fixed at the start; it is changed by ending all of them and starting another number,
which go on from the newest checkpoint. The batch stays the same, so fewer workers take longer for a step.
"""

from signals import REQUESTS  # first of all: it installs the signal handlers

# isort: split
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import NoReturn

import arguments
import digits
import torch
from arguments import Arguments, Defaults
from checkpoints import CheckpointDirectory, read
from log import Log
from parallel_training import ParallelTraining
from rendezvous import RendezvousError, Team, join
from torch import Generator, Tensor, nn
from torch.nn import functional
from training import MismatchError, Trainable

DEFAULTS = Defaults(steps=2000, batch_size=1024, hidden=256, learning_rate=1e-3)
PART_SECONDS = 5.0
LOST_SECONDS = 2.0
"""After a worker is lost, so long it may be that all of them were told to end, and this one not yet."""
STUCK_SECONDS = 1.5
"""From being told to end, so long a step may take that waits for workers which are gone."""


class Perceptron(Trainable):
    """Two hidden layers; softmax cross entropy."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Flatten(),
            nn.Linear(digits.PIXELS, hidden),
            nn.ReLU(),
            nn.Linear(hidden, hidden),
            nn.ReLU(),
            nn.Linear(hidden, digits.CLASSES),
        )

    def loss(self, images: Tensor, labels: Tensor, generator: Generator) -> Tensor:
        """Softmax cross entropy, in nats."""
        del generator  # nothing random in it
        return functional.cross_entropy(self.layers(images), labels)


class Worker:
    """One of the workers: the first logs and saves, the others compute."""

    def __init__(self, run: Arguments, log: Log, team: Team, image_seconds: float) -> None:
        self._image_seconds = image_seconds
        self._run, self._log, self._team = run, log, team
        self._training = ParallelTraining(run, Perceptron, rank=team.rank, size=team.size)
        lead = team.leads and run.checkpoint_dir is not None
        self._checkpoints = CheckpointDirectory(run.checkpoint_dir, run.keep) if lead else None  # type: ignore[arg-type]
        self._saved_step: int | None = None

    def work(self) -> int:
        """Train to the last step, until told to end, or until another worker is lost; return the status."""
        self._resume()
        training = self._training
        while training.step < self._run.steps and REQUESTS.exit_code is None:
            # As if the model were larger: so long this worker's part of the batch takes at least.
            ends = time.monotonic() + self._run.batch_size / self._team.size * self._image_seconds
            try:
                loss = training.advance()
            except RuntimeError as error:
                return self._lost(error)
            if self._team.leads:
                self._after_step(loss)
            time.sleep(max(0.0, ends - time.monotonic()))
        self._save()
        if training.step >= self._run.steps:
            self._log.write(f"finished step={training.step}")
            self._team.part(PART_SECONDS)
            return 0
        return self._stopped()

    def _resume(self) -> None:
        name = self._team.said_by_the_first(self._newest)
        team = f"rank={self._team.rank} workers={self._team.size}"
        if not name:
            self._log.write(f"started model=perceptron pid={os.getpid()} steps={self._run.steps} {team}")
            return
        assert self._run.checkpoint_dir is not None
        self._training.restore(read(self._run.checkpoint_dir / name), name)
        self._saved_step = self._training.step
        self._log.write(f"resumed from step={self._training.step} checkpoint={name} {team}")

    def _newest(self) -> str:
        if self._checkpoints is None:
            return ""
        found = self._checkpoints.newest(
            lambda path: self._log.write(f"checkpoint unreadable name={path.name}")
        )
        return "" if found is None else found[0].name

    def _after_step(self, loss: float) -> None:
        step, steps, every = self._training.step, self._run.steps, self._run.checkpoint_every
        if step % self._run.log_every == 0 or step in {1, steps}:
            self._log.write(f"step={step}/{steps} loss={loss:.6g} lr={self._run.learning_rate:g}")
        if REQUESTS.take_checkpoint() or (every > 0 and step % every == 0):
            self._save()

    def _save(self) -> None:
        step = self._training.step
        if self._checkpoints is None or self._saved_step == step:
            return
        try:
            path = self._checkpoints.save(self._training.state())
        except OSError as error:
            self._log.write(f"checkpoint failed step={step} error={error.strerror or error}")
        else:
            self._saved_step = step
            self._log.write(f"checkpoint saved step={step} name={path.name}")

    def _lost(self, error: RuntimeError) -> int:
        ends = time.monotonic() + LOST_SECONDS
        while REQUESTS.exit_code is None and time.monotonic() < ends:
            time.sleep(0.02)
        # The parameters are those after the last whole step: the optimizer had no part in the broken one.
        self._save()
        if REQUESTS.exit_code is not None:
            return self._stopped()
        self._log.write(f"lost a worker step={self._training.step} error={str(error).splitlines()[0][:160]}")
        return 1

    def _stopped(self) -> int:
        self._log.write(f"stopped at step={self._training.step}")
        assert REQUESTS.exit_code is not None
        return REQUESTS.exit_code


def _end_when_stuck(signals: int) -> None:
    """End the process soon after it was told to, whatever it does: a step may wait in C++ for lost workers.

    Python's own handlers run when that step is over; the numbers of signals come through a pipe at once.
    """
    while (number := os.read(signals, 1)[0]) not in {signal.SIGTERM, signal.SIGINT}:
        pass
    time.sleep(STUCK_SECONDS)
    # A checkpoint that is being written does not show under its name yet.
    os._exit(128 + number)


def _train(run: Arguments, rendezvous: Path | None, image_seconds: float) -> int:
    torch.set_num_threads(1)
    torch.set_num_interop_threads(1)
    try:
        log = Log(run.log)
        team = join(rendezvous, lambda: REQUESTS.exit_code is None)
        return REQUESTS.exit_code or 0 if team is None else Worker(run, log, team, image_seconds).work()
    except (OSError, ValueError, MismatchError, RendezvousError) as error:
        print(f"error: {error}", file=sys.stderr)  # noqa: T201 - as argparse does
        return 2


def main() -> NoReturn:
    """Train as the command line asks, then end the process."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing)
    threading.Thread(target=_end_when_stuck, args=(reading,), daemon=True).start()
    parser = arguments.parser("perceptron", DEFAULTS)
    parser.add_argument(
        "--rendezvous",
        type=Path,
        help="file through which workers of one machine meet; else MASTER_ADDR and MASTER_PORT say where",
    )
    parser.add_argument(
        "--image-seconds",
        type=float,
        default=0.0,
        help="least time for an image: as if the model were larger",
    )
    options = dict(vars(parser.parse_args()))
    rendezvous, image_seconds = options.pop("rendezvous"), options.pop("image_seconds")
    status = _train(Arguments(model="perceptron", **options), rendezvous, image_seconds)
    sys.stderr.flush()
    os._exit(status)  # as `loop.main`: taking PyTorch apart takes longer than a change should wait


if __name__ == "__main__":
    main()
