"""The random state of the process: kept with a checkpoint, and set again when training goes on from it.

As JSON can hold it, so that nothing has to be unpickled. Generators that a script has made for itself are
not in it.
"""

from __future__ import annotations

import base64
import random
import sys
from typing import Any


def capture() -> dict[str, Any]:
    """Return the state of Python's generator, and of NumPy's and PyTorch's where they are imported."""
    version, inner, gauss = random.getstate()
    state: dict[str, Any] = {"python": [version, list(inner), gauss]}
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    if numpy is not None:
        kind, keys, *rest = numpy.random.get_state()
        state["numpy"] = [str(kind), [int(key) for key in keys], *rest]
    if torch is not None:
        state["torch"] = _text(torch.get_rng_state())
        if torch.cuda.is_available() and torch.cuda.is_initialized():
            state["cuda"] = [_text(each) for each in torch.cuda.get_rng_state_all()]
    return state


def restore(state: dict[str, Any]) -> None:
    """Set what `capture` returned; raises where it is not that."""
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    version, inner, gauss = state["python"]
    random.setstate((version, tuple(inner), gauss))
    if numpy is not None and "numpy" in state:
        kind, keys, *rest = state["numpy"]
        numpy.random.set_state((kind, numpy.array(keys, dtype="uint32"), *rest))
    if torch is not None and "torch" in state:
        torch.set_rng_state(_tensor(torch, state["torch"]))
        if "cuda" in state and torch.cuda.device_count() == len(state["cuda"]):
            torch.cuda.set_rng_state_all([_tensor(torch, each) for each in state["cuda"]])


def _text(tensor: Any) -> str:
    return base64.b64encode(bytes(tensor.tolist())).decode("ascii")


def _tensor(torch: Any, text: str) -> Any:
    return torch.tensor(list(base64.b64decode(text)), dtype=torch.uint8)
