"""A training run that several workers share: each computes its part of every batch."""

from collections.abc import Callable

import torch
from arguments import Arguments
from torch import Generator, Tensor, distributed, nn
from torch.nn.parallel import DistributedDataParallel
from training import Trainable, Training


class _Loss(nn.Module):
    """The loss of a model as a module, which is what DistributedDataParallel wraps."""

    def __init__(self, model: Trainable) -> None:
        super().__init__()
        self.model = model

    def forward(self, images: Tensor, labels: Tensor, generator: Generator) -> Tensor:
        return self.model.loss(images, labels, generator)


class ParallelTraining(Training):
    """The same steps for any number of workers, up to rounding: the batch is divided, not multiplied.

    Every worker draws the same batch and takes each `size`-th image of it, from its rank on; the gradients
    are averaged by DistributedDataParallel. So a checkpoint of three workers is gone on from with two.
    """

    def __init__(self, run: Arguments, build: Callable[[int], Trainable], *, rank: int, size: int) -> None:
        """Wrap the model; raises ValueError for a batch with fewer images than workers."""
        if run.batch_size < size:
            raise ValueError(f"argument --batch-size: must be at least {size}, one image for each worker")
        super().__init__(run, build)
        self._rank, self._size = rank, size
        self._parallel = DistributedDataParallel(_Loss(self._model))

    def advance(self) -> float:
        """Train one step; returns the loss of the whole batch. Raises RuntimeError when a worker is lost."""
        whole = torch.randint(len(self._labels), (self._batch_size,), generator=self._generator)
        own = whole[self._rank :: self._size]
        share = len(own) / len(whole)
        self._optimizer.zero_grad()
        loss = self._parallel(self._images[own], self._labels[own], self._generator)
        (loss * share * self._size).backward()  # the mean over the workers is that of the batch
        self._optimizer.step()
        self.step += 1
        total = loss.detach() * share
        distributed.all_reduce(total)
        return float(total)
