"""Optimisers and learning-rate schedules by name."""

import math
from collections.abc import Callable

import torch
from torch import nn
from torch.optim.lr_scheduler import LambdaLR


def optimiser(name: str, model: nn.Module, rate: float) -> torch.optim.Optimizer:
    """Return the optimiser of that name."""
    parameters = model.parameters()
    if name == "sgd":
        return torch.optim.SGD(parameters, lr=rate)
    if name == "momentum":
        return torch.optim.SGD(parameters, lr=rate, momentum=0.9)
    if name == "rmsprop":
        return torch.optim.RMSprop(parameters, lr=rate)
    if name == "adagrad":
        return torch.optim.Adagrad(parameters, lr=rate)
    if name == "adamw":
        return torch.optim.AdamW(parameters, lr=rate)
    return torch.optim.Adam(parameters, lr=rate)


def schedule(name: str, steps: int) -> Callable[[int], float]:
    """Return the factor of the learning rate by step."""

    def cosine(step: int) -> float:
        return (1 + math.cos(math.pi * step / steps)) / 2

    def warm_cosine(step: int) -> float:
        warm = steps // 10
        return (step + 1) / warm if step < warm else cosine(step)

    def restarts(step: int) -> float:
        period = steps // 4 + 1
        return (1 + math.cos(math.pi * (step % period) / period)) / 2

    schedules: dict[str, Callable[[int], float]] = {
        "constant": lambda _: 1.0,
        "cosine": cosine,
        "warm-cosine": warm_cosine,
        "warm": lambda step: min(1.0, (step + 1) / (steps // 8)),
        "restarts": restarts,
        "linear": lambda step: 1 - step / steps,
        "inverse-root": lambda step: (1 + step / 50) ** -0.5,
        "half": lambda step: 0.1 ** (step >= steps // 2),
        "thirds": lambda step: 0.1 ** (3 * step // steps),
        "late": lambda step: 0.1 ** ((step >= 0.6 * steps) + (step >= 0.85 * steps)),
        "cycle": lambda step: 4 * step / steps if step < steps // 4 else 4 / 3 * (1 - step / steps) + 1e-3,
    }
    return schedules[name]


def scheduler(name: str, used: torch.optim.Optimizer, steps: int) -> LambdaLR:
    """Return the scheduler of that name."""
    return LambdaLR(used, schedule(name, steps))
