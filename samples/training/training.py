"""The state of one training run, and how it advances by a step."""

from collections.abc import Callable

import digits
import torch
from adam import Adam
from arguments import Arguments
from torch import Generator, Tensor, nn

from checkpoints import State


class Trainable(nn.Module):
    """A model that knows its own loss."""

    def loss(self, images: Tensor, labels: Tensor, generator: Generator) -> Tensor:
        """Return the mean loss over a batch of images, shape (batch, 8, 8); all chance is the generator's."""
        raise NotImplementedError


class MismatchError(Exception):
    """The checkpoint belongs to another model, or to one of another size."""


class Training:
    """Everything that a resume has to bring back: parameters, optimizer, step and the states of chance."""

    def __init__(self, run: Arguments, build: Callable[[int], Trainable]) -> None:
        torch.manual_seed(run.seed)
        self._run = {"model": run.model, "hidden": run.hidden}
        self._batch_size = run.batch_size
        self._model = build(run.hidden)
        self._optimizer = Adam(self._model.parameters(), run.learning_rate)
        self._generator = Generator().manual_seed(run.seed)
        self._images, self._labels = digits.load()
        self.step = 0

    def advance(self) -> float:
        """Train one step on a random batch; returns the loss of that batch before the step."""
        chosen = torch.randint(len(self._labels), (self._batch_size,), generator=self._generator)
        self._optimizer.zero_grad()
        loss = self._model.loss(self._images[chosen], self._labels[chosen], self._generator)
        loss.backward()  # type: ignore[no-untyped-call]  # PyTorch leaves it without annotations
        self._optimizer.step()
        self.step += 1
        return loss.item()

    def state(self) -> State:
        """Return what a checkpoint holds."""
        return {
            "run": self._run,
            "step": self.step,
            "model": self._model.state_dict(),
            "optimizer": self._optimizer.state_dict(),
            "torch_random": torch.get_rng_state(),
            "batch_random": self._generator.get_state(),
        }

    def restore(self, state: State, name: str) -> None:
        """Go on from the checkpoint of that name. Raises MismatchError when it is another model's."""
        self.expect(state["run"], name)
        self._model.load_state_dict(state["model"])
        self._optimizer.load_state_dict(state["optimizer"])
        torch.set_rng_state(state["torch_random"])
        self._generator.set_state(state["batch_random"])
        self.step = state["step"]

    def expect(self, saved_by: dict[str, object], name: str) -> None:
        """Raise MismatchError where the checkpoint of that name was saved by another model."""
        if saved_by != self._run:
            theirs, ours = (" ".join(f"{key}={run[key]}" for key in run) for run in (saved_by, self._run))
            raise MismatchError(f"{name} was saved by {theirs}, and this run is {ours}")
