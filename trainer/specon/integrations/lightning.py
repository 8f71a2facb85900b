"""Lightning: `trainer.save_checkpoint` after a batch that stepped, into its own folder of checkpoints."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import inspect
import os
import re
from typing import Any

import specon
from specon.integrations import lightning_batches
from specon.integrations.common import Integration, Progress, Saved, below, failed, number, numbers, said

IT = Integration("lightning")
_OURS = re.compile(r"specon-(?:(\d{1,6})-)?epoch=\d+-step=\d+\.ckpt\Z")


@functools.lru_cache(maxsize=None)
def _class(package: str) -> Any:  # noqa: C901  a class whose base is imported late
    framework = importlib.import_module(package)

    class SpeconCallback(framework.Callback):  # type: ignore[misc,name-defined]
        """Saves at the agreed step, names the checkpoint, and reports."""

        resumed_from: str | None = None
        asks_when_set_up = False
        """Whether it asks what to go on from once the nodes know each other: only one of them is told."""

        def __init__(self) -> None:
            self._step = -1
            self._progress = Progress()
            self._saved = Saved()
            self._total: int | None = None

        @IT.guarded
        def setup(self, trainer: Any, pl_module: Any, stage: str | None = None) -> None:
            if stage == "fit":
                lightning_batches.BATCHES.follow(trainer)
                if self.asks_when_set_up:
                    _resume_set_up(trainer, self)

        @IT.guarded
        def on_train_start(self, trainer: Any, pl_module: Any) -> None:
            specon.announce(f"lightning {framework.__version__}")
            self._step = trainer.global_step
            self._total = _total(trainer)
            if self._step:
                specon.resumed(self.resumed_from or trainer.ckpt_path, self._step)

        @IT.guarded
        def on_train_batch_end(
            self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int, *_: Any
        ) -> None:
            step = trainer.global_step
            if step == self._step:
                return  # gradients are still being gathered: nothing to go on from
            self._step = step
            if self._progress.due() and trainer.is_global_zero:
                fresh = self._progress.values_due()
                values = dict(_metrics(trainer), loss=_loss(outputs)) if fresh else {}
                specon.report(step, total=self._total, epoch=trainer.current_epoch, **values)
            if specon.checkpoint_requested():
                self._save(trainer, step)

        @IT.guarded
        def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
            if not getattr(trainer, "sanity_checking", False) and trainer.is_global_zero:
                specon.report(trainer.global_step, total=self._total, **_metrics(trainer))
                self._progress.reported()

        @IT.guarded
        def on_save_checkpoint(self, trainer: Any, pl_module: Any, checkpoint: dict[str, Any]) -> None:
            lightning_batches.BATCHES.save(trainer, checkpoint)

        @IT.guarded
        def on_load_checkpoint(self, trainer: Any, pl_module: Any, checkpoint: dict[str, Any]) -> None:
            lightning_batches.BATCHES.load(checkpoint)

        def _save(self, trainer: Any, step: int) -> None:
            which = "" if IT.trainings <= 1 else f"{IT.trainings}-"
            name = f"specon-{which}epoch={trainer.current_epoch}-step={step}.ckpt"
            path = os.path.join(trainer.strategy.broadcast(_folder(trainer)), name)
            try:
                trainer.save_checkpoint(path)
            except Exception as error:
                trainer.strategy.barrier("Trainer.save_checkpoint")  # the other ranks wait there
                failed(error)
                return
            if trainer.is_global_zero:
                self._saved.add(path)
            said(path, step)

    return SpeconCallback


def _total(trainer: Any) -> int | None:
    found = number(trainer.estimated_stepping_batches)
    return int(found) if found is not None and found > 0 else None


def _loss(outputs: Any) -> float | None:
    return number(outputs.get("loss") if isinstance(outputs, dict) else outputs)


def _metrics(trainer: Any) -> dict[str, float]:
    return numbers(trainer.callback_metrics, leave=("loss", "step", "total", "epoch"))


def _folder(trainer: Any) -> str:
    """Return where Lightning itself would save."""
    for each in trainer.checkpoint_callbacks:
        if getattr(each, "dirpath", None):
            return str(each.dirpath)
    return os.path.join(trainer.log_dir or trainer.default_root_dir, "checkpoints")


def callback(package: str | None = None) -> Any:
    """Return a callback for `Trainer(callbacks=[...])`, of `lightning.pytorch` or of `pytorch_lightning`."""
    if package is None:
        package = "lightning.pytorch"
        if importlib.util.find_spec("lightning") is None:
            package = "pytorch_lightning"
    IT.guarded(lightning_batches.patch)(package, IT.guarded)
    return _class(package)()


def patch(module: Any) -> None:
    """Give each Trainer the callback, and `fit` the verified checkpoint where the script names none."""
    package = module.__name__[: -len(".trainer.trainer")]
    trainer = module.Trainer
    fit = trainer.fit

    @functools.wraps(fit)
    def wrapped(self: Any, *arguments: Any, **named: Any) -> Any:
        given = _begin(self, package, fit, arguments, named)
        return fit(self, *arguments, **named) if given is None else fit(*given.args, **given.kwargs)

    trainer.fit = wrapped


@IT.guarded
def _begin(trainer: Any, package: str, fit: Any, arguments: Any, named: Any) -> Any:
    """Return the arguments with the checkpoint among them; None: there is none to go on from."""
    IT.trainings += 1
    kind = _class(package)
    known = next((each for each in trainer.callbacks if isinstance(each, kind)), None)
    if known is None:
        known = callback(package)
        trainer.callbacks.insert(0, known)  # ModelCheckpoint stays last
    given = inspect.signature(fit).bind(trainer, *arguments, **named)
    if given.arguments.get("ckpt_path") is not None:
        return None
    known.asks_when_set_up = trainer.num_nodes > 1
    path = None if known.asks_when_set_up else specon.resume_path()
    if path is None or not _whose(trainer, path):
        return None
    known.resumed_from = path
    given.arguments["ckpt_path"] = path
    return given


def _resume_set_up(trainer: Any, known: Any) -> None:
    path = specon.resume_path()
    if path is None or not _whose(trainer, path):
        return
    known.resumed_from = path
    connector = trainer._checkpoint_connector
    restore = connector._restore_modules_and_callbacks
    connector._restore_modules_and_callbacks = lambda _=None, *others: restore(path, *others)


def _whose(trainer: Any, path: str) -> bool:
    """Whether a checkpoint is of this training, as far as its name and place tell."""
    ours = _OURS.match(os.path.basename(path))
    if ours is not None:
        return int(ours.group(1) or 1) == IT.trainings
    roots = [
        trainer.default_root_dir,
        *(getattr(each, "dirpath", None) for each in trainer.checkpoint_callbacks),
    ]
    return path.endswith(".ckpt") and IT.trainings == 1 and any(below(path, root) for root in roots)
