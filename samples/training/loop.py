"""The training loop of all samples: resume, train, log, save when it is time or asked for, end when told."""

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import arguments
import torch
from arguments import Arguments, Defaults
from asked import Asked
from log import Log
from signals import Requests
from training import MismatchError, Trainable, Training

from checkpoints import CheckpointDirectory

_PAUSED_SECONDS = 0.05  # between two looks whether a pause is over


def main(model: str, build: Callable[[int], Trainable], defaults: Defaults, requests: Requests) -> NoReturn:
    """Train as the command line asks, then end the process; `build` makes the model of a hidden size."""
    status = _train(arguments.parse(model, defaults), build, requests)
    sys.stderr.flush()
    # Nothing else is left to flush. Taking apart an interpreter with PyTorch in it costs 0.3 s, and a move
    # waits for that.
    os._exit(status)


def _train(run: Arguments, build: Callable[[int], Trainable], requests: Requests) -> int:
    torch.set_num_threads(1)
    torch.set_num_interop_threads(1)
    try:
        log = Log(run.log)
    except OSError as error:
        return _refuse("--log", error)
    try:
        checkpoints = (
            None if run.checkpoint_dir is None else CheckpointDirectory(run.checkpoint_dir, run.keep)
        )
    except OSError as error:
        return _refuse("--checkpoint-dir", error)
    try:
        return Loop(run, Training(run, build), log, checkpoints).run(requests)
    except MismatchError as error:
        return _refuse("--checkpoint-dir", error)


def _refuse(argument: str, error: Exception) -> int:
    print(f"error: argument {argument}: {error}", file=sys.stderr)  # noqa: T201 - as argparse does
    return 2


class Loop:
    """Ties a training run to its log and its checkpoints."""

    def __init__(
        self, run: Arguments, training: Training, log: Log, checkpoints: CheckpointDirectory | None
    ) -> None:
        self._arguments = run
        self._training = training
        self._log = log
        self._checkpoints = checkpoints
        self._saved_step: int | None = None

    def run(self, requests: Requests) -> int:
        """Train to the last step or until told to end, and save. Returns the exit status."""
        self._resume()
        asked = Asked(requests, self._arguments.checkpoint_dir, self._arguments.request_file)
        while self._training.step < self._arguments.steps and requests.exit_code is None:
            self._step()
            if asked.take():
                self._save()
                self._pause(asked)
            elif self._is_checkpoint_due():
                self._save()
        if self._checkpoints is not None and self._saved_step != self._training.step:
            self._save()
        if self._training.step >= self._arguments.steps or requests.exit_code is None:
            self._log.write(f"finished step={self._training.step}")
            return 0
        self._log.write(f"stopped at step={self._training.step}")
        return requests.exit_code

    def _resume(self) -> None:
        found = None
        if self._checkpoints is not None:
            found = self._checkpoints.newest(
                lambda path: self._log.write(f"checkpoint unreadable name={path.name}")
            )
        if found is None:
            steps = self._arguments.steps
            self._log.write(f"started model={self._arguments.model} pid={os.getpid()} steps={steps}")
            return
        path, state = found
        self._training.restore(state, path.name)
        self._saved_step = self._training.step
        self._log.write(f"resumed from step={self._training.step} checkpoint={path.name}")

    def _step(self) -> None:
        loss = self._training.advance()
        step, steps = self._training.step, self._arguments.steps
        if step % self._arguments.log_every == 0 or step in {1, steps}:
            self._log.write(f"step={step}/{steps} loss={loss:.6g} lr={self._arguments.learning_rate:g}")

    def _pause(self, asked: Asked) -> None:
        """Wait as long as the request wants that; another request gets the same step once more."""
        if asked.pausing():
            self._log.write(f"paused at step={self._training.step}")
        while asked.pausing():
            time.sleep(_PAUSED_SECONDS)
            if asked.take():
                self._save()

    def _is_checkpoint_due(self) -> bool:
        every = self._arguments.checkpoint_every
        return self._checkpoints is not None and every > 0 and self._training.step % every == 0

    def _save(self) -> None:
        step = self._training.step
        try:
            path = self._write_checkpoint()
        except OSError as error:
            # Training goes on: losing a checkpoint is better than losing the run.
            self._log.write(f"checkpoint failed step={step} error={error.strerror or error}")
        else:
            self._saved_step = step
            self._log.write(f"checkpoint saved step={step} name={path.name}")

    def _write_checkpoint(self) -> Path:
        if self._checkpoints is None:
            raise FileNotFoundError("no --checkpoint-dir given")
        return self._checkpoints.save(self._training.state())
