"""What a trainer says to specon, and is asked by it: checkpoints on request, progress, where to go on from.

Each call does nothing where there is no sidecar (`SPECON_SOCKET` is not set), raises nothing, and waits only
where its description says so. A loop of your own needs a few lines:

    step = load(specon.resume_path()) if specon.resume_path() else 0
    ...
        specon.report(step, loss=loss, total=steps)
        if specon.checkpoint_requested():
            specon.saved(save(step), step)

In a distributed job call each of them on every rank, at the same step.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from specon.helper import (
    announce,
    checkpoint_requested,
    enabled,
    refused,
    report,
    resume_path,
    resume_step,
    resumed,
    saved,
)

if TYPE_CHECKING:
    from typing import Any, Callable

__all__ = [
    "announce",
    "checkpoint_requested",
    "enabled",
    "hugging_face",
    "keras",
    "lightgbm",
    "lightning",
    "pytorch",
    "refused",
    "report",
    "resume_path",
    "resume_step",
    "resumed",
    "saved",
    "xgboost",
]


def hugging_face() -> Any:
    """Return a callback for the Trainer of `transformers` and its subclasses."""
    return _callback("hugging_face")


def lightning() -> Any:
    """Return a callback for the Trainer of Lightning."""
    return _callback("lightning")


def keras() -> Any:
    """Return a callback for `fit` of Keras 3."""
    return _callback("keras")


def xgboost() -> Any:
    """Return a callback for `train` of XGBoost."""
    return _callback("xgboost")


def lightgbm() -> Any:
    """Return a callback for `train` of LightGBM."""
    return _callback("lightgbm")


def pytorch(save: Callable[[int], Any]) -> Callable[..., None]:
    """Return what a loop in PyTorch calls after each step, on every rank: `after(step, loss=..., total=...)`.

    `save(step)` saves, and returns the path; it is called where specon asks for a checkpoint.
    """
    from specon.integrations.torch_ import pytorch as made  # noqa: PLC0415 - as below

    return made(save)


def _callback(name: str) -> Any:
    from importlib import import_module  # noqa: PLC0415 - a loop of one's own needs none

    return import_module("specon.integrations." + name).callback()
