"""Runs of scikit-learn's models and of this repository's samples."""

from collections.abc import Iterator
from functools import partial

from train import scikit
from train.recipe import Recipe
from train.samples import sample


def recipes() -> Iterator[Recipe]:
    """Yield the runs."""
    yield from _scikit()
    yield from _samples()


def _scikit() -> Iterator[Recipe]:
    for seed, (epochs, solver, rate) in enumerate(
        [(200, "adam", 1e-3), (60, "adam", 1e-3), (120, "sgd", 0.05), (40, "adam", 5e-3), (150, "sgd", 0.2)]
    ):
        yield Recipe(
            family="sklearn-perceptron",
            name=f"classifier-{solver}-{rate:g}-{epochs}",
            reports=epochs,
            train=partial(scikit.perceptron, epochs, solver=solver, rate=rate, seed=seed),
        )
    for seed, (epochs, rate) in enumerate([(200, 1e-3), (80, 1e-2), (30, 1e-2)]):
        yield Recipe(
            family="sklearn-perceptron",
            name=f"regressor-{rate:g}-{epochs}",
            reports=epochs,
            train=partial(scikit.regressor, epochs, rate=rate, seed=seed),
        )
    for seed, (stages, rate, depth, share) in enumerate(
        [(300, 0.1, 2, 1.0), (150, 0.05, 3, 0.5), (500, 0.02, 2, 1.0), (60, 0.1, 3, 1.0)]
    ):
        yield Recipe(
            family="boosting",
            name=f"classifier-{rate:g}-{depth}-{share:g}-{stages}",
            reports=stages,
            train=partial(scikit.boosting, stages, rate=rate, depth=depth, share=share, seed=seed),
        )
    for seed, (stages, rate, depth) in enumerate([(200, 0.1, 2), (400, 0.05, 2), (100, 0.1, 3)]):
        yield Recipe(
            family="boosting",
            name=f"held-out-{rate:g}-{depth}-{stages}",
            reports=stages,
            train=partial(scikit.held_out_boosting, stages, rate=rate, depth=depth, seed=seed),
        )
    for seed, (epochs, schedule, eta, report) in enumerate(
        [
            (100, "optimal", 0.01, "loss"),
            (60, "constant", 0.003, "loss"),
            (200, "invscaling", 0.05, "loss"),
            (150, "constant", 0.0003, "loss"),
            (120, "constant", 0.001, "accuracy"),
        ]
    ):
        yield Recipe(
            family="linear",
            name=f"classifier-{schedule}-{eta:g}-{report}-{epochs}",
            reports=epochs,
            goal="min" if report == "loss" else "max",
            train=partial(scikit.linear, epochs, rate=schedule, eta=eta, report=report, seed=seed),
        )
    for seed, (batches, eta) in enumerate([(600, 0.001), (1200, 0.0005), (400, 0.01)]):
        yield Recipe(
            family="linear",
            name=f"regression-{eta:g}-{batches}",
            reports=batches,
            train=partial(scikit.linear_regression, batches, eta=eta, seed=seed),
        )
    for seed, (kind, count, length) in enumerate(
        [
            ("clusters", 10, 150),
            ("clusters", 40, 400),
            ("factors", 10, 200),
            ("factors", 20, 100),
            ("factors", 16, 500),
            ("topics", 8, 80),
        ]
    ):
        yield Recipe(
            family="unsupervised",
            name=f"{kind}-{count}-{length}",
            reports=length,
            train=partial(getattr(scikit, kind), length, count=count, seed=seed),
        )


def _samples() -> Iterator[Recipe]:
    for seed, (script, steps, rate, batch) in enumerate(
        [
            ("vae.py", 1500, None, 64),
            ("vae.py", 500, None, 128),
            ("rnn.py", 600, None, 64),
            ("rnn.py", 1000, 1e-3, 64),
            ("gru.py", 500, None, 64),
            ("gru.py", 900, 1e-3, 64),
            ("gru.py", 900, 1e-2, 64),
            ("bidirectional_rnn.py", 500, None, 64),
            ("bidirectional_rnn.py", 700, 1e-3, 64),
            ("dynamic_rnn.py", 500, None, 64),
            ("dynamic_rnn.py", 700, 1e-2, 64),
        ]
    ):
        model = script.removesuffix(".py").replace("_", "-")
        yield Recipe(
            family="samples-1" if script in {"vae.py", "rnn.py"} else "samples-2",
            name=f"{model}-{steps}-{batch}" + ("" if rate is None else f"-{rate:g}"),
            reports=steps,
            train=partial(sample, script, steps, rate=rate, batch=batch, seed=seed),
        )
