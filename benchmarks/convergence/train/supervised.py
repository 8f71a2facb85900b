"""A training loop for models on tables of examples; reports each step, the mean of several, or each epoch."""

from collections.abc import Callable, Iterator
from itertools import pairwise
from statistics import fmean

import torch
from torch import Generator, Tensor, nn
from torch.nn import functional

from train.optimisation import optimiser, scheduler

Loss = Callable[[Tensor, Tensor], Tensor]


def supervised(
    build: Callable[[], nn.Module],
    data: tuple[Tensor, Tensor],
    loss: Loss,
    *,
    steps: int,
    optimizer: str = "adam",
    rate: float = 1e-3,
    schedule: str = "constant",
    batch: int = 64,
    every: int = 1,
    seed: int = 0,
    report: str = "loss",
) -> Iterator[float]:
    """Train and yield a value per `every` steps: mean loss or accuracy, or validation loss, by `report`."""
    torch.manual_seed(seed)
    generator = Generator().manual_seed(seed)
    inputs, targets = data
    order = torch.randperm(len(inputs), generator=generator)
    held, rest = order[: len(inputs) // 5], order[len(inputs) // 5 :]
    rest = rest[: len(held) // 2] if report == "validation" else rest  # few examples: it overfits
    model = build()
    used = optimiser(optimizer, model, rate)
    rates = scheduler(schedule, used, steps)
    values: list[float] = []
    for step in range(1, steps + 1):
        chosen = rest[torch.randint(len(rest), (batch,), generator=generator)]
        used.zero_grad()
        outputs = model(inputs[chosen])
        value = loss(outputs, targets[chosen])
        value.backward()  # type: ignore[no-untyped-call]  # PyTorch leaves it without annotations
        used.step()
        rates.step()
        if report == "accuracy":
            values.append((outputs.argmax(1) == targets[chosen]).float().mean().item())
        else:
            values.append(value.item())
        if step % every == 0:
            if report == "validation":
                with torch.no_grad():
                    yield loss(model(inputs[held]), targets[held]).item()
            else:
                yield fmean(values)
            values.clear()


def mlp(*sizes: int, scale: float = 1.0) -> Callable[[], nn.Module]:
    """Return a builder of a perceptron; `scale` multiplies its first parameters."""

    def build() -> nn.Module:
        layers: list[nn.Module] = []
        for into, out in pairwise(sizes):
            layers += [nn.Linear(into, out), nn.ReLU()]
        model = nn.Sequential(*layers[:-1])
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.mul_(scale)
        return model

    return build


def convolutional() -> nn.Module:
    """Two convolutions for 8x8 images."""
    return nn.Sequential(
        nn.Unflatten(1, (1, 8, 8)),
        nn.Conv2d(1, 12, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(12, 24, 3, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(24 * 16, 10),
    )


cross_entropy: Loss = functional.cross_entropy
squared_error: Loss = functional.mse_loss
