"""A record of an event file -> its scalars, as all generations of writers put them."""

import math
import struct
from typing import Final, NamedTuple

# Neither package has stubs or a marker of types.
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from tensorboard.compat.proto import event_pb2, summary_pb2, types_pb2  # type: ignore[import-untyped]
from tensorboard.util.tensor_util import make_ndarray  # type: ignore[import-untyped]

_NUMBERS: Final = frozenset(
    {
        *(types_pb2.DT_HALF, types_pb2.DT_BFLOAT16, types_pb2.DT_FLOAT, types_pb2.DT_DOUBLE),
        *(types_pb2.DT_INT8, types_pb2.DT_INT16, types_pb2.DT_INT32, types_pb2.DT_INT64),
        *(types_pb2.DT_UINT8, types_pb2.DT_UINT16, types_pb2.DT_UINT32, types_pb2.DT_UINT64),
    }
)


class Scalars(NamedTuple):
    """The scalars of one event, by tag."""

    step: int
    time: float
    values: dict[str, float | str]


def scalars(data: bytes, *, most: int, longest: int) -> Scalars | None:
    """Return the scalars of an event, or None where the record is none.

    At most `most` of them, and only those whose tag has at most `longest` letters. A scalar is a
    `simple_value` (PyTorch, TensorFlow 1) or a tensor with one number (TensorFlow 2, Keras, JAX).
    """
    try:
        event = event_pb2.Event.FromString(data)
    except DecodeError:
        return None
    values: dict[str, float | str] = {}
    for value in event.summary.value[:most]:
        number = _number(value)
        if number is not None and len(value.tag) <= longest:
            values[value.tag] = number if math.isfinite(number) else str(number)
    return Scalars(event.step, event.wall_time if math.isfinite(event.wall_time) else 0.0, values)


def _number(value: "summary_pb2.Summary.Value") -> float | None:
    kind = value.WhichOneof("value")
    if kind == "simple_value":
        return float(value.simple_value)
    if kind != "tensor":
        return None
    tensor = value.tensor
    if tensor.dtype not in _NUMBERS or any(one.size != 1 for one in tensor.tensor_shape.dim):
        return None
    try:
        return float(make_ndarray(tensor).reshape(-1)[0])
    except (ValueError, TypeError, IndexError, struct.error):
        return None  # a tensor that says one thing and holds another
