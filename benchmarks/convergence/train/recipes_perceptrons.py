"""Runs of perceptrons on tables of examples, good ones and broken ones."""

from collections.abc import Iterator
from functools import partial

from train.data import diabetes, digits, friedman, noisy
from train.recipe import Recipe
from train.supervised import cross_entropy, mlp, squared_error, supervised


def recipes() -> Iterator[Recipe]:
    """Yield the runs."""
    yield from _perceptrons()
    yield from _step_rates()
    yield from _regressions()
    yield from _broken()


def _perceptrons() -> Iterator[Recipe]:
    images, labels = digits()
    for seed, (optimizer, rate, schedule, batch, noise, steps) in enumerate(
        [
            ("sgd", 0.1, "constant", 32, 0.0, 1500),
            ("sgd", 0.5, "constant", 128, 0.0, 800),
            ("momentum", 0.01, "constant", 64, 0.2, 1200),
            ("momentum", 0.05, "cosine", 32, 0.0, 600),
            ("adam", 1e-3, "constant", 16, 0.0, 1500),
            ("adam", 3e-3, "constant", 128, 0.3, 1000),
            ("adam", 1e-3, "linear", 64, 0.1, 1500),
            ("rmsprop", 1e-3, "constant", 64, 0.0, 700),
            ("adagrad", 0.02, "constant", 64, 0.2, 1500),
            ("adamw", 3e-4, "constant", 64, 0.0, 400),
            ("adam", 3e-3, "warm-cosine", 16, 0.4, 900),
            ("sgd", 0.3, "inverse-root", 64, 0.1, 1400),
            ("adam", 1e-2, "warm", 64, 0.0, 500),
            ("momentum", 0.02, "constant", 8, 0.2, 1500),
        ]
    ):
        data = images, noisy(labels, noise, seed)
        yield Recipe(
            family="perceptron",
            name=f"{optimizer}-{rate:g}-{schedule}-{batch}-noise-{noise:g}-{steps}",
            reports=steps,
            train=partial(
                supervised,
                mlp(64, 48, 10),
                data,
                cross_entropy,
                steps=steps,
                optimizer=optimizer,
                rate=rate,
                schedule=schedule,
                batch=batch,
                seed=seed,
            ),
        )
    for seed, (optimizer, rate, schedule, batch, steps) in enumerate(
        [
            ("adam", 1e-3, "constant", 64, 1200),
            ("momentum", 0.02, "cosine", 32, 800),
            ("sgd", 0.1, "constant", 128, 1500),
            ("adam", 3e-3, "thirds", 64, 600),
        ]
    ):
        yield Recipe(
            family="accuracy",
            name=f"{optimizer}-{rate:g}-{schedule}-{batch}-{steps}",
            reports=steps,
            goal="max",
            train=partial(
                supervised,
                mlp(64, 48, 10),
                digits(),
                cross_entropy,
                steps=steps,
                optimizer=optimizer,
                rate=rate,
                schedule=schedule,
                batch=batch,
                seed=seed,
                report="accuracy",
            ),
        )


def _step_rates() -> Iterator[Recipe]:
    images, labels = digits()
    for seed, (optimizer, rate, schedule, noise, batch, steps) in enumerate(
        [
            ("momentum", 0.1, "half", 0.2, 32, 1200),
            ("momentum", 0.15, "thirds", 0.1, 16, 1500),
            ("sgd", 0.6, "late", 0.2, 16, 1400),
            ("adam", 0.02, "half", 0.1, 32, 1000),
            ("adam", 0.03, "thirds", 0.0, 32, 900),
            ("rmsprop", 0.01, "late", 0.1, 64, 1200),
        ]
    ):
        data = images, noisy(labels, noise, seed)
        yield Recipe(
            family="step-rates",
            name=f"{optimizer}-{rate:g}-{schedule}-{batch}-{steps}",
            reports=steps,
            train=partial(
                supervised,
                mlp(64, 32, 10),
                data,
                cross_entropy,
                steps=steps,
                optimizer=optimizer,
                rate=rate,
                schedule=schedule,
                batch=batch,
                seed=seed,
            ),
        )


def _regressions() -> Iterator[Recipe]:
    for seed, (problem, sizes, scale, optimizer, rate, plan, batch, steps) in enumerate(
        [
            ("friedman", (10, 32, 1), 1.0, "adam", 3e-3, "constant", 64, 1500),
            ("friedman", (10, 32, 1), 1.0, "adam", 1e-2, "cosine", 32, 1000),
            ("friedman", (10, 1), 1.0, "sgd", 0.02, "constant", 2000, 800),
            ("friedman", (10, 32, 32, 1), 4.0, "adam", 3e-3, "constant", 64, 1200),
            ("friedman", (10, 32, 32, 1), 5.0, "adam", 1e-2, "half", 64, 900),
            ("diabetes", (10, 32, 1), 1.0, "adam", 1e-2, "constant", 442, 1500),
            ("diabetes", (10, 1), 1.0, "sgd", 0.3, "constant", 442, 1200),
            ("diabetes", (10, 32, 1), 1.0, "adam", 3e-2, "linear", 64, 700),
        ]
    ):
        yield Recipe(
            family="regression",
            name=f"{problem}-{len(sizes)}-{scale:g}-{optimizer}-{rate:g}-{plan}-{batch}-{steps}",
            reports=steps,
            train=partial(
                supervised,
                mlp(*sizes, scale=scale),
                friedman() if problem == "friedman" else diabetes(),
                squared_error,
                steps=steps,
                optimizer=optimizer,
                rate=rate,
                schedule=plan,
                batch=batch,
                seed=seed,
            ),
        )


def _broken() -> Iterator[Recipe]:
    images, labels = digits()
    random = images, noisy(labels, 1.0, 0)
    for family, name, data, sizes, optimizer, rate, batch, steps in (
        ("broken-1", "rate-too-small", (images, labels), (64, 32, 10), "sgd", 1e-7, 64, 600),
        ("broken-1", "labels-random", random, (64, 8, 10), "sgd", 1e-3, 64, 800),
        ("broken-1", "not-finite", friedman(), (10, 1), "sgd", 0.5, 64, 400),
        ("broken-2", "rate-too-small", (images, labels), (64, 32, 10), "adam", 1e-8, 32, 900),
        ("broken-2", "labels-random", random, (64, 4, 10), "momentum", 1e-4, 32, 1200),
        ("broken-2", "rising", friedman(), (10, 1), "sgd", 0.3, 2000, 400),
        ("broken-2", "not-finite", diabetes(), (10, 1), "sgd", 1.5, 64, 400),
        ("broken-2", "rate-too-large", (images, labels), (64, 32, 10), "adam", 1.0, 64, 700),
    ):
        loss = squared_error if data[1].is_floating_point() else cross_entropy
        yield Recipe(
            family=family,
            name=f"{name}-{optimizer}-{rate:g}",
            reports=steps,
            train=partial(
                supervised, mlp(*sizes), data, loss, steps=steps, optimizer=optimizer, rate=rate, batch=batch
            ),
        )
