"""The end of a job's own log on this machine: its path, and its last lines as plain text."""

import os
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from specon_manager.backends.local.pod_files import replica_directory
from specon_manager.views.names import cut
from specon_sidecar.regular_file import open_regular

_LINES: Final = 5
_TAIL: Final = 64 << 10
_HEAD: Final = 1 << 20
_SPEC: Final = 1 << 20
_INCARNATIONS: Final = 1000
_LONGEST: Final = 300


class LogEnd(Struct, frozen=True, kw_only=True):
    """A log's path and its last lines, each without what steers a terminal."""

    path: str
    lines: tuple[str, ...]


class _Spec(Struct):
    log: str


def log_end(directory: Path, replica: str) -> LogEnd | None:
    """Return the end of what the latest incarnation of a replica wrote; None where nothing can be read."""
    path = _log_of(directory, replica)
    try:
        if path is None:
            return None
        with open_regular(path) as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _TAIL))
            content = file.read(_TAIL).decode(errors="replace")
    except OSError:
        return None
    lines = [line for line in content.splitlines() if line.strip()][-_LINES:]
    return LogEnd(path=str(path), lines=tuple(cut(line, _LONGEST) for line in lines))


def log_begin(directory: Path, replica: str) -> tuple[Path, list[bytes]] | None:
    """Return the path of that log and its first lines, whole ones; None where nothing can be read."""
    path = _log_of(directory, replica)
    try:
        if path is None:
            return None
        with open_regular(path) as file:
            return path, file.read(_HEAD).split(b"\n")[:-1]
    except OSError:
        return None


def _log_of(directory: Path, replica: str) -> Path | None:
    try:
        incarnations = replica_directory(directory / "replicas", replica) / "incarnations"
        with os.scandir(incarnations) as entries:
            found = [entry for entry, _ in zip(entries, range(_INCARNATIONS), strict=False)]
        newest = max(found, key=lambda entry: entry.stat().st_mtime_ns)
        with (Path(newest.path) / "spec.json").open("rb") as file:
            path = Path(msgspec.json.decode(file.read(_SPEC), type=_Spec).log)
    except (
        OSError,
        ValueError,
        msgspec.DecodeError,
    ):  # no incarnation, or no name of one
        return None
    return path / "output.log" if path.is_dir() else path
