"""The Adam optimizer (Kingma and Ba, 2015, algorithm 1) in plain tensor operations.

It computes what `torch.optim.Adam` computes. That class imports PyTorch's compiler when it is constructed,
which doubles the start of a training process, and a short start is a short move.
"""

from collections.abc import Iterable

import torch
from torch import Tensor

DECAYS = (0.9, 0.999)
EPSILON = 1e-8


class Adam:
    """Adam with the paper's settings for the decays and epsilon."""

    def __init__(self, parameters: Iterable[Tensor], learning_rate: float) -> None:
        self.learning_rate = learning_rate
        self._parameters = list(parameters)
        self._steps = 0
        self._means = [torch.zeros_like(parameter) for parameter in self._parameters]
        self._squares = [torch.zeros_like(parameter) for parameter in self._parameters]

    def zero_grad(self) -> None:
        """Forget the gradients of the last step."""
        for parameter in self._parameters:
            parameter.grad = None

    @torch.no_grad()
    def step(self) -> None:
        """Move each parameter that has a gradient against it."""
        self._steps += 1
        first, second = DECAYS
        size = self.learning_rate / (1 - first**self._steps)
        correction = (1 - second**self._steps) ** 0.5
        for parameter, mean, square in zip(self._parameters, self._means, self._squares, strict=True):
            if (gradient := parameter.grad) is not None:
                mean.lerp_(gradient, 1 - first)
                square.mul_(second).addcmul_(gradient, gradient, value=1 - second)
                parameter.addcdiv_(mean, (square.sqrt() / correction).add_(EPSILON), value=-size)

    def state_dict(self) -> dict[str, int | list[Tensor]]:
        """Return what a checkpoint has to hold."""
        return {"steps": self._steps, "means": self._means, "squares": self._squares}

    def load_state_dict(self, state: dict[str, object]) -> None:
        """Go on from what `state_dict` returned for parameters of the same shapes."""
        steps, means, squares = state["steps"], state["means"], state["squares"]
        assert isinstance(steps, int)
        assert isinstance(means, list)
        assert isinstance(squares, list)
        self._steps = steps
        for ours, saved in zip(self._means + self._squares, means + squares, strict=True):
            ours.copy_(saved)
