"""The loop of each worker of a job whose workers train as one: agree, train, log, save, pause, end together.

Any worker may be asked for a checkpoint, or told to end: with each step each says what it was asked, so all
of them save after the same step, and end after the same step.
"""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn, Protocol

import arguments
import torch
from arguments import Arguments, Defaults
from asked import Asked
from log import Log
from parallel_training import SharedTraining, said_together
from rendezvous import RendezvousError, Team, join
from signals import Requests
from torch import distributed
from training import MismatchError

PART_SECONDS = 5.0
LOST_SECONDS = 2.0
"""After a worker is lost or told to end, so long all of them may be told to end, and this one not yet."""
STUCK_SECONDS = 1.5
"""From being told to end, so long a step may take that waits for workers which are gone."""
_PAUSED_SECONDS = 0.05  # between two looks whether a pause is over


class Checkpoints(Protocol):
    """How the workers save and go on; every worker calls each of these at the same time."""

    needs_all: bool
    """Whether every worker has to take part in saving."""

    def restore(self, training: SharedTraining, team: Team, log: Log) -> str:
        """Go on from the newest good checkpoint; return its name, or nothing where there is none."""

    def save(self, training: SharedTraining) -> str:
        """Save the present step; return the name of what this worker wrote, if anything. Raises OSError."""


class Worker:
    """One of the workers: the first one logs the steps."""

    def __init__(
        self,
        run: Arguments,
        log: Log,
        team: Team,
        training: SharedTraining,
        checkpoints: Checkpoints | None,
        *,
        requests: Requests,
    ) -> None:
        self._run, self._log, self._team, self._training = run, log, team, training
        self._checkpoints, self._requests = checkpoints, requests
        self._asked = Asked(requests, run.checkpoint_dir, run.request_file)
        self._saved_step: int | None = None

    def work(self, step_seconds: float) -> int:
        """Train to the last step, until told to end, or until another worker is lost; return the status.

        `step_seconds` is the least time that a step takes.
        """
        self._resume()
        training, run = self._training, self._run
        ending = False
        try:
            while training.step < run.steps and not ending:
                ends = time.monotonic() + step_seconds
                loss, (asked, ending) = training.advance_together(self._asked.take(), self._told)
                self._after_step(loss)
                if asked:
                    ending = self._save_as_asked() or ending
                elif run.checkpoint_every > 0 and training.step % run.checkpoint_every == 0:
                    self._save()
                time.sleep(max(0.0, ends - time.monotonic()))
            if self._saved_step != training.step:
                self._save()
        except RuntimeError as error:
            return self._lost(error)
        if training.step >= run.steps:
            self._log.write(f"finished step={training.step}{self._link}")
            self._team.part(PART_SECONDS)
            return 0
        return self._ended("another worker was told to end")

    @property
    def _told(self) -> bool:
        return self._requests.exit_code is not None

    def _resume(self) -> None:
        run, team = self._run, f"rank={self._team.rank} workers={self._team.size}"
        name = ""
        if self._checkpoints is not None:
            name = self._checkpoints.restore(self._training, self._team, self._log)
        if not name:
            self._log.write(f"started model={run.model} pid={os.getpid()} steps={run.steps} {team}")
            return
        self._saved_step = self._training.step
        self._log.write(f"resumed from step={self._training.step} checkpoint={name} {team}{self._link}")

    @property
    def _link(self) -> str:
        return f" chain=sha256:{self._training.chain}"

    def _after_step(self, loss: float) -> None:
        step, steps, rate = self._training.step, self._run.steps, self._run.learning_rate
        if self._team.leads and (step % self._run.log_every == 0 or step in {1, steps}):
            self._log.write(f"step={step}/{steps} loss={loss:.6g} lr={rate:g}{self._link}")

    def _save_as_asked(self) -> bool:
        """Save, and wait as long as the request wants that; return whether anybody was told to end."""
        self._save()
        paused = False
        while True:
            _, words = said_together(0.0, self._asked.take(), self._asked.pausing(), self._told)
            asked, pausing, ending = words
            if pausing and not paused:
                self._log.write(f"paused at step={self._training.step}")
            elif paused and not pausing and not ending:
                self._log.write(f"goes on from step={self._training.step}")
            paused = pausing
            if asked:
                self._save()  # the same step once more: a request waits for a newer checkpoint than itself
            if ending or not (pausing or asked):
                return ending
            time.sleep(_PAUSED_SECONDS)

    def _save(self) -> None:
        step = self._training.step
        if self._checkpoints is None:
            return
        try:
            name = self._checkpoints.save(self._training)
        except OSError as error:
            self._log.write(f"checkpoint failed step={step} error={error.strerror or error}")
        else:
            self._saved_step = step
            if name:
                self._log.write(f"checkpoint saved step={step} name={name}{self._link}")

    def _lost(self, error: RuntimeError) -> int:
        # The parameters are those after the last whole step: the optimizer had no part in the broken one.
        alone = self._checkpoints is not None and not self._checkpoints.needs_all
        if alone and self._saved_step != self._training.step:
            self._save()
        return self._ended(str(error).splitlines()[0][:160])

    def _ended(self, why: str) -> int:
        """Return the status; where others end first, this one may be about to be told so, too."""
        ends = time.monotonic() + LOST_SECONDS
        while not self._told and time.monotonic() < ends:
            time.sleep(0.02)
        if (status := self._requests.exit_code) is None:
            self._log.write(f"lost a worker step={self._training.step} error={why}")
            return 1
        self._log.write(f"stopped at step={self._training.step}{self._link}")
        return status


def _end_when_stuck(signals: int) -> None:
    """End the process soon after it was told to, whatever it does: a step may wait in C++ for lost workers.

    Python's own handlers run when that step is over; the numbers of signals come through a pipe at once.
    """
    while (number := os.read(signals, 1)[0]) not in {signal.SIGTERM, signal.SIGINT}:
        pass
    time.sleep(STUCK_SECONDS)
    # A checkpoint that is being written does not show under its name yet.
    os._exit(128 + number)


def _spread() -> bool:
    """Whether workers run on other processors than this one, and so, as virtual nodes go, on another node."""
    own = sorted(os.sched_getaffinity(0))
    everywhere = [list[int]()] * distributed.get_world_size()
    distributed.all_gather_object(everywhere, own)
    return any(each != own for each in everywhere)


Parts = Callable[[Arguments, Team], tuple[SharedTraining, Checkpoints | None]]
"""Makes what a sample trains, and how it saves."""


def _train(
    run: Arguments,
    make: Parts,
    requests: Requests,
    *,
    rendezvous: Path | None,
    image_seconds: float,
    exchange_seconds: float,
) -> int:
    torch.set_num_threads(1)
    torch.set_num_interop_threads(1)
    try:
        log = Log(run.log)
        team = join(rendezvous, lambda: requests.exit_code is None)
        if team is None:
            return requests.exit_code or 0
        # As if the model were larger, and a slow network joined the nodes.
        least = run.batch_size / team.size * image_seconds + (exchange_seconds if _spread() else 0.0)
        return Worker(run, log, team, *make(run, team), requests=requests).work(least)
    except (OSError, ValueError, MismatchError, RendezvousError) as error:
        print(f"error: {error}", file=sys.stderr)  # noqa: T201 - as argparse does
        return 2


def main(model: str, defaults: Defaults, make: Parts, requests: Requests) -> NoReturn:
    """Train as the command line asks, then end the process."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing)
    threading.Thread(target=_end_when_stuck, args=(reading,), daemon=True).start()
    parser = arguments.parser(model, defaults)
    add = parser.add_argument
    add(
        "--rendezvous",
        type=Path,
        help="file through which workers of one machine meet; else MASTER_ADDR and MASTER_PORT say where",
    )
    add(
        "--image-seconds",
        type=float,
        default=0.0,
        help="least time for an image: as if the model were larger",
    )
    add(
        "--exchange-seconds",
        type=float,
        default=0.0,
        help="added to each step while not all workers run on the same processors: as if a slow network"
        " joined them",
    )
    options = dict(vars(parser.parse_args()))
    own = {name: options.pop(name) for name in ("rendezvous", "image_seconds", "exchange_seconds")}
    status = _train(Arguments(model=model, **options), make, requests, **own)
    sys.stderr.flush()
    os._exit(status)  # as `loop.main`: taking PyTorch apart takes longer than a change should wait
