"""A training run that several workers share: each computes its part of every batch.

Each step is a link of a chain of hashes over the parameters, so two runs whose chains end alike have trained
the same, however often one of them was moved, and a step that was lost or done twice shows for ever.
"""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable

import torch
from arguments import Arguments
from torch import Generator, Tensor, distributed, nn
from torch.nn.parallel import DistributedDataParallel
from training import Trainable, Training

from checkpoints import State

_DIGITS = 16


def linked(chain: str, tensors: Iterable[Tensor]) -> str:
    """Return the chain, lengthened by what the tensors hold."""
    link = hashlib.sha256(chain.encode())
    for tensor in tensors:
        link.update(tensor.detach().contiguous().numpy().data)
    return link.hexdigest()[:_DIGITS]


class SharedTraining(Training, ABC):
    """The same steps for any number of workers, up to rounding: the batch is divided, not multiplied.

    Every worker draws the same batch and takes each `size`-th image of it, from its rank on. So a checkpoint
    of three workers is gone on from with two.
    """

    def __init__(self, run: Arguments, build: Callable[[int], Trainable], *, rank: int, size: int) -> None:
        """Prepare this worker's share; raises ValueError for a batch with fewer images than workers."""
        if run.batch_size < size:
            raise ValueError(f"argument --batch-size: must be at least {size}, one image for each worker")
        super().__init__(run, build)
        self.rank, self.size = rank, size
        self.chain = ""

    def advance_together(self, *words: bool) -> tuple[float, list[bool]]:
        """Train one step; returns the loss of the whole batch, and which words any of the workers said.

        All of them return the same. Raises RuntimeError when a worker is lost.
        """
        whole = torch.randint(len(self._labels), (self._batch_size,), generator=self._generator)
        own = whole[self.rank :: self.size]
        share = len(own) / len(whole)
        self._optimizer.zero_grad()
        loss = self._loss(self._images[own], self._labels[own])
        # The mean over the workers is that of the batch.
        (loss * share * self.size).backward()  # type: ignore[no-untyped-call]  # PyTorch leaves it without annotations
        self._optimizer.step()
        self.step += 1
        self.chain = linked(self.chain, self._own())
        return said_together(float(loss.detach()) * share, *words)

    @abstractmethod
    def _loss(self, images: Tensor, labels: Tensor) -> Tensor:
        """Return the mean loss of this worker's images; what follows from it is averaged over the workers."""

    @abstractmethod
    def _own(self) -> Iterable[Tensor]:
        """Return the parameters that this worker has."""


def said_together(number: float, *words: bool) -> tuple[float, list[bool]]:
    """Return the sum of the workers' numbers, and which words any of them said; raises RuntimeError."""
    told = torch.tensor([number, *map(float, words)])
    distributed.all_reduce(told)
    return float(told[0]), [bool(word > 0) for word in told[1:]]


class _Loss(nn.Module):
    """The loss of a model as a module, which is what DistributedDataParallel wraps."""

    def __init__(self, model: Trainable) -> None:
        super().__init__()
        self.model = model

    def forward(self, images: Tensor, labels: Tensor, generator: Generator) -> Tensor:
        return self.model.loss(images, labels, generator)


class ParallelTraining(SharedTraining):
    """Every worker has all parameters; the gradients are averaged by DistributedDataParallel."""

    def __init__(self, run: Arguments, build: Callable[[int], Trainable], *, rank: int, size: int) -> None:
        """Wrap the model; raises ValueError for a batch with fewer images than workers."""
        super().__init__(run, build, rank=rank, size=size)
        self._parallel = DistributedDataParallel(_Loss(self._model))
        # It lays gradients out again after its first step, and their sums differ by rounding then: without
        # this the first step of a start would differ from that of a run that was not interrupted.
        self._parallel(self._images[:1], self._labels[:1], Generator()).backward()

    def state(self) -> State:
        """Return what a checkpoint holds."""
        return {**super().state(), "chain": self.chain}

    def restore(self, state: State, name: str) -> None:
        """Go on from the checkpoint of that name. Raises MismatchError when it is another model's."""
        super().restore(state, name)
        self.chain = state.get("chain", "")

    def _loss(self, images: Tensor, labels: Tensor) -> Tensor:
        loss: Tensor = self._parallel(images, labels, self._generator)
        return loss

    def _own(self) -> Iterable[Tensor]:
        return self._model.parameters()
