"""LSTM over sequences of different lengths, the first rows of an image; softmax cross entropy."""

from signals import REQUESTS  # first of all: it installs the signal handlers

# isort: split
import digits
import loop
import torch
from arguments import Defaults
from torch import Generator, Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import pack_padded_sequence
from training import Trainable

DEFAULTS = Defaults(steps=400, batch_size=128, hidden=128, learning_rate=3e-3)
FEWEST_ROWS = 5


class DynamicLstm(Trainable):
    """One LSTM layer over packed sequences: it does no work for the rows that a sequence lacks."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.recurrent = nn.LSTM(digits.SIDE, hidden, batch_first=True)
        self.output = nn.Linear(hidden, digits.CLASSES)

    def loss(self, images: Tensor, labels: Tensor, generator: Generator) -> Tensor:
        """Softmax cross entropy, in nats, for a random number of rows of each image."""
        rows = torch.randint(FEWEST_ROWS, digits.SIDE + 1, (len(images),), generator=generator)
        packed = pack_padded_sequence(images, rows, batch_first=True, enforce_sorted=False)
        _, (last, _) = self.recurrent(packed)
        return functional.cross_entropy(self.output(last[0]), labels)


if __name__ == "__main__":
    loop.main("dynamic_rnn", DynamicLstm, DEFAULTS, REQUESTS)
