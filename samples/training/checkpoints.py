"""Checkpoints in a folder: written whole or not at all, and never the last good one deleted.

A checkpoint is written under a hidden temporary name, flushed to the disk and then renamed: a reader of
`step-00000120.pt` sees all of it. Its SHA-256 digest is its zip comment, so `torch.load` still reads it.
PyTorch itself compares no checksums: it may make a tensor of arbitrary memory from a file with a wrong byte.
"""

import hashlib
import io
import os
import pickle
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

_NAME = re.compile(r"step-(\d{8,})\.pt")
_REQUIRED = frozenset({"run", "step", "model", "optimizer", "torch_random", "batch_random"})

_DIGEST_BYTES = 64  # in hexadecimal
_NO_COMMENT = (0).to_bytes(2, "little")  # the length that ends a zip file without a comment

State = dict[str, Any]


class CheckpointDirectory:
    """The checkpoints of one training run."""

    def __init__(self, path: Path, keep: int) -> None:
        """Make the folder, and clear what a killed process left half written. Raises OSError."""
        self._path = path
        self._keep = keep
        self._unreadable: set[Path] = set()
        path.mkdir(parents=True, exist_ok=True)
        for leftover in path.glob(".step-*.pt.tmp"):
            leftover.unlink(missing_ok=True)

    def save(self, state: State) -> Path:
        """Make the state visible as the checkpoint of its step, then delete those beyond `keep`.

        Raises OSError when it cannot be written; all earlier checkpoints are then still there.
        """
        content = _encode(state)  # in memory: torch.save to a file does not report a full disk as OSError
        path = self._path / f"step-{state['step']:08d}.pt"
        temporary = path.with_name(f".{path.name}.tmp")
        try:
            with temporary.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        except OSError:
            temporary.unlink(missing_ok=True)
            raise
        _synchronise(self._path)
        self._unreadable.discard(path)
        self._prune(path)
        return path

    def newest(self, report_unreadable: Callable[[Path], None]) -> tuple[Path, State] | None:
        """Return the newest checkpoint that can be read; those newer than it are reported, and kept."""
        for path in reversed(self._listed()):
            try:
                return path, read(path)
            except (OSError, ValueError):
                self._unreadable.add(path)
                report_unreadable(path)
        return None

    def _listed(self) -> list[Path]:
        found = [
            (int(match[1]), path) for path in self._path.iterdir() if (match := _NAME.fullmatch(path.name))
        ]
        return [path for _, path in sorted(found)]

    def _prune(self, newest: Path) -> None:
        # Later steps than the one just saved are damaged ones that this run has yet to overtake: not counted.
        listed = self._listed()
        good = [path for path in listed[: listed.index(newest) + 1] if path not in self._unreadable]
        for path in good[: -self._keep]:
            path.unlink(missing_ok=True)


def read(path: Path) -> State:
    """Return the state in the file. Raises OSError, or ValueError when the file is cut off or damaged."""
    content = path.read_bytes()
    if hashlib.sha256(content[:-_DIGEST_BYTES]).hexdigest().encode() != content[-_DIGEST_BYTES:]:
        raise ValueError(f"checkpoint {path.name}: cut off or damaged, its digest does not fit")
    try:
        state = torch.load(io.BytesIO(content), weights_only=True)
    except (pickle.UnpicklingError, RuntimeError) as error:
        raise ValueError(f"checkpoint {path.name}: {error}") from error
    if not isinstance(state, dict) or not state.keys() >= _REQUIRED:
        raise ValueError(f"checkpoint {path.name}: not one of a training sample")
    return state


def _encode(state: State) -> bytes:
    buffer = io.BytesIO()
    torch.save(state, buffer)
    content = buffer.getvalue()
    assert content.endswith(_NO_COMMENT)
    content = content[: -len(_NO_COMMENT)] + _DIGEST_BYTES.to_bytes(2, "little")
    return content + hashlib.sha256(content).hexdigest().encode()


def _synchronise(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
