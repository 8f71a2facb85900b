"""A perceptron with one hidden layer as one vector of parameters: its loss and gradient, and Adam on it."""

from dataclasses import dataclass

import numpy as np
from digit_table import CLASSES, PIXELS, Floats, Labels

_BETA1, _BETA2, _EPSILON = 0.9, 0.999, 1e-8


@dataclass(frozen=True)
class Perceptron:
    """The shapes of a network with `hidden` units; the parameters are handed in."""

    hidden: int

    @property
    def size(self) -> int:
        """How many parameters there are."""
        return (PIXELS + 1) * self.hidden + (self.hidden + 1) * CLASSES

    def initial(self, seed: int) -> Floats:
        """Return random first parameters, scaled by the width of the layer before (He et al., 2015)."""
        chance = np.random.default_rng(seed)
        first = chance.standard_normal((PIXELS, self.hidden)) * np.sqrt(2 / PIXELS)
        second = chance.standard_normal((self.hidden, CLASSES)) * np.sqrt(2 / self.hidden)
        biases = np.zeros(self.hidden), np.zeros(CLASSES)
        return np.concatenate([first.ravel(), biases[0], second.ravel(), biases[1]]).astype(np.float32)

    def gradient(self, parameters: Floats, images: Floats, labels: Labels) -> tuple[float, Floats]:
        """Return the mean softmax cross entropy of a batch, in nats, and its gradient."""
        first, bias, second, last = self._parts(parameters)
        hidden = np.maximum(images @ first + bias, 0)
        scores = hidden @ second + last
        scores -= scores.max(axis=1, keepdims=True)
        likely = np.exp(scores)
        likely /= likely.sum(axis=1, keepdims=True)
        rows = np.arange(len(labels))
        loss = -float(np.log(likely[rows, labels] + np.float32(1e-12)).mean())
        likely[rows, labels] -= 1
        likely /= np.float32(len(labels))
        back = (likely @ second.T) * (hidden > 0)
        parts = (images.T @ back, back.sum(axis=0), hidden.T @ likely, likely.sum(axis=0))
        return loss, np.concatenate([part.ravel() for part in parts]).astype(np.float32)

    def _parts(self, parameters: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        ends = np.cumsum([PIXELS * self.hidden, self.hidden, self.hidden * CLASSES])
        first, bias, second, last = np.split(parameters, ends)
        return first.reshape(PIXELS, self.hidden), bias, second.reshape(self.hidden, CLASSES), last


@dataclass
class Trained:
    """Parameters with what Adam (Kingma and Ba, 2015) knows of them, after `step` gradients."""

    parameters: Floats
    mean: Floats
    square: Floats
    step: int = 0

    @classmethod
    def fresh(cls, parameters: Floats) -> "Trained":
        """Return them before the first gradient."""
        return cls(parameters, np.zeros_like(parameters), np.zeros_like(parameters))

    def apply(self, gradient: Floats, rate: float) -> None:
        """Take one step against the gradient."""
        self.step += 1
        self.mean = np.float32(_BETA1) * self.mean + np.float32(1 - _BETA1) * gradient
        self.square = np.float32(_BETA2) * self.square + np.float32(1 - _BETA2) * gradient**2
        mean = self.mean / np.float32(1 - _BETA1**self.step)
        square = self.square / np.float32(1 - _BETA2**self.step)
        change = np.float32(rate) * mean / (np.sqrt(square) + np.float32(_EPSILON))
        self.parameters = (self.parameters - change).astype(np.float32)
