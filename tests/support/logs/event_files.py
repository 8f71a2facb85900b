"""Writes TensorBoard event files the way the writers of PyTorch and of TensorFlow 2 do."""

import struct
from pathlib import Path

from tensorboard.compat.proto import event_pb2, summary_pb2
from tensorboard.compat.tensorflow_stub.pywrap_tensorflow import masked_crc32c
from tensorboard.util.tensor_util import make_tensor_proto

BEGUN = 1_795_000_000


def record(data: bytes) -> bytes:
    length = struct.pack("<Q", len(data))
    return length + struct.pack("<I", masked_crc32c(length)) + data + struct.pack("<I", masked_crc32c(data))


def version() -> bytes:
    event = event_pb2.Event(wall_time=BEGUN, file_version="brain.Event:2")
    return record(event.SerializeToString())


def simple(step: int, **values: float) -> bytes:
    """Return the event of PyTorch and TensorFlow 1; `__` in a tag stands for a slash."""
    summary = summary_pb2.Summary(
        value=[
            summary_pb2.Summary.Value(tag=tag.replace("__", "/"), simple_value=value)
            for tag, value in values.items()
        ]
    )
    return _event(step, summary)


def tensor(step: int, *, dtype=None, **values: object) -> bytes:
    """Return the event of TensorFlow 2 and Keras."""
    summary = summary_pb2.Summary(
        value=[
            summary_pb2.Summary.Value(tag=tag.replace("__", "/"), tensor=make_tensor_proto(value, dtype))
            for tag, value in values.items()
        ]
    )
    return _event(step, summary)


def _event(step: int, summary: summary_pb2.Summary) -> bytes:
    event = event_pb2.Event(wall_time=BEGUN + step, step=step, summary=summary)
    return record(event.SerializeToString())


def event_file(directory: Path, begun: int = 0, *, name: str = "host.1.0") -> Path:
    """Make an event file that was begun so many seconds after `BEGUN`, and return its path."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"events.out.tfevents.{BEGUN + begun}.{name}"
    path.write_bytes(version())
    return path


def append(path: Path, *records: bytes) -> None:
    with path.open("ab") as file:
        file.write(b"".join(records))
