"""Models of scikit-learn, trained piece by piece so that each report has its time."""

import warnings
from collections.abc import Iterator

import numpy as np
from sklearn.cluster import MiniBatchKMeans
from sklearn.datasets import load_breast_cancer, load_digits, make_classification, make_friedman1
from sklearn.decomposition import NMF, LatentDirichletAllocation
from sklearn.ensemble import GradientBoostingClassifier, GradientBoostingRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import SGDClassifier, SGDRegressor
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.preprocessing import scale

warnings.simplefilter("ignore", ConvergenceWarning)  # single iterations are intended


def perceptron(epochs: int, *, solver: str = "adam", rate: float = 1e-3, seed: int = 0) -> Iterator[float]:
    """Train an MLPClassifier on digits; yields its loss after each epoch."""
    features, labels = load_digits(return_X_y=True)
    model = MLPClassifier(hidden_layer_sizes=(32,), solver=solver, learning_rate_init=rate, random_state=seed)
    for _ in range(epochs):
        model.partial_fit(features / 16, labels, classes=range(10))
        yield float(model.loss_)


def regressor(epochs: int, *, rate: float = 1e-3, seed: int = 0) -> Iterator[float]:
    """Train an MLPRegressor on Friedman's problem; yields its loss after each epoch."""
    features, target = make_friedman1(n_samples=1000, noise=1.0, random_state=seed)
    model = MLPRegressor(hidden_layer_sizes=(32,), learning_rate_init=rate, random_state=seed)
    for _ in range(epochs):
        model.partial_fit(features, target)
        yield float(model.loss_)


def boosting(stages: int, *, rate: float, depth: int, share: float = 1.0, seed: int = 0) -> Iterator[float]:
    """Grow a GradientBoostingClassifier; yields its training deviance after each tree."""
    features, labels = load_breast_cancer(return_X_y=True)
    model = GradientBoostingClassifier(
        learning_rate=rate, max_depth=depth, subsample=share, random_state=seed, warm_start=True
    )
    for stage in range(1, stages + 1):
        model.set_params(n_estimators=stage)
        model.fit(features, labels)
        yield float(model.train_score_[-1])


def held_out_boosting(stages: int, *, rate: float, depth: int, seed: int = 0) -> Iterator[float]:
    """Grow a GradientBoostingRegressor; yields its squared error on held-out rows after each tree."""
    features, target = make_friedman1(n_samples=800, noise=2.0, random_state=seed)
    inside, outside, wanted, truth = train_test_split(features, target, random_state=seed)
    model = GradientBoostingRegressor(learning_rate=rate, max_depth=depth, random_state=seed, warm_start=True)
    for stage in range(1, stages + 1):
        model.set_params(n_estimators=stage)
        model.fit(inside, wanted)
        yield float(np.mean((model.predict(outside) - truth) ** 2))


def linear(epochs: int, *, rate: str, eta: float, report: str = "loss", seed: int = 0) -> Iterator[float]:
    """Train a logistic SGDClassifier; yields its log loss or its accuracy on held-out rows, per pass."""
    features, labels = make_classification(
        n_samples=1500, n_features=30, n_informative=12, n_classes=3, flip_y=0.05, random_state=seed
    )
    inside, outside, wanted, truth = train_test_split(scale(features), labels, random_state=seed)
    model = SGDClassifier(loss="log_loss", learning_rate=rate, eta0=eta, random_state=seed)
    for _ in range(epochs):
        model.partial_fit(inside, wanted, classes=[0, 1, 2])
        if report == "loss":
            yield float(log_loss(wanted, model.predict_proba(inside)))
        else:
            yield float(model.score(outside, truth))


def linear_regression(batches: int, *, eta: float, seed: int = 0) -> Iterator[float]:
    """Train an SGDRegressor by batches of 20 rows; yields the squared error on each before it is learnt."""
    random = np.random.default_rng(seed)
    weights = random.normal(size=40)
    model = SGDRegressor(learning_rate="constant", eta0=eta, random_state=seed)
    model.partial_fit(np.zeros((1, 40)), [0.0])
    for _ in range(batches):
        features = random.normal(size=(20, 40))
        target = features @ weights + random.normal(size=20)
        yield float(np.mean((model.predict(features) - target) ** 2))
        model.partial_fit(features, target)


def clusters(batches: int, *, count: int, seed: int = 0) -> Iterator[float]:
    """Fit MiniBatchKMeans on digits; yields the inertia of the whole set after each batch."""
    features, _ = load_digits(return_X_y=True)
    random = np.random.default_rng(seed)
    model = MiniBatchKMeans(count, n_init=1, init="random", random_state=seed)
    for _ in range(batches):
        model.partial_fit(features[random.integers(len(features), size=64)])
        yield -float(model.score(features))


def factors(iterations: int, *, count: int, seed: int = 0) -> Iterator[float]:
    """Factorise digits with multiplicative updates; yields the reconstruction error."""
    features, _ = load_digits(return_X_y=True)
    random = np.random.default_rng(seed)
    left, right = random.random((len(features), count)) * 3, random.random((count, features.shape[1]))
    model = NMF(count, init="custom", solver="mu", max_iter=1, random_state=seed)
    for _ in range(iterations):
        left = model.fit_transform(features, W=left, H=right)
        right = model.components_
        yield float(model.reconstruction_err_)


def topics(batches: int, *, count: int, seed: int = 0) -> Iterator[float]:
    """Fit latent topics online; yields the perplexity of the whole set."""
    features, _ = load_digits(return_X_y=True)
    random = np.random.default_rng(seed)
    model = LatentDirichletAllocation(count, random_state=seed)
    for _ in range(batches):
        model.partial_fit(features[random.integers(len(features), size=64)])
        yield float(model.perplexity(features[:200]))
