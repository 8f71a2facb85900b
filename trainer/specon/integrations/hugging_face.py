"""Hugging Face's Trainer, and TRL's: saved with `control.should_save`, into `checkpoint-N` of its folder."""

from __future__ import annotations

import functools
import importlib
import inspect
import os
from typing import Any

import specon
from specon.integrations.common import Integration, Progress, below, failed, numbers, remove, said

IT = Integration("hugging_face")
_NO_VALUES = ("step", "total", "total_flos", "loss", "epoch")


@functools.lru_cache(maxsize=None)
def _class() -> Any:  # noqa: C901  a class whose base is imported late
    transformers: Any = importlib.import_module("transformers")

    class SpeconCallback(transformers.TrainerCallback):  # type: ignore[misc]
        """Saves at the agreed step, names the checkpoint, and reports."""

        resumed_from: str | None = None

        def __init__(self) -> None:
            self.asked = False
            """Whether a checkpoint is to be saved that the script has not asked for."""
            self.error: BaseException | None = None
            self._only_model = False
            self._progress = Progress()

        @IT.guarded
        def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            specon.announce(f"transformers {transformers.__version__}")
            if state.global_step:
                specon.resumed(self.resumed_from, state.global_step)

        @IT.guarded
        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            if state.is_world_process_zero and self._progress.due():
                specon.report(state.global_step, total=_total(state))
            if specon.checkpoint_requested():
                self.asked = True
            if self.asked:  # until it is saved: an evaluation of this step may have called it off
                control.should_save = True
                if getattr(args, "save_only_model", False):  # nothing could go on from that
                    self._only_model = True
                    vars(args)["save_only_model"] = False

        @IT.guarded
        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
            values = numbers(logs)
            loss, epoch = values.get("loss"), values.get("epoch")
            if not state.is_world_process_zero:
                return
            if loss is not None or any(name.startswith("eval_") for name in values):
                others = {name: value for name, value in values.items() if name not in _NO_VALUES}
                specon.report(state.global_step, loss=loss, total=_total(state), epoch=epoch, **others)
                self._progress.reported()

        @IT.guarded
        def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            whole = not getattr(args, "save_only_model", False)
            if self._only_model:
                self._only_model = False
                vars(args)["save_only_model"] = True
            error, self.error, self.asked = self.error, None, False
            if error is not None:
                failed(error)
            elif whole:
                said(_path(args, state), state.global_step)

    return SpeconCallback


def _path(args: Any, state: Any) -> str:
    return os.path.join(args.output_dir, f"checkpoint-{state.global_step}")


def _total(state: Any) -> int | None:
    return state.max_steps if state.max_steps and state.max_steps > 0 else None


def callback() -> Any:
    """Return a callback for `Trainer(callbacks=[...])`."""
    return _class()()


def patch(module: Any) -> None:
    """Give each Trainer the callback, and the verified checkpoint where the script names none."""
    trainer = module.Trainer
    begin, train, save = trainer.__init__, trainer.train, trainer._save_checkpoint

    @functools.wraps(begin)
    def __init__(self: Any, *arguments: Any, **named: Any) -> None:
        begin(self, *arguments, **named)
        _add(self)

    @functools.wraps(train)
    def wrapped(self: Any, *arguments: Any, **named: Any) -> Any:
        given = _give(self, train, arguments, named)
        return train(self, *arguments, **named) if given is None else train(*given.args, **given.kwargs)

    @functools.wraps(save)
    def _save_checkpoint(self: Any, *arguments: Any, **named: Any) -> Any:
        known = IT.guarded(_callback)(self)
        if known is None or not known.asked:
            return save(self, *arguments, **named)
        try:
            return save(self, *arguments, **named)
        except Exception as error:
            known.error = error
            if self.args.should_save:
                remove(_path(self.args, self.state))
            return None

    trainer.__init__, trainer.train, trainer._save_checkpoint = __init__, wrapped, _save_checkpoint


def _callback(trainer: Any) -> Any:
    known = getattr(getattr(trainer, "callback_handler", None), "callbacks", ())
    return next((each for each in known if isinstance(each, _class())), None)


@IT.guarded
def _add(trainer: Any) -> None:
    if _callback(trainer) is None:
        trainer.add_callback(callback())


@IT.guarded
def _give(trainer: Any, train: Any, arguments: Any, named: Any) -> Any:
    """Return the arguments with the checkpoint among them, where the script names none; else None.

    None and False name none, as `TrainingArguments.resume_from_checkpoint` does, which `train` does not read.
    The folder tells whether the checkpoint is this trainer's.
    """
    given = inspect.signature(train).bind(trainer, *arguments, **named)
    path = None if given.arguments.get("resume_from_checkpoint") else specon.resume_path()
    if path is None or not below(path, trainer.args.output_dir):
        return None
    if not os.path.isfile(os.path.join(path, "trainer_state.json")):
        return None
    known = _callback(trainer)
    if known is not None:
        known.resumed_from = path
    given.arguments["resume_from_checkpoint"] = path
    return given
