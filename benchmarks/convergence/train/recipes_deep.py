"""Runs of convolutions, autoencoders, sequence models and games."""

from collections.abc import Iterator
from functools import partial

from train.data import digits, noisy
from train.games import adversarial, bandit
from train.recipe import Recipe
from train.sequences import adding, language, word_vectors
from train.supervised import convolutional, cross_entropy, mlp, squared_error, supervised


def recipes() -> Iterator[Recipe]:
    """Yield the runs."""
    yield from _convolutions()
    yield from _autoencoders()
    yield from _sequences()
    yield from _games()


def _convolutions() -> Iterator[Recipe]:
    images, labels = digits()
    for seed, (optimizer, rate, plan, batch, noise, steps, every, report) in enumerate(
        [
            ("momentum", 0.05, "cosine", 32, 0.0, 800, 1, "loss"),
            ("momentum", 0.05, "thirds", 32, 0.2, 1200, 1, "loss"),
            ("adam", 1e-3, "constant", 32, 0.0, 1000, 1, "loss"),
            ("adam", 3e-3, "cycle", 64, 0.1, 700, 1, "loss"),
            ("adam", 3e-3, "restarts", 64, 0.2, 1200, 1, "loss"),
            ("momentum", 0.1, "restarts", 32, 0.1, 1000, 10, "loss"),
            ("sgd", 0.3, "late", 16, 0.3, 1500, 10, "loss"),
            ("momentum", 0.1, "half", 16, 0.3, 1200, 20, "loss"),
            ("adamw", 1e-3, "warm-cosine", 64, 0.0, 600, 5, "loss"),
            ("adam", 3e-3, "constant", 64, 0.0, 1500, 25, "loss"),
            ("adam", 1e-3, "constant", 64, 0.0, 800, 1, "accuracy"),
            ("momentum", 0.02, "cosine", 64, 0.1, 1000, 20, "accuracy"),
        ]
    ):
        data = images, noisy(labels, noise, seed)
        yield Recipe(
            family="convolution",
            name=f"{optimizer}-{rate:g}-{plan}-{batch}-noise-{noise:g}-{report}-{steps}-{every}",
            reports=steps // every,
            goal="max" if report == "accuracy" else "min",
            train=partial(
                supervised,
                convolutional,
                data,
                cross_entropy,
                steps=steps,
                optimizer=optimizer,
                rate=rate,
                schedule=plan,
                batch=batch,
                every=every,
                seed=seed,
                report=report,
            ),
        )
    for seed, (rate, steps, noise) in enumerate([(1e-3, 1000, 0.0), (3e-3, 1000, 0.2), (1e-3, 400, 0.1)]):
        data = images, noisy(labels, noise, seed)
        yield Recipe(
            family="validation",
            name=f"adam-{rate:g}-noise-{noise:g}-{steps}",
            reports=steps // 10,
            train=partial(
                supervised,
                mlp(64, 64, 10),
                data,
                cross_entropy,
                steps=steps,
                rate=rate,
                every=10,
                seed=seed,
                report="validation",
            ),
        )


def _autoencoders() -> Iterator[Recipe]:
    images, _ = digits()
    for seed, (width, scale, optimizer, rate, schedule, batch, steps) in enumerate(
        [
            (8, 1.0, "adam", 1e-3, "constant", 64, 1500),
            (8, 1.0, "adam", 1e-2, "linear", 64, 800),
            (16, 6.0, "adam", 3e-3, "constant", 64, 1500),
            (16, 8.0, "adam", 1e-2, "cosine", 32, 1000),
            (4, 1.0, "momentum", 0.3, "constant", 32, 1200),
            (16, 4.0, "rmsprop", 3e-3, "thirds", 64, 900),
            (32, 1.0, "adagrad", 0.02, "constant", 128, 1000),
        ]
    ):
        yield Recipe(
            family="autoencoder",
            name=f"{width}-{scale:g}-{optimizer}-{rate:g}-{schedule}-{batch}-{steps}",
            reports=steps,
            train=partial(
                supervised,
                mlp(64, 32, width, 32, 64, scale=scale),
                (images, images),
                squared_error,
                steps=steps,
                optimizer=optimizer,
                rate=rate,
                schedule=schedule,
                batch=batch,
                seed=seed,
            ),
        )


def _sequences() -> Iterator[Recipe]:
    for seed, (steps, rate, schedule, layers, batch) in enumerate(
        [
            (1500, 3e-3, "warm-cosine", 1, 8),
            (1000, 3e-3, "warm-cosine", 2, 8),
            (800, 1e-3, "constant", 1, 8),
            (1200, 1e-2, "warm", 1, 4),
            (1000, 3e-3, "linear", 1, 16),
            (1200, 5e-3, "inverse-root", 1, 8),
        ]
    ):
        yield Recipe(
            family="language",
            name=f"{rate:g}-{schedule}-{layers}-{batch}-{steps}",
            reports=steps,
            train=partial(language, steps, rate, schedule, layers=layers, batch=batch, seed=seed),
        )
    for seed, (steps, rate, length, every) in enumerate(
        [(1500, 5e-3, 20, 1), (1500, 1e-2, 30, 10), (1200, 1e-2, 12, 1), (800, 3e-3, 20, 10)]
    ):
        yield Recipe(
            family="adding",
            name=f"{rate:g}-{length}-{steps}-{every}",
            reports=steps // every,
            train=partial(adding, steps, rate, length=length, every=every, seed=seed),
        )
    for seed, (steps, rate, batch) in enumerate([(1500, 1e-2, 64), (1000, 3e-2, 32), (1500, 3e-3, 128)]):
        yield Recipe(
            family="word-vectors",
            name=f"{rate:g}-{batch}-{steps}",
            reports=steps,
            train=partial(word_vectors, steps, rate, batch=batch, seed=seed),
        )


def _games() -> Iterator[Recipe]:
    for seed, (steps, rate) in enumerate([(1000, 1e-3), (1000, 3e-3)]):
        yield Recipe(
            family="adversarial",
            name=f"{rate:g}-{steps}",
            reports=steps,
            train=partial(adversarial, steps, rate, seed=seed),
        )
    for seed, (steps, rate, arms) in enumerate([(1500, 1e-2, 20), (1000, 3e-2, 10), (800, 3e-3, 20)]):
        yield Recipe(
            family="bandit",
            name=f"{rate:g}-{arms}-{steps}",
            reports=steps,
            goal="max",
            train=partial(bandit, steps, rate, arms=arms, seed=seed),
        )
