"""What Lightning's resume leaves out in the middle of an epoch: its batches so far, and the random state.

Lightning counts on, but its loader begins with the first batch of the epoch again, in another order.
Beside what it saves, a checkpoint here has the random state at the begin of the epoch and now. A loader
that keeps its own state (`state_dict`) is left alone. Of several ranks no random state is set, for a
checkpoint has that of one; their sampler is drawn by the number of the epoch.
"""

from __future__ import annotations

import functools
import importlib
import weakref
from typing import Any, Callable

from specon.integrations import randomness

_KEY = "specon"


class Batches:
    """Of the training that this process is in."""

    def __init__(self) -> None:
        self.trainer: Any = lambda: None
        self._begin: dict[str, Any] | None = None
        self._found: dict[str, Any] | None = None

    def follow(self, trainer: Any) -> None:
        """Begin with a training."""
        self.trainer, self._begin, self._found = weakref.ref(trainer), None, None

    def save(self, trainer: Any, checkpoint: dict[str, Any]) -> None:
        """Add to a checkpoint the batch count and random state to go on in the middle of the epoch."""
        progress = trainer.fit_loop.epoch_loop.batch_progress
        content: dict[str, Any] = {"batches": 0 if progress.is_last_batch else progress.current.ready}
        if trainer.world_size == 1 and self._begin is not None:
            content.update(begin=self._begin, now=randomness.capture())
        checkpoint[_KEY] = content

    def load(self, checkpoint: dict[str, Any]) -> None:
        """Take what `save` added, where it did."""
        self._found = checkpoint.get(_KEY)

    def iterate(self, begin: Callable[[Any], Any], loader: Any) -> Any:
        """Have the loader of the training begin where the checkpoint was; others as ever."""
        trainer: Any = self.trainer()
        if trainer is None or loader is not getattr(trainer.fit_loop, "_combined_loader", None):
            return begin(loader)
        found, self._found = self._found, None
        if found is None or getattr(trainer.fit_loop, "_combined_loader_states_to_load", None):
            self._begin = randomness.capture()
            return begin(loader)
        left = int(found["batches"])
        if "begin" in found:
            randomness.restore(found["begin" if left else "now"])
        self._begin = found.get("begin") if left else randomness.capture()
        batches: Any = loader
        result = begin(loader)
        for _ in range(left):
            next(batches)
        if left and "now" in found:
            randomness.restore(found["now"])
        return result


BATCHES = Batches()


def patch(package: str, guarded: Callable[..., Any]) -> None:
    """Let loaders begin in the middle of an epoch."""
    module = importlib.import_module(f"{package}.utilities.combined_loader")
    begin = module.CombinedLoader.__iter__
    if hasattr(begin, "__wrapped__"):
        return
    iterate = guarded(BATCHES.iterate)

    @functools.wraps(begin)
    def __iter__(self: Any) -> Any:
        result = iterate(begin, self)
        return begin(self) if result is None else result

    module.CombinedLoader.__iter__ = __iter__
