"""LSTM that reads the rows of an image downwards and upwards; softmax cross entropy."""

from signals import REQUESTS  # first of all: it installs the signal handlers

# isort: split
import digits
import loop
import torch
from arguments import Defaults
from torch import Generator, Tensor, nn
from torch.nn import functional
from training import Trainable

DEFAULTS = Defaults(steps=400, batch_size=128, hidden=128, learning_rate=3e-3)


class BidirectionalLstm(Trainable):
    """One LSTM layer in each direction (Schuster and Paliwal, 1997); both last states name the digit."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.recurrent = nn.LSTM(digits.SIDE, hidden, batch_first=True, bidirectional=True)
        self.output = nn.Linear(2 * hidden, digits.CLASSES)

    def loss(self, images: Tensor, labels: Tensor, generator: Generator) -> Tensor:
        """Softmax cross entropy, in nats."""
        del generator  # nothing random in it
        _, (last, _) = self.recurrent(images)
        return functional.cross_entropy(self.output(torch.cat((last[0], last[1]), dim=1)), labels)


if __name__ == "__main__":
    loop.main("bidirectional_rnn", BidirectionalLstm, DEFAULTS, REQUESTS)
