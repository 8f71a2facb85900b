"""LightGBM: the model after a round, in the job's folder of checkpoints; resumed with `init_model`."""

from __future__ import annotations

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

IT = Integration("lightgbm")
_ROUNDS = (  # names of num_iterations that a script may use among its parameters
    "num_iterations",
    "num_iteration",
    "n_iter",
    "num_tree",
    "num_trees",
    "num_round",
    "num_rounds",
    "nrounds",
    "num_boost_round",
    "n_estimators",
    "max_iter",
)


class SpeconCallback:
    """Saves at the agreed round, names the checkpoint, and reports."""

    order = 40  # after those that print and record, as LightGBM's own go from 10 to 30
    before_iteration = False

    def __init__(self) -> None:
        self._begun = False
        self._progress = Progress()
        self._saved = Saved()

    def __call__(self, env: Any) -> None:
        """Be called after each round."""
        self._look(env)

    @IT.guarded
    def _look(self, env: Any) -> None:
        if not self._begun:
            self._begun = True
            lightgbm: Any = importlib.import_module("lightgbm")

            specon.announce(f"lightgbm {lightgbm.__version__}")
            if env.begin_iteration:
                specon.resumed(specon.resume_path(), env.begin_iteration)
        step = env.iteration + 1
        if self._progress.due():
            specon.report(step, total=env.end_iteration, **_values(env.evaluation_result_list))
        if specon.checkpoint_requested():
            self._save(env.model, step)

    def _save(self, model: Any, step: int) -> None:
        path = os.path.join(folder(), f"{name_of(step, IT.trainings)}.txt")
        try:
            if lead():
                os.makedirs(folder(), exist_ok=True)
                hidden = os.path.join(folder(), f".{os.path.basename(path)}")
                model.save_model(hidden, num_iteration=-1)
                os.replace(hidden, path)
                self._saved.add(path)
        except Exception as error:
            failed(error)
            return
        said(path, step)


def _values(results: Any) -> dict[str, float]:
    """Return the values of a round by data and metric; `loss` is the first where less is better."""
    found: dict[str, float] = {}
    for data, metric, value, more_is_better, *_ in results or ():
        read = number(value)
        if read is not None:
            found[f"{data}-{metric}"] = read
            if not more_is_better:
                found.setdefault("loss", read)
    return found


def callback() -> Any:
    """Return a callback for `lightgbm.train(callbacks=[...])` and its estimators."""
    return SpeconCallback()


def patch(module: Any) -> None:
    """Give each training the callback, and the verified model where the script names none."""
    wrap_train(module, _give)


@IT.guarded
def _give(train: Any, arguments: Any, named: Any) -> Any:
    """Return the arguments with ours among them."""
    IT.trainings += 1
    given = inspect.signature(train).bind(*arguments, **named)
    callbacks = list(given.arguments.get("callbacks") or ())
    if not any(isinstance(each, SpeconCallback) for each in callbacks):
        callbacks.append(SpeconCallback())
    given.arguments["callbacks"] = callbacks
    path = specon.resume_path()
    if path is None or given.arguments.get("init_model") is not None or training_of(path) != IT.trainings:
        return given
    framework: Any = importlib.import_module("lightgbm")

    done = framework.Booster(model_file=path).current_iteration()
    parameters = dict(given.arguments.get("params") or {})
    rounds: int | None = next((parameters.pop(name) for name in _ROUNDS if name in parameters), None)
    if rounds is None:
        rounds = given.arguments.get("num_boost_round", 100)
    if int(rounds) > done:
        given.arguments.update(params=parameters, num_boost_round=int(rounds) - done, init_model=path)
    return given
