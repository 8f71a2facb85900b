"""Curves that no loss threshold fits: an adversarial pair, and a policy learnt from rewards."""

from collections.abc import Iterator

import torch
from torch import Generator, nn
from torch.nn import functional

from train.data import digits
from train.optimisation import optimiser


def adversarial(steps: int, rate: float, *, seed: int = 0) -> Iterator[float]:
    """Train a generator of digits against a critic; yields the generator's loss."""
    torch.manual_seed(seed)
    generator = Generator().manual_seed(seed)
    images, _ = digits()
    maker = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 64), nn.Sigmoid())
    critic = nn.Sequential(nn.Linear(64, 64), nn.LeakyReLU(0.2), nn.Linear(64, 1))
    making, judging = optimiser("adam", maker, rate), optimiser("adam", critic, rate)
    for _ in range(steps):
        real = images[torch.randint(len(images), (64,), generator=generator)]
        made = maker(torch.randn(64, 8, generator=generator))
        judging.zero_grad()
        fooled = (functional.softplus(-critic(real)) + functional.softplus(critic(made.detach()))).mean()
        fooled.backward()  # type: ignore[no-untyped-call]  # PyTorch leaves it without annotations
        judging.step()
        making.zero_grad()
        loss = functional.softplus(-critic(made)).mean()
        loss.backward()  # type: ignore[no-untyped-call]  # PyTorch leaves it without annotations
        making.step()
        yield loss.item()


def bandit(steps: int, rate: float, *, arms: int = 20, seed: int = 0) -> Iterator[float]:
    """Learn which arm pays best in each of eight contexts by policy gradient; yields the mean reward."""
    torch.manual_seed(seed)
    generator = Generator().manual_seed(seed)
    pays = torch.rand(8, arms, generator=generator)
    policy = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, arms))
    used = optimiser("adam", policy, rate)
    baseline = 0.5
    for _ in range(steps):
        context = torch.randint(8, (32,), generator=generator)
        logs = functional.log_softmax(policy(functional.one_hot(context, 8).float()), 1)
        arm = torch.multinomial(logs.exp().detach(), 1, generator=generator)[:, 0]
        reward = pays[context, arm] + 0.3 * torch.randn(32, generator=generator)
        used.zero_grad()
        loss = -((reward - baseline) * logs[torch.arange(32), arm]).mean()
        loss.backward()  # type: ignore[no-untyped-call]  # PyTorch leaves it without annotations
        used.step()
        baseline = 0.9 * baseline + 0.1 * reward.mean().item()
        yield reward.mean().item()
