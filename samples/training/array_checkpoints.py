"""Checkpoints of numpy arrays, written whole or not at all: `step-00000120.npz`, with a CRC for each."""

import io
import os
import re
import zipfile
from pathlib import Path

import numpy as np
from numpy_perceptron import Trained

_NAME = re.compile(r"step-(\d{8,})\.npz")


def save(folder: Path, trained: Trained, keep: int) -> Path:
    """Make the state visible as the checkpoint of its step; delete those beyond `keep`. Raises OSError."""
    buffer = io.BytesIO()
    np.savez(
        buffer,
        step=np.int64(trained.step),
        parameters=trained.parameters,
        mean=trained.mean,
        square=trained.square,
    )
    path = folder / f"step-{trained.step:08d}.npz"
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(buffer.getvalue())
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    for old in listed(folder)[:-keep]:
        old.unlink(missing_ok=True)
    return path


def listed(folder: Path) -> list[Path]:
    """Return the checkpoints, oldest step first."""
    found = [(int(match[1]), path) for path in folder.iterdir() if (match := _NAME.fullmatch(path.name))]
    return [path for _, path in sorted(found)]


def read(path: Path, size: int) -> Trained:
    """Return the state in the file; raises OSError, or ValueError when it is damaged or of another size."""
    try:
        with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as arrays:
            parameters, mean, square = (arrays[name] for name in ("parameters", "mean", "square"))
            found = Trained(parameters, mean, square, step=int(arrays["step"]))
    except (zipfile.BadZipFile, ValueError, KeyError, EOFError, TypeError) as error:
        raise ValueError(f"checkpoint {path.name}: {error}") from error
    for array in (found.parameters, found.mean, found.square):
        if array.shape != (size,) or array.dtype != np.float32:
            raise ValueError(f"checkpoint {path.name}: has {array.size} parameters, this run {size}")
    return found
