"""The parameter server: keeps the parameters, and takes a step for every gradient that a worker pushes."""

import argparse
import asyncio
import contextlib
import os

import array_checkpoints
import numpy as np
import parameter_wire as wire
from log import Log
from numpy_perceptron import Perceptron, Trained
from signals import Requests

_LOOK_SECONDS = 0.05


def serve(run: argparse.Namespace, log: Log, requests: Requests) -> int:
    """Serve until told to end; raises OSError where nobody can listen."""
    return asyncio.run(_Host(run, log, requests).run())


class _Host:
    def __init__(self, run: argparse.Namespace, log: Log, requests: Requests) -> None:
        self._run, self._log, self._requests = run, log, requests
        self._model = Perceptron(run.hidden)
        self._trained = self._newest()

    def _newest(self) -> Trained:
        """Return the newest state that can be read, or a fresh one."""
        for path in reversed(array_checkpoints.listed(self._run.checkpoint_dir)):
            try:
                found = array_checkpoints.read(path, self._model.size)
            except (OSError, ValueError) as error:
                self._log.write(f"checkpoint unreadable name={path.name} error={error}")
                continue
            self._log.write(f"resumed from step={found.step} checkpoint={path.name}")
            return found
        self._log.write(f"started model=numpy-perceptron pid={os.getpid()} steps={self._run.steps}")
        return Trained.fresh(self._model.initial(self._run.seed))

    async def run(self) -> int:
        run = self._run
        host = "127.0.0.1" if run.port == 0 else None
        server = await asyncio.start_server(self._served, host, run.port)
        if run.address is not None:
            wire.publish(run.address, server.sockets[0].getsockname()[1])
        # The handlers of `signals` only take a note.
        while self._requests.exit_code is None:  # noqa: ASYNC110  (they know of no event loop)
            await asyncio.sleep(_LOOK_SECONDS)
        server.close()
        self._log.write(f"stopped at step={self._trained.step}")
        return self._requests.exit_code

    async def _served(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while True:
                operation, _, _, content = await wire.received(reader)
                writer.write(self._answered(operation, content))
                await writer.drain()
        writer.close()

    def _answered(self, operation: bytes, content: bytes) -> bytes:
        """Return the answer; raises WireError for bytes that are no request."""
        trained, steps = self._trained, self._run.steps
        if operation == wire.PUSH:
            gradient = wire.as_array(content)
            if gradient.shape != trained.parameters.shape or not np.isfinite(gradient).all():
                raise wire.WireError(f"not a gradient of this model: {gradient.size} numbers")
            if trained.step < steps:
                trained.apply(gradient, self._run.learning_rate)
        elif operation not in {wire.PULL, wire.STATE}:
            raise wire.WireError(f"not a request: {operation!r}")
        whole = np.concatenate([trained.parameters, trained.mean, trained.square])
        answer = {wire.PUSH: None, wire.PULL: trained.parameters, wire.STATE: whole}[operation]
        return wire.packed(wire.DONE if trained.step >= steps else wire.GO_ON, answer, step=trained.step)
