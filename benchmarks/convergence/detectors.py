"""The classifiers under test, and the rules they are compared with: views in, converged or not out."""

import math
from collections import deque
from collections.abc import Callable
from statistics import pstdev
from typing import Final, Literal

from replay import View

from specon_sidecar.classify import Category, ClassifierSettings
from specon_sidecar.classify.horizon import judge_by_horizon
from specon_sidecar.classify.judgement import begin
from specon_sidecar.classify.specon import judge

Detector = Callable[[View], bool]
Goal = Literal["min", "max"]
Maker = Callable[[Goal], Detector]


def specon(settings: ClassifierSettings) -> Detector:
    """Return SpeCon's Algorithm 1."""
    judgement = begin(0.0, settings)

    def detect(view: View) -> bool:
        nonlocal judgement
        judgement = judge(judgement, view.interval, view.now, settings)
        return judgement.category is Category.CONVERGED

    return detect


def horizon(settings: ClassifierSettings) -> Detector:
    """Return the classifier `horizon`."""
    judgement = begin(0.0, settings)

    def detect(view: View) -> bool:
        nonlocal judgement
        judgement = judge_by_horizon(
            judgement, view.interval, view.curve.values, view.curve.done, now=view.now, settings=settings
        )
        return judgement.category is Category.CONVERGED

    return detect


def early_stopping(goal: Goal, patience: int = 10) -> Detector:
    """Return the rule of Keras, PyTorch Lightning and others: no new best for so many intervals in a row."""
    best, since = math.inf, 0

    def detect(view: View) -> bool:
        nonlocal best, since
        value = view.interval.value
        if value is None:
            return since >= patience
        value = value if goal == "min" else -value
        best, since = (value, 0) if value < best else (best, since + 1)
        return since >= patience

    return detect


def trial_plateau(count: int = 4, deviation: float = 0.01) -> Detector:
    """Return the rule of Ray Tune's TrialPlateauStopper: a bound on the spread of the last values."""
    values: deque[float] = deque(maxlen=count)
    seen = 0

    def detect(view: View) -> bool:
        nonlocal seen
        if view.interval.value is not None:
            values.append(view.interval.value)
            seen += 1
        return seen > count and pstdev(values) < deviation

    return detect


def largest_change(share: float = 0.01) -> Detector:
    """Return a rule like that of SLAQ: two changes in a row below a share of the largest change so far."""
    last, largest, quiet = math.nan, 0.0, 0

    def detect(view: View) -> bool:
        nonlocal last, largest, quiet
        value = view.interval.value
        if value is not None:
            change = abs(value - last)
            if change == change:  # noqa: PLR0124 - not NaN: the first value has no change
                largest = max(largest, change)
                quiet = quiet + 1 if change < share * largest else 0
            last = value
        return quiet >= 2

    return detect


def clock(share: float) -> Detector:
    """Return the rule that looks at no value: converged once so much of the steps are done."""
    return lambda view: view.curve.done is not None and view.curve.done >= share


_HORIZON: Final[dict[str, Maker]] = {
    "horizon, 2 %": lambda goal: horizon(ClassifierSettings(goal=goal, remaining_gain=0.02)),
    "horizon, 5 %": lambda goal: horizon(ClassifierSettings(goal=goal, remaining_gain=0.05)),
}
WITH_TOTAL: Final[dict[str, Maker]] = {
    **_HORIZON,
    "clock 70 %": lambda _: clock(0.7),
    "clock 80 %": lambda _: clock(0.8),
    "clock 90 %": lambda _: clock(0.9),
}
WITHOUT_TOTAL: Final[dict[str, Maker]] = {
    **{f"{name}, no total": make for name, make in _HORIZON.items()},
    "SpeCon, first, 1 %": lambda goal: specon(ClassifierSettings(goal=goal, alpha=0.01)),
    "SpeCon, first, 5 %": lambda goal: specon(ClassifierSettings(goal=goal, alpha=0.05)),
    "SpeCon, range, 1 %": lambda goal: specon(ClassifierSettings(goal=goal, alpha=0.01, scale="range")),
    "SpeCon, range, 5 %": lambda goal: specon(ClassifierSettings(goal=goal, alpha=0.05, scale="range")),
    "SLAQ-like, 1 %": lambda _: largest_change(),
    "EarlyStopping(10)": early_stopping,
    "TrialPlateauStopper": lambda _: trial_plateau(),
}
