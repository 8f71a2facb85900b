"""The ranks of a distributed job: who this is, and what all of them agree on at the same call.

Only `torch.distributed` is known, and only where the trainer has imported and initialised it.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from typing import Any

AGREE_SECONDS = 0.5
"""So much training lies between two agreements, about."""
_MOST_CALLS = 32
_DEVICES: dict[str, str] = {"nccl": "cuda", "xccl": "xpu", "ccl": "xpu", "hccl": "npu", "cncl": "mlu"}
_RANKS = ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID")
_WORLDS = ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS")


def distributed() -> Any:
    """Return `torch.distributed` where it is initialised, else None; must cost next to nothing."""
    module = sys.modules.get("torch.distributed")
    if module is None:
        return None
    try:
        return module if module.is_initialized() else None
    except AttributeError:  # still being imported, or built without it
        return None


def place() -> tuple[int, int]:
    """Return this process's rank and how many there are, as far as is known: else 0 of 1."""
    module = distributed()
    if module is not None:
        return int(module.get_rank()), int(module.get_world_size())
    return _number(_RANKS, 0), _number(_WORLDS, 1)


def _number(names: tuple[str, ...], otherwise: int) -> int:
    for name in names:
        value = os.environ.get(name, "")
        if value.isdigit():
            return int(value)
    return otherwise


class Agreed(NamedTuple):
    """What holds on every rank."""

    requested: bool
    pause: float
    """The longest that any rank is asked for, seconds."""


class Agreement:
    """Agrees by an all-reduce every few calls, at the same calls on each rank.

    Where no rank has a sidecar the first agreement is the last one.
    """

    def __init__(self) -> None:
        self._group: Any = None
        self._calls = self._left = 1
        self._since: float | None = None
        self._off = False

    def due(self, module: Any) -> bool:
        """Count a call, and return whether the ranks agree at this one."""
        if self._off and module.group.WORLD is self._group:
            return False
        self._left -= 1
        return self._left <= 0

    def agree(self, module: Any, now: float, *, requested: bool, pause: float, able: bool) -> Agreed:
        """Return what holds on every rank; raises what `torch.distributed` raises."""
        group = module.group.WORLD
        if group is not self._group:
            self._group, self._since, self._calls = group, None, 1
        took = 0.0 if self._since is None else (now - self._since) / self._calls
        asked, longest, slowest, any_able = largest(module, [float(requested), pause, took, float(able)])
        # Of what all ranks know alike, so that all of them come to the same number.
        calls = int(AGREE_SECONDS / slowest) if slowest > 0 else 1
        self._calls = self._left = max(1, min(calls, 2 * self._calls, _MOST_CALLS))
        self._since = now
        self._off = not any_able
        return Agreed(asked > 0, longest)


def largest(module: Any, values: list[float]) -> list[float]:
    """Return the largest of each value over all ranks; every rank has to call it."""
    import torch  # noqa: PLC0415 - there, for `torch.distributed` is

    tensor = torch.tensor(values, dtype=torch.float32, device=_device(module, torch))
    module.all_reduce(tensor, op=module.ReduceOp.MAX)
    return [float(value) for value in tensor.tolist()]


def said_by_first(module: Any, text: str) -> str:
    """Return the text of rank 0; every rank has to call it."""
    import torch  # noqa: PLC0415 - there, for `torch.distributed` is

    content = text.encode("utf-8", "surrogateescape")[:8191]
    padded = list(content) + [0] * (8192 - len(content))
    tensor = torch.tensor(padded, dtype=torch.uint8, device=_device(module, torch))
    module.broadcast(tensor, src=0)
    return bytes(tensor.tolist()).rstrip(b"\0").decode("utf-8", "surrogateescape")


def _device(module: Any, torch: Any) -> Any:
    """Return where a tensor has to lie for the default group: on the CPU if that has a backend."""
    config = str(module.get_backend_config()) if hasattr(module, "get_backend_config") else ""
    backend = str(module.get_backend()).lower()
    by_device = dict(part.split(":", 1) for part in config.lower().split(",") if ":" in part)
    if by_device.get("cpu") not in (None, *_DEVICES):
        return "cpu"
    kind = _DEVICES.get(backend) or next((one for one, by in by_device.items() if by in _DEVICES), None)
    if kind is None:
        return "cpu"
    return torch.device(kind, getattr(torch, kind).current_device())
