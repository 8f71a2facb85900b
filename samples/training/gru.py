"""GRU that reads an image row by row; quadratic loss."""

from signals import REQUESTS  # first of all: it installs the signal handlers

# isort: split
import digits
import loop
from arguments import Defaults
from torch import Generator, Tensor, nn
from torch.nn import functional
from training import Trainable

DEFAULTS = Defaults(steps=400, batch_size=256, hidden=128, learning_rate=3e-3)


class Gru(Trainable):
    """One GRU layer (Cho et al., 2014); the last state names the digit."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.recurrent = nn.GRU(digits.SIDE, hidden, batch_first=True)
        self.output = nn.Linear(hidden, digits.CLASSES)

    def loss(self, images: Tensor, labels: Tensor, generator: Generator) -> Tensor:
        """Mean squared distance to the one-hot label."""
        del generator  # nothing random in it
        _, last = self.recurrent(images)
        return functional.mse_loss(self.output(last[0]), functional.one_hot(labels, digits.CLASSES).float())


if __name__ == "__main__":
    loop.main("gru", Gru, DEFAULTS, REQUESTS)
