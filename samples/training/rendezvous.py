"""How the workers of a data-parallel run find each other.

Their number and this worker's rank are in the environment, as torch and the operators of Kubernetes have it
(WORLD_SIZE, RANK). The first worker is met at MASTER_ADDR and MASTER_PORT; or, on one machine, at the port
that it writes to a file, again at each start, so that what an earlier start left misleads nobody for long.
"""

import json
import os
import secrets
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from torch import distributed
from torch.distributed import PrefixStore, Store, TCPStore  # type: ignore[attr-defined]  # public, but not in its __all__

JOIN_SECONDS = 60.0
"""Within which all workers have come; else each of them gives up, and may be started again."""
_LOOK_SECONDS = 0.05
_ANSWER_SECONDS = 2.0
_LOOPBACK = "127.0.0.1"


class RendezvousError(Exception):
    """The workers did not find each other; the text says why."""


@dataclass(frozen=True)
class Team:
    """The workers that train together."""

    rank: int
    size: int
    store: Store

    @property
    def leads(self) -> bool:
        """Whether this worker logs, and writes the checkpoints."""
        return self.rank == 0

    def said_by_the_first(self, word: Callable[[], str]) -> str:
        """Return to every worker what `word` gives in the first one."""
        said = [word() if self.leads else ""]
        distributed.broadcast_object_list(said)
        return said[0]

    def part(self, seconds: float) -> None:
        """Leave in good order: the first worker has the store, and stays until the others need it no more."""
        gone = self.store.add("gone", 1)
        ends = time.monotonic() + seconds
        while self.leads and gone < self.size and time.monotonic() < ends:
            time.sleep(_LOOK_SECONDS)
            gone = self.store.add("gone", 0)


def join(file: Path | None, wanted: Callable[[], bool]) -> Team | None:
    """Return the team once all of it is there, None when `wanted` says no meanwhile.

    `file`: where the first worker says its port; None where MASTER_ADDR says it. Raises RendezvousError.
    """
    rank, size = _number("RANK", 0), _number("WORLD_SIZE", 1)
    if not 0 <= rank < size:
        raise RendezvousError(f"RANK must be from 0 to WORLD_SIZE - 1 ({size - 1}), not {rank}")
    store = _by_address(rank, size, wanted) if file is None else _by_file(file, rank, size, wanted)
    if store is None:
        return None
    seconds = timedelta(seconds=JOIN_SECONDS)
    try:
        distributed.init_process_group("gloo", store=store, rank=rank, world_size=size, timeout=seconds)
    except RuntimeError as error:
        raise RendezvousError(f"not all of {size} workers came: {str(error).splitlines()[0]}") from error
    return Team(rank, size, store)


def _number(name: str, default: int) -> int:
    text = os.environ.get(name, str(default))
    if not (text.isascii() and text.isdigit() and len(text) < 10):  # noqa: PLR2004 - more than any job has
        raise RendezvousError(f"{name} must be a whole number, not {text!r}")
    return int(text)


def _by_address(rank: int, size: int, wanted: Callable[[], bool]) -> Store | None:
    address, port = os.environ.get("MASTER_ADDR", _LOOPBACK), _number("MASTER_PORT", 29500)
    # Under torchrun its agent has the store, and keeps it from one start of the workers to the next.
    agent = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    first = rank == 0 and not agent
    seconds = timedelta(seconds=JOIN_SECONDS)
    if not first and not _reached(address, port, wanted):
        return None
    try:
        store = TCPStore(address, port, size, first, seconds, wait_for_workers=False)
    except RuntimeError as error:
        raise RendezvousError(f"{address}:{port}: {str(error).splitlines()[0]}") from error
    start = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    return PrefixStore(f"start-{start}", store) if agent else store


def _reached(address: str, port: int, wanted: Callable[[], bool]) -> bool:
    """Wait until somebody listens there, whose name may not be known before; False: not wanted any more."""
    ends = time.monotonic() + JOIN_SECONDS
    while wanted():
        try:
            socket.create_connection((address, port), _ANSWER_SECONDS).close()
        except OSError as error:
            if time.monotonic() >= ends:
                raise RendezvousError(
                    f"{address}:{port}: no first worker in {JOIN_SECONDS:g} s: {error}"
                ) from error
            time.sleep(_LOOK_SECONDS)
        else:
            return True
    return False


def _by_file(file: Path, rank: int, size: int, wanted: Callable[[], bool]) -> Store | None:
    seconds = timedelta(seconds=JOIN_SECONDS)
    if rank == 0:
        store = TCPStore(_LOOPBACK, 0, size, is_master=True, timeout=seconds, wait_for_workers=False)
        token = secrets.token_hex(16)
        store.set("token", token)
        temporary = file.with_name(f".{file.name}.tmp")
        temporary.write_text(json.dumps({"port": store.port, "token": token, "workers": size}))
        temporary.replace(file)
        return store
    ends = time.monotonic() + JOIN_SECONDS
    while wanted():
        if (found := _met(file, size)) is not None:
            found.set_timeout(seconds)
            return found
        if time.monotonic() >= ends:
            raise RendezvousError(f"{file}: no first worker of {size} in {JOIN_SECONDS:g} s")
        time.sleep(_LOOK_SECONDS)
    return None


def _met(file: Path, size: int) -> Store | None:
    """Return the store of the first worker, None where the file is that of an earlier start."""
    try:
        said = json.loads(file.read_text())
        port, token = int(said["port"]), str(said["token"])
        if said["workers"] != size:
            return None
        socket.create_connection((_LOOPBACK, port), _ANSWER_SECONDS).close()
        store = TCPStore(_LOOPBACK, port, size, is_master=False, timeout=timedelta(seconds=_ANSWER_SECONDS))
        return store if store.get("token").decode() == token else None
    except (OSError, ValueError, KeyError, TypeError, RuntimeError):
        return None
