"""Data sets that need no download, as tensors."""

import argparse
from functools import cache
from inspect import getsource

import torch
from sklearn.datasets import load_diabetes, load_digits, make_friedman1
from torch import Generator, Tensor

CLASSES = 10


@cache
def digits() -> tuple[Tensor, Tensor]:
    """Return images, shape (1797, 64) in 0 to 1, and labels."""
    images, labels = load_digits(return_X_y=True)
    return torch.tensor(images, dtype=torch.float32) / 16, torch.tensor(labels)


def noisy(labels: Tensor, share: float, seed: int) -> Tensor:
    """Return the labels with a share of them replaced by random ones."""
    generator = Generator().manual_seed(seed)
    wrong = torch.rand(len(labels), generator=generator) < share
    others = torch.randint(CLASSES, labels.shape, generator=generator)
    return torch.where(wrong, others, labels)


@cache
def friedman() -> tuple[Tensor, Tensor]:
    """Return Friedman's first regression problem, 2000 rows of 10 features."""
    features, target = make_friedman1(n_samples=2000, noise=1.0, random_state=0)
    return torch.tensor(features, dtype=torch.float32), torch.tensor(target, dtype=torch.float32)[:, None]


@cache
def diabetes() -> tuple[Tensor, Tensor]:
    """Return the diabetes data, targets in their own unit (25 to 346): the first losses are huge."""
    features, target = load_diabetes(return_X_y=True)
    return torch.tensor(features, dtype=torch.float32), torch.tensor(target, dtype=torch.float32)[:, None]


@cache
def characters() -> tuple[Tensor, int]:
    """Return the text of a module of the standard library as character numbers, and their count."""
    text = getsource(argparse)
    alphabet = sorted(set(text))
    number = {character: index for index, character in enumerate(alphabet)}
    return torch.tensor([number[character] for character in text]), len(alphabet)
