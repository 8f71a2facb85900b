"""What the integrations share: nothing of theirs may ever reach the trainer as an exception."""

from __future__ import annotations

import functools
import math
import os
import shutil
import sys
import time
from typing import Any, Callable, Iterable

import specon

_SECONDS = 0.15  # longer than `specon.report` waits between two that it sends


class Integration:
    """One integration in this process: whether it still works, and how often its framework began to train.

    A script that trains twice, first this model and then that, is not to give the second the checkpoint
    of the first. So the number of the training is in the name of what specon saves, where no folder of
    the framework's tells whose a checkpoint is.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.on = True
        self.trainings = 0

    def off(self, error: BaseException) -> None:
        """Say once why this integration does nothing from now on."""
        if self.on:
            self.on = False
            told = " ".join(str(error).split())[:300]
            line = f"specon: {self.name} is no longer followed: {type(error).__name__}: {told}\n"
            try:
                sys.stderr.write(line)
            except Exception:
                return

    def guarded(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function such that it never raises; after its first error it does nothing."""

        @functools.wraps(function)
        def call(*arguments: Any, **named: Any) -> Any:
            if not self.on:
                return None
            try:
                return function(*arguments, **named)
            except Exception as error:
                self.off(error)
                return None

        return call


def wrap_train(module: Any, given: Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]) -> None:
    """Have `module.train` called with the arguments that `given(train, arguments, named)` binds.

    Where that is None, the script's own arguments are taken as they are.
    """
    train = module.train

    @functools.wraps(train)
    def wrapped(*arguments: Any, **named: Any) -> Any:
        bound = given(train, arguments, named)
        return train(*arguments, **named) if bound is None else train(*bound.args, **bound.kwargs)

    module.train = wrapped


class Progress:
    """Reports steps some times a second, and values once a second: to read one can make a GPU wait."""

    def __init__(self, values_seconds: float = 1.0) -> None:
        self._seconds = values_seconds
        self._report_at = self._read_at = 0.0

    def due(self) -> bool:
        """Whether to report now; true at first."""
        now = time.monotonic()
        if now < self._report_at:
            return False
        self._report_at = now + _SECONDS
        return True

    def values_due(self) -> bool:
        """Whether to report values, too; true at first."""
        now = time.monotonic()
        if now < self._read_at:
            return False
        self._read_at = now + self._seconds
        return True

    def reported(self) -> None:
        """Note that values were reported by the way: nothing is to replace them before they are sent."""
        self._report_at = time.monotonic() + _SECONDS


def number(value: Any) -> float | None:
    """Return a finite number, of a tensor of one element too; None for anything else."""
    try:
        if isinstance(value, (str, bytes)) or getattr(value, "size", None) == 0:
            return None
        found = float(value)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        return None
    return found if math.isfinite(found) else None


def numbers(values: dict[str, Any] | None, leave: Iterable[str] = ()) -> dict[str, float]:
    """Return the values that are numbers, by names that may be keywords of `specon.report`."""
    found = {}
    for key, value in (values or {}).items():
        read = None if key in leave else number(value)
        if read is not None:
            found[str(key)] = read
    return found


def lead() -> bool:
    """Whether this is rank 0, or the only process."""
    return os.environ.get("RANK", "0") in ("", "0")


def folder() -> str:
    """Return where checkpoints of frameworks go that have no folder of their own."""
    return os.path.abspath(os.environ.get("SPECON_CHECKPOINTS") or "specon-checkpoints")


def below(path: str, root: str | None) -> bool:
    """Whether a path is in a folder, or in one below it."""
    if not root:
        return False
    whole, start = os.path.realpath(path), os.path.realpath(root)
    return whole.startswith(start.rstrip(os.sep) + os.sep)


def name_of(step: int, training: int) -> str:
    """Return the name of a checkpoint; the number of the training is in it from the second on."""
    which = "" if training <= 1 else f"{training}-"
    return f"specon-{which}step-{step:08d}"


def training_of(name: str) -> int:
    """Return which training of its process a checkpoint of `name_of` is of."""
    parts = os.path.basename(name).split("-")
    return int(parts[1]) if parts[0] == "specon" and parts[1:] and parts[1].isdigit() else 1


class Saved:
    """The checkpoints that specon has asked for: a former one goes once the next is complete."""

    def __init__(self) -> None:
        self._paths: list[str] = []

    def add(self, path: str) -> None:
        """Note one that is complete, and remove all but it and the one before."""
        self._paths = [each for each in self._paths if each != path] + [path]
        while len(self._paths) > 2:  # noqa: PLR2004
            remove(self._paths.pop(0))


def remove(path: str) -> None:
    """Remove a file or a folder, if it is there and may be removed."""
    if os.path.isdir(path):
        shutil.rmtree(path, ignore_errors=True)
    else:
        try:
            os.remove(path)
        except OSError:
            return


def said(path: str, step: int) -> None:
    """Say on every rank that a checkpoint is complete, and pause where that was asked for."""
    specon.saved(path, int(step), together=True)


def failed(error: BaseException) -> None:
    """Say on a rank why it could not save: a full disk is no reason to stop training."""
    specon.refused(f"{type(error).__name__}: {' '.join(str(error).split())}", together=True)
