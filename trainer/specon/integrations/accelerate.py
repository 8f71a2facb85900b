"""Accelerate: `save_state` and `load_state` of a loop of one's own, as `torch_` sees `torch.save`."""

from __future__ import annotations

import functools
from typing import Any

from specon.integrations import torch_


def patch(module: Any) -> None:
    """See states saved and loaded as a whole."""
    kind = module.Accelerator
    save, load = kind.save_state, kind.load_state

    @functools.wraps(save)
    def save_state(self: Any, *arguments: Any, **named: Any) -> Any:
        path = save(self, *arguments, **named)
        torch_.saved_state(path)
        return path

    @functools.wraps(load)
    def load_state(self: Any, input_dir: Any = None, *arguments: Any, **named: Any) -> Any:
        result = load(self, input_dir, *arguments, **named)
        torch_.loaded_state(input_dir)
        return result

    kind.save_state, kind.load_state = save_state, load_state
