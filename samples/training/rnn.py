"""LSTM that reads an image row by row; softmax cross entropy."""

from signals import REQUESTS  # first of all: it installs the signal handlers

# isort: split
import digits
import loop
from arguments import Defaults
from torch import Generator, Tensor, nn
from torch.nn import functional
from training import Trainable

DEFAULTS = Defaults(steps=400, batch_size=256, hidden=128, learning_rate=3e-3)


class Lstm(Trainable):
    """One LSTM layer (Hochreiter and Schmidhuber, 1997); the last state names the digit."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.recurrent = nn.LSTM(digits.SIDE, hidden, batch_first=True)
        self.output = nn.Linear(hidden, digits.CLASSES)

    def loss(self, images: Tensor, labels: Tensor, generator: Generator) -> Tensor:
        """Softmax cross entropy, in nats."""
        del generator  # nothing random in it
        _, (last, _) = self.recurrent(images)
        return functional.cross_entropy(self.output(last[0]), labels)


if __name__ == "__main__":
    loop.main("rnn", Lstm, DEFAULTS, REQUESTS)
