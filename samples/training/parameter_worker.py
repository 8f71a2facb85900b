"""A worker of a parameter server: pulls, computes, pushes; the first one also logs and saves."""

import argparse
import contextlib
import time

import array_checkpoints
import digit_table
import numpy as np
import parameter_wire as wire
from asked import Asked
from log import Log
from numpy_perceptron import Perceptron, Trained
from signals import Requests

PATIENCE_SECONDS = 60.0
"""How long a server is waited for that is not there, at the start and when it starts again."""
_ANSWER_SECONDS = 5.0
_LOOK_SECONDS = 0.1


class Worker:
    """One worker; it may start and end at any time."""

    def __init__(self, run: argparse.Namespace, log: Log, requests: Requests) -> None:
        """Read the data; raises FileNotFoundError where there is none."""
        self._run, self._log, self._requests = run, log, requests
        self._wishes = Asked(requests, run.checkpoint_dir, run.request_file)
        self._model = Perceptron(run.hidden)
        self._images, self._labels = digit_table.load()
        self._server: wire.Connection | None = None
        self._logged = 0
        self._saved_step: int | None = None

    @property
    def _leads(self) -> bool:
        return bool(self._run.index == 0)

    def work(self) -> int:
        """Train until the last step or until told to end; return the exit status."""
        chance = None
        done = False
        while not done and self._requests.exit_code is None:
            if self._server is None and not self._connected():
                break
            try:
                status, step, parameters = self._asked(wire.packed(wire.PULL))
                if chance is None:
                    # Each time other batches: a worker that comes back does not train the same ones again.
                    chance = np.random.default_rng([self._run.seed, self._run.index, step])
                    self._log.write(f"joined at step={step} index={self._run.index}")
                if status != wire.DONE:
                    status, step = self._trained(parameters, chance)
                done = status == wire.DONE
                self._after(step, done=done)
            except OSError as error:
                self._log.write(f"parameter server lost error={error}")
                self._server = None
        return self._ended(done=done)

    def _trained(self, parameters: digit_table.Floats, chance: np.random.Generator) -> tuple[bytes, int]:
        """Push the gradient of one batch; return what the server says."""
        if parameters.size != self._model.size:
            raise ValueError(f"the server has {parameters.size} parameters, this run {self._model.size}")
        chosen = chance.integers(len(self._labels), size=self._run.batch_size)
        ends = time.monotonic() + len(chosen) * self._run.image_seconds
        loss, gradient = self._model.gradient(parameters, self._images[chosen], self._labels[chosen])
        time.sleep(max(0.0, ends - time.monotonic()))
        status, step, _ = self._asked(wire.packed(wire.PUSH, gradient, loss=loss))
        if self._leads and (step - self._logged >= self._run.log_every or step >= self._run.steps):
            self._logged = step
            self._log.write(f"step={step}/{self._run.steps} loss={loss:.6g} lr={self._run.learning_rate:g}")
        elif step < self._logged:
            self._logged = step  # the server went back to a checkpoint
        return status, step

    def _after(self, step: int, *, done: bool) -> None:
        """Save a step that is due, or was asked for, or is the last."""
        every, saved = self._run.checkpoint_every, self._saved_step
        if saved is None or step < saved:
            self._saved_step = saved = step
        due = every > 0 and step - saved >= every
        if self._leads and (self._wishes.take() or due or done):
            self._save()

    def _save(self) -> None:
        _, step, whole = self._asked(wire.packed(wire.STATE))
        if whole.size != 3 * self._model.size:
            raise wire.WireError(f"{whole.size} numbers are not the state of this model")
        try:
            parameters, mean, square = np.split(whole, 3)
            trained = Trained(parameters, mean, square, step=step)
            path = array_checkpoints.save(self._run.checkpoint_dir, trained, self._run.keep)
        except OSError as error:
            self._log.write(f"checkpoint failed step={step} error={error.strerror or error}")
        else:
            self._saved_step = step
            self._log.write(f"checkpoint saved step={step} name={path.name}")

    def _ended(self, *, done: bool) -> int:
        if done:
            self._log.write(f"finished step={self._run.steps}")
            return 0
        if self._leads and self._server is not None:
            with contextlib.suppress(OSError):  # the server is told to end at the same time
                self._save()
        self._log.write("stopped")
        if self._requests.exit_code is None:
            raise ConnectionError(f"no parameter server for {PATIENCE_SECONDS:g} s")
        return self._requests.exit_code

    def _asked(self, message: bytes) -> tuple[bytes, int, digit_table.Floats]:
        assert self._server is not None
        return self._server.ask(message)

    def _connected(self) -> bool:
        """Wait for the server, which may start after its workers; False: it does not come, or end is near."""
        ends = time.monotonic() + PATIENCE_SECONDS
        while self._requests.exit_code is None and time.monotonic() < ends:
            try:
                self._server = wire.Connection(*wire.address(self._run.address), _ANSWER_SECONDS)
            except (OSError, KeyError, TypeError):
                time.sleep(_LOOK_SECONDS)
            else:
                return True
        return False
