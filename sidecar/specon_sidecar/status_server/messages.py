"""Reports of Kubeflow Trainer's status protocol as progress. Pure.

`{"trainerStatus": {"progressPercentage", "estimatedRemainingSeconds", "metrics": [{"name", "value"}],
"lastUpdatedTime"}}`, at most 64 KiB (kubeflow/trainer, `pkg/statusserver/server.go`). Steps are metrics:
transformers' KubeflowCallback names them `current_step`, `total_steps` and `current_epoch`, and repeats every
other metric as it was logged last.
"""

import math
from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct

from specon_sidecar.hook.messages import Progress

MAX_BODY: Final = 1 << 16
"""Bytes of one report, as Trainer takes them."""
_MOST_METRICS: Final = 256
_MOST_VALUES: Final = 64
_LARGEST: Final = 2**53
_STEPS: Final = ("current_step", "global_step", "step")
_TOTALS: Final = ("total_steps", "max_steps")
_EPOCHS: Final = ("current_epoch", "epoch")
_PLACES: Final = frozenset({*_STEPS, *_TOTALS, *_EPOCHS})


class _Metric(Struct, frozen=True):
    name: Annotated[str, Meta(min_length=1, max_length=128)]
    value: Annotated[str, Meta(max_length=64)]


class _Status(Struct, frozen=True):
    metrics: Annotated[tuple[_Metric, ...], Meta(max_length=_MOST_METRICS)] = ()


class _Update(Struct, frozen=True):
    trainerStatus: _Status | None = None  # noqa: N815  (the protocol's name)


_DECODER: Final = msgspec.json.Decoder(_Update)


class StatusReader:
    """Reads one report after the other."""

    def __init__(self) -> None:
        """Begin with nothing known."""
        self._known: dict[str, float] = {}

    def take(self, body: bytes) -> Progress | None:
        """Return what a report says; None where it names no step. A metric counts when its value has changed.

        Raises ValueError for a text that is no report.
        """
        try:
            update = _DECODER.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise ValueError(str(error)) from error
        given = {one.name: _number(one.value) for one in (update.trainerStatus or _Status()).metrics}
        numbers = {name: value for name, value in given.items() if value is not None}
        step = _count(numbers, _STEPS)
        if step is None:
            return None
        values = {name: value for name, value in numbers.items() if name not in _PLACES}
        changed = {name: value for name, value in values.items() if self._known.get(name) != value}
        self._known = values
        return Progress(
            step=step,
            total=_count(numbers, _TOTALS),
            epoch=next((numbers[name] for name in _EPOCHS if name in numbers), None),
            values=dict(list(changed.items())[:_MOST_VALUES]),
        )


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _count(numbers: dict[str, float], names: tuple[str, ...]) -> int | None:
    value = next((numbers[name] for name in names if name in numbers), None)
    return int(value) if value is not None and 0 <= value <= _LARGEST and value == int(value) else None
