"""The trainer's container, as another container of its pod sees it: its processes and its GPUs.

Reads /proc (Linux) as far as the kernel shows it to the same user.
"""

import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from specon_sidecar.slices.processes import children_of
from specon_sidecar.trainer.process import PROC
from specon_sidecar.wire import MAX_DEVICES

_HOLDS_NAMESPACE: Final = 1
"""Process id of what holds a shared namespace open: it gets the orphans of all containers."""
_LONGEST_NAME: Final = 128
_NAMED: Final = re.compile(r"(GPU|MIG)-[A-Za-z0-9/-]+")
_DEVICE_FILE: Final = re.compile(r"nvidia[0-9]+")
_MOST_PROCESSES: Final = 2000


def roots(root: int, proc: Path = PROC) -> Iterator[int]:
    """Yield what all processes of the container descend from: its first process, and what lost its parent."""
    yield root
    group = _group(proc, root)
    if group is None or group == _group(proc, os.getpid()):
        return  # one container, or none: whose an orphan is cannot be told
    for pid in children_of(_HOLDS_NAMESPACE):
        if pid not in {root, _HOLDS_NAMESPACE} and _group(proc, pid) == group:
            yield pid


def strangers(root: int, proc: Path = PROC) -> bool:
    """Whether the container has processes of another user than ours, which we cannot stop."""
    waiting, seen = [*roots(root, proc)], 0
    while waiting and seen < _MOST_PROCESSES:
        pid = waiting.pop()
        seen += 1
        waiting += children_of(pid)
        try:
            if (proc / str(pid)).stat().st_uid != os.geteuid():
                return True
        except OSError:
            continue  # it ended just now
    return False


def is_told_to_end(root: int, proc: Path = PROC) -> bool:
    """Whether SIGTERM waits to be delivered to a process: it does while that is stopped."""
    try:
        status = (proc / str(root) / "status").read_text("ascii", "replace")
    except OSError:
        return False
    pending = 0
    for line in status.splitlines():
        if line.startswith(("SigPnd:", "ShdPnd:")):
            pending |= int(line.split()[1], 16)
    return bool(pending >> (signal.SIGTERM - 1) & 1)


class Gpus:
    """The GPUs of a container, and what lets several processes use them."""

    def __init__(self, root: int, proc: Path = PROC) -> None:
        """Look at the first process of the container."""
        self._directory = proc / str(root)
        self._environment = self._read_environment()

    @property
    def by_mps(self) -> bool:
        """Whether they are shared by NVIDIA's MPS, under which none of its clients may be stopped."""
        return "CUDA_MPS_PIPE_DIRECTORY" in self._environment

    @property
    def names(self) -> tuple[str, ...]:
        """By the UUIDs that the device plugin gave it, else by the files of the devices; () for none."""
        given = self._environment.get("NVIDIA_VISIBLE_DEVICES", "")
        named = [part.strip() for part in given.split(",")]
        if not named or not all(_NAMED.fullmatch(name) and len(name) <= _LONGEST_NAME for name in named):
            try:
                files = [entry.name for entry in os.scandir(self._directory / "root" / "dev")]
            except OSError:
                return ()
            named = [name for name in files if _DEVICE_FILE.fullmatch(name)]
        return tuple(sorted(set(named)))[:MAX_DEVICES]

    def _read_environment(self) -> dict[str, str]:
        try:
            content = (self._directory / "environ").read_bytes().decode("utf-8", "replace")
        except OSError:
            return {}
        pairs = (entry.partition("=") for entry in content.split("\0"))
        return {name: value for name, _, value in pairs if name}


def _group(proc: Path, pid: int) -> bytes | None:
    """Return in which control groups a process is: one container's processes have the same."""
    try:
        return (proc / str(pid) / "cgroup").read_bytes()
    except OSError:
        return None
