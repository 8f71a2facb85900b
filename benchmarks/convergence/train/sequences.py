"""Sequence models: a character transformer, the adding problem, and word vectors."""

import math
from collections.abc import Iterator

import torch
from torch import Generator, Tensor, nn
from torch.nn import functional

from train.data import characters
from train.optimisation import optimiser, scheduler

_LENGTH = 32


class Transformer(nn.Module):
    """A decoder of one or two layers over characters."""

    def __init__(self, alphabet: int, width: int, layers: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(alphabet, width)
        self.position = nn.Parameter(torch.zeros(_LENGTH, width))
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(width, 2, 2 * width, dropout=0.0, batch_first=True, norm_first=True)
            for _ in range(layers)
        )
        self.output = nn.Linear(width, alphabet)
        self.register_buffer("mask", torch.full((_LENGTH, _LENGTH), -math.inf).triu(1))

    def forward(self, text: Tensor) -> Tensor:
        """Return the scores of each next character."""
        hidden = self.embedding(text) + self.position
        for layer in self.layers:
            hidden = layer(hidden, src_mask=self.mask)
        scores: Tensor = self.output(hidden)
        return scores


def language(
    steps: int, rate: float, schedule: str, *, width: int = 32, layers: int = 1, batch: int = 8, seed: int = 0
) -> Iterator[float]:
    """Train a character language model; yields the loss of each batch, nats per character."""
    torch.manual_seed(seed)
    generator = Generator().manual_seed(seed)
    text, alphabet = characters()
    model = Transformer(alphabet, width, layers)
    used = optimiser("adamw", model, rate)
    rates = scheduler(schedule, used, steps)
    offsets = torch.arange(_LENGTH + 1)
    for _ in range(steps):
        starts = torch.randint(len(text) - _LENGTH - 1, (batch, 1), generator=generator)
        piece = text[starts + offsets]
        used.zero_grad()
        loss = functional.cross_entropy(model(piece[:, :-1]).flatten(0, 1), piece[:, 1:].flatten())
        loss.backward()  # type: ignore[no-untyped-call]  # PyTorch leaves it without annotations
        used.step()
        rates.step()
        yield loss.item()


class _Adder(nn.Module):
    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.recurrent = nn.GRU(2, hidden, batch_first=True)
        self.output = nn.Linear(hidden, 1)

    def forward(self, sequence: Tensor) -> Tensor:
        """Return the sum of the two marked numbers, as far as it is known."""
        total: Tensor = self.output(self.recurrent(sequence)[0][:, -1])
        return total


def adding(steps: int, rate: float, *, length: int = 20, every: int = 1, seed: int = 0) -> Iterator[float]:
    """Train on the adding problem: a plateau at the variance of the sums, then a drop."""
    torch.manual_seed(seed)
    generator = Generator().manual_seed(seed)
    model = _Adder(32)
    used = optimiser("adam", model, rate)
    held = 0.0
    for step in range(1, steps + 1):
        numbers = torch.rand(32, length, generator=generator)
        marks = torch.zeros(32, length)
        for half in (slice(0, length // 2), slice(length // 2, length)):
            marks[:, half].scatter_(1, torch.randint(length // 2, (32, 1), generator=generator), 1.0)
        used.zero_grad()
        sums = (numbers * marks).sum(1, keepdim=True)
        loss = functional.mse_loss(model(torch.stack([numbers, marks], 2)), sums)
        loss.backward()  # type: ignore[no-untyped-call]  # PyTorch leaves it without annotations
        used.step()
        held += loss.item() / every
        if step % every == 0:
            yield held
            held = 0.0


def word_vectors(steps: int, rate: float, *, batch: int = 64, seed: int = 0) -> Iterator[float]:
    """Train skip-gram vectors of characters with negative sampling; yields the loss of each batch."""
    torch.manual_seed(seed)
    generator = Generator().manual_seed(seed)
    text, alphabet = characters()
    near, far = nn.Embedding(alphabet, 16), nn.Embedding(alphabet, 16)
    used = optimiser("adam", nn.ModuleList([near, far]), rate)
    for _ in range(steps):
        centres = torch.randint(2, len(text) - 2, (batch,), generator=generator)
        shift = torch.randint(1, 3, (batch,), generator=generator)
        negatives = torch.randint(alphabet, (batch, 5), generator=generator)
        used.zero_grad()
        inside = near(text[centres])
        right = (inside * far(text[centres + shift])).sum(1)
        wrong = (inside[:, None] * far(negatives)).sum(2)
        loss = -functional.logsigmoid(right).mean() - functional.logsigmoid(-wrong).mean()
        loss.backward()  # type: ignore[no-untyped-call]  # PyTorch leaves it without annotations
        used.step()
        yield loss.item()
