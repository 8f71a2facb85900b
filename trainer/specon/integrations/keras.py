"""Keras 3: what its `BackupAndRestore` writes and reads, of any batch; on the PyTorch backend to the bit.

Keras's own callback goes on from the begin of an epoch. Beside its two files ours keeps how many batches of
the epoch were trained, so that those are passed over, and the random state at the epoch's begin and now.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import json
import os
from typing import Any

import specon
from specon.integrations import randomness
from specon.integrations.common import (
    Integration,
    Progress,
    Saved,
    failed,
    folder,
    name_of,
    numbers,
    remove,
    said,
    training_of,
)

IT = Integration("keras")
_METADATA = "training_metadata.json"
_NO_VALUES = ("step", "total", "epoch")


class _Skip:
    """How many batches the next epoch passes over, and the random state to set after that."""

    batches = 0
    after: dict[str, Any] | None = None


@functools.lru_cache(maxsize=None)
def _class() -> Any:  # noqa: C901  a class whose base is imported late
    keras: Any = importlib.import_module("keras")

    class SpeconCallback(keras.callbacks.Callback):  # type: ignore[misc]
        """Saves at the agreed step, names the checkpoint, and reports."""

        begins_elsewhere = False
        """Whether the script names an epoch to begin with."""

        def __init__(self) -> None:
            super().__init__()
            self._step = self._epoch = 0
            self._last = -1
            self._due = False
            self._progress = Progress()
            self._saved = Saved()
            self._begin: dict[str, Any] | None = None

        @IT.guarded
        def on_train_begin(self, logs: Any = None) -> None:
            specon.announce(f"keras {keras.__version__}")
            self._step, _Skip.batches, _Skip.after = 0, 0, None
            IT.trainings += 1
            path = None if self.begins_elsewhere else specon.resume_path()
            if path is not None and _whose(path):
                self._resume(path)

        @IT.guarded
        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            self._epoch, self._last = epoch, _Skip.batches - 1
            if self._begin is not None and _Skip.batches:
                randomness.restore(self._begin)  # so that the batches come in the same order
            else:
                self._begin = randomness.capture()

        @IT.guarded
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            if _Skip.batches:  # a backend whose epochs cannot be begun in their middle
                _Skip.batches, self._last = 0, -1
            self._step += batch - self._last
            self._last = batch
            if self._progress.due():
                specon.report(self._step, total=self._total(), epoch=self._epoch, **_values(logs))
            if specon.checkpoint_requested():
                self._due = True
            steps = self.params.get("steps")
            if self._due and not (steps and batch + 1 >= steps):  # else at the end of the epoch
                self._save(self._epoch, batch + 1)

        @IT.guarded
        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            specon.report(self._step, total=self._total(), epoch=epoch + 1, **_values(logs))
            self._progress.reported()
            if self._due:
                self._save(epoch + 1, 0)

        def _total(self) -> int | None:
            steps, epochs = self.params.get("steps"), self.params.get("epochs")
            return steps * epochs if steps and epochs else None

        def _save(self, epoch: int, batch: int) -> None:
            self._due = False
            place = folder()
            path = os.path.join(place, name_of(self._step, IT.trainings))
            hidden = os.path.join(place, f".{os.path.basename(path)}")
            state = {"epoch": epoch, "batch": batch, "step": self._step, "now": randomness.capture()}
            if batch:
                state["begin"] = self._begin
            try:
                remove(hidden)
                os.makedirs(hidden)
                backup = keras.callbacks.BackupAndRestore(hidden)
                backup.set_model(self.model)
                backup._save_model()
                with open(os.path.join(hidden, _METADATA), "w", encoding="utf-8") as opened:
                    json.dump(state, opened)
                remove(path)
                os.rename(hidden, path)
                self._saved.add(path)
            except Exception as error:
                remove(hidden)
                failed(error)
                return
            said(path, self._step)

        def _resume(self, path: str) -> None:
            with open(os.path.join(path, _METADATA), encoding="utf-8") as opened:
                state = json.load(opened)
            backup = keras.callbacks.BackupAndRestore(path)
            backup.set_model(self.model)
            backup.on_train_begin()
            self._step, self._begin = int(state["step"]), state.get("begin")
            _Skip.batches = int(state["batch"]) if self._begin is not None else 0
            if _Skip.batches:
                _Skip.after = state["now"]
            else:
                randomness.restore(state["now"])
            specon.resumed(path, self._step)

    return SpeconCallback


def _values(logs: Any) -> dict[str, float]:
    return numbers(logs, leave=_NO_VALUES)


def callback() -> Any:
    """Return a callback for `model.fit(callbacks=[...])`."""
    IT.guarded(_pass_over)()
    return _class()()


def patch(module: Any) -> None:
    """Give each `fit` the callback, which goes on where the script begins at the first epoch."""
    trainer = next(
        each for name, each in vars(module).items() if name.endswith("Trainer") and "fit" in vars(each)
    )
    fit = trainer.fit

    @functools.wraps(fit)
    def wrapped(self: Any, *arguments: Any, **named: Any) -> Any:
        given = _give(self, fit, arguments, named)
        return fit(self, *arguments, **named) if given is None else fit(*given.args, **given.kwargs)

    trainer.fit = wrapped


@IT.guarded
def _give(model: Any, fit: Any, arguments: Any, named: Any) -> Any:
    """Return the arguments with our callback among them."""
    given = inspect.signature(fit).bind(model, *arguments, **named)
    callbacks: Any = given.arguments.get("callbacks")
    known = _find_known(callbacks)
    if known is None:
        known = callback()
        if hasattr(callbacks, "append") and hasattr(callbacks, "set_params"):  # a list of Keras's own
            callbacks.append(known)
            known.set_model(model)
            known.set_params(callbacks.params)
        else:
            former = [] if callbacks is None else callbacks
            given.arguments["callbacks"] = [
                *(former if isinstance(former, (list, tuple)) else [former]),
                known,
            ]
    known.begins_elsewhere = bool(given.arguments.get("initial_epoch"))
    return given


def _find_known(callbacks: Any) -> Any:
    listed = getattr(callbacks, "callbacks", callbacks)
    listed = listed if isinstance(listed, (list, tuple)) else [listed]
    return next((each for each in listed if isinstance(each, _class())), None)


def _whose(path: str) -> bool:
    return training_of(path) == IT.trainings and os.path.isfile(os.path.join(path, _METADATA))


def _pass_over() -> None:
    """Let an epoch begin in its middle."""
    kind: Any = importlib.import_module("keras.src.trainers.epoch_iterator").EpochIterator
    enumerated = kind._enumerate_iterator
    if hasattr(enumerated, "__wrapped__"):
        return

    @functools.wraps(enumerated)
    def wrapped(self: Any) -> Any:
        left, after = _Skip.batches, _Skip.after
        _Skip.batches, _Skip.after = 0, None
        for each in enumerated(self):
            if left <= 0:
                yield each
                continue
            for _ in range(self.steps_per_execution):
                next(each[-1], None)
            left -= self.steps_per_execution
            if left <= 0 and after is not None:
                IT.guarded(randomness.restore)(after)

    kind._enumerate_iterator = wrapped
