"""XGBoost: the model after a round, where `TrainingCheckPoint` saves or we do; resumed with `xgb_model`."""

from __future__ import annotations

import functools
import importlib
import inspect
import os
from typing import Any

import specon
from specon.integrations.common import (
    Integration,
    Progress,
    Saved,
    failed,
    folder,
    lead,
    name_of,
    number,
    said,
    training_of,
    wrap_train,
)

IT = Integration("xgboost")
_MORE_IS_BETTER = ("auc", "aucpr", "pre", "map", "ndcg")  # as XGBoost's own early stopping has it


@functools.lru_cache(maxsize=None)
def _class() -> Any:  # noqa: C901  a class whose base is imported late
    xgboost: Any = importlib.import_module("xgboost")

    class SpeconCallback(xgboost.callback.TrainingCallback):  # type: ignore[misc]
        """Saves at the agreed round, names the checkpoint, and reports."""

        def __init__(self) -> None:
            super().__init__()
            self.folder: str | None = None
            self.total: int | None = None
            self._progress = Progress()
            self._saved = Saved()

        @IT.guarded
        def _begin(self, model: Any) -> None:
            specon.announce(f"xgboost {xgboost.__version__}")
            done = model.num_boosted_rounds()
            if done:
                specon.resumed(specon.resume_path(), done)

        def before_training(self, model: Any) -> Any:
            self._begin(model)
            return model

        def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
            self._after(model, evals_log)
            return False

        @IT.guarded
        def _after(self, model: Any, evals_log: Any) -> None:
            if self._progress.due():
                specon.report(model.num_boosted_rounds(), total=self.total, **_values(evals_log))
            if specon.checkpoint_requested():
                self._save(model)

        def _save(self, model: Any) -> None:
            step = model.num_boosted_rounds()
            place = self.folder or folder()
            path = os.path.join(place, f"{name_of(step, IT.trainings)}.ubj")
            try:
                if lead():
                    os.makedirs(place, exist_ok=True)
                    hidden = os.path.join(place, f".{os.path.basename(path)}")
                    model.save_model(hidden)
                    os.replace(hidden, path)
                    self._saved.add(path)
            except Exception as error:
                failed(error)
                return
            said(path, step)

    return SpeconCallback


def _values(log: Any) -> dict[str, float]:
    """Return the newest value of each metric, `train-rmse`; `loss` is the first where less is better."""
    found: dict[str, float] = {}
    for data, metrics in log.items():
        for metric, values in metrics.items():
            newest = values[-1]
            read = number(newest[0] if isinstance(newest, tuple) else newest)
            if read is not None:
                found[f"{data}-{metric}"] = read
                if not metric.startswith(_MORE_IS_BETTER):
                    found.setdefault("loss", read)
    return found


def callback() -> Any:
    """Return a callback for `xgboost.train(callbacks=[...])` and its estimators."""
    return _class()()


def patch(module: Any) -> None:
    """Give each training the callback, and the verified model where the script names none."""
    wrap_train(module, _give)


@IT.guarded
def _give(train: Any, arguments: Any, named: Any) -> Any:
    """Return the arguments with ours among them."""
    IT.trainings += 1
    signature = inspect.signature(train)
    # It warns of others than the first by position, and takes them.
    given = signature.bind(**dict(named, **dict(zip(signature.parameters, arguments))))
    callbacks = list(given.arguments.get("callbacks") or ())
    known = next((each for each in callbacks if isinstance(each, _class())), None)
    if known is None:
        known = callback()
        callbacks.append(known)
    for each in callbacks:
        if type(each).__name__ == "TrainingCheckPoint":
            known.folder = getattr(each, "_path", None)
    given.arguments["callbacks"] = callbacks
    rounds = given.arguments.get("num_boost_round", 10)
    known.total = rounds
    path = specon.resume_path()
    if path is not None and given.arguments.get("xgb_model") is None and training_of(path) == IT.trainings:
        framework: Any = importlib.import_module("xgboost")

        done = framework.Booster(model_file=path).num_boosted_rounds()
        given.arguments["xgb_model"] = path
        given.arguments["num_boost_round"] = max(0, rounds - done)
    return given
