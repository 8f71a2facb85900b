"""A perceptron in PyTorch, which the samples of several workers train."""

import digits
from torch import Generator, Tensor, nn
from torch.nn import functional
from training import Trainable


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
