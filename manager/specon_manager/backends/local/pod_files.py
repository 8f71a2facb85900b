"""The files about the pods of a replica, and the lock that lets only one of them live.

<root>/<namespace.job.role.index>/
    lock
    incarnations/<id>/  spec.json  pod.json  exit.json  eviction.json  sidecar.log  supervisor.log
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, TypeVar

import msgspec

from specon_manager.backends.local import supervise
from specon_manager.backends.local.processes import Process  # noqa: TC001 - msgspec reads the annotations

if TYPE_CHECKING:
    from collections.abc import Iterator

Reason = Literal["exited", "evicted", "killed after grace", "killed", "lost", "not started"]
Record = TypeVar("Record", bound=msgspec.Struct)

_log = logging.getLogger(__name__)
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:-]{0,199}")
_ONE_CHECKPOINT: Final = frozenset({"model", "last", "latest", "best", "weights"})


class PodSpec(msgspec.Struct, frozen=True, kw_only=True):
    """What to run as one incarnation of a replica.

    The paths are absolute. `environment` is the whole of it, for trainer and sidecar, and its PATH finds the
    commands. `{trainer_pid}` in the sidecar's arguments becomes the trainer's pid. `cpus` confine the
    trainer and what it starts, and not the sidecar; none means no limit. The graces are the seconds from
    SIGTERM to SIGKILL. `end_with_manager` evicts the pod when the manager that started it is gone.
    """

    replica: str
    incarnation: str
    directory: str
    command: list[str]
    environment: dict[str, str]
    working_directory: str
    cpus: tuple[int, ...]
    log: str
    sidecar_command: list[str] | None = None
    grace_seconds: float = 30.0
    sidecar_grace_seconds: float = 3.0
    end_with_manager: bool = False

    def check(self) -> None:
        """Raise ValueError that names the first field that cannot be right, with its value."""
        if not _NAME.fullmatch(self.incarnation):
            raise ValueError(f"incarnation: must be letters, digits and -_.:, not {self.incarnation!r}")
        for field in ("directory", "working_directory", "log"):
            if not Path(getattr(self, field)).is_absolute():
                raise ValueError(f"{field}: must be an absolute path, not {getattr(self, field)!r}")
        for field in ("command", "sidecar_command"):
            if getattr(self, field) == []:
                raise ValueError(f"{field}: must name a program, not []")
        for field in ("grace_seconds", "sidecar_grace_seconds"):
            if not 0 <= getattr(self, field) < float("inf"):
                raise ValueError(f"{field}: must be seconds, 0 or more, not {getattr(self, field)}")

    @property
    def incarnation_directory(self) -> Path:
        """Where the records of this incarnation are."""
        return Path(self.directory) / "incarnations" / self.incarnation

    @property
    def mark(self) -> str:
        """The value of `SPECON_POD` in every process of the pod; no other pod's mark starts with it."""
        return f"{self.incarnation_directory}/"


class PodRecord(msgspec.Struct, frozen=True):
    """Written by the supervisor once the trainer runs. `started_at` is in Unix seconds, to be shown only."""

    supervisor: Process
    trainer: Process
    started_at: float


class Exit(msgspec.Struct, frozen=True):
    """How a pod ended.

    The trainer's exit code, or the number of the signal that ended it; neither where it was never started
    (reason `not started`, or `evicted` before that) or nobody saw its end (`lost`: its supervisor vanished;
    `killed`: by `Pod.kill`). Times are Unix seconds, to be shown only.
    """

    reason: Reason
    code: int | None = None
    signal: int | None = None
    error: str | None = None
    started_at: float | None = None
    ended_at: float | None = None


def replica_directory(root: Path, replica: str) -> Path:
    """Return the directory of a replica `namespace/job/role/index`.

    Dots join the parts: only the job's name may itself contain dots, so no two replicas share a directory.
    Raises ValueError for anything else.
    """
    parts = replica.split("/")
    dotted = [part for part in (*parts[:1], *parts[2:]) if "." in part]
    if len(parts) != 4 or dotted or not all(map(_NAME.fullmatch, parts)):  # noqa: PLR2004 - the parts named above
        raise ValueError(f"replica: must be namespace/job/role/index, not {replica!r}")
    return root / ".".join(parts)


def job_directory(root: Path, replica: str) -> Path:
    """Return the directory that the replicas of a job share; raises ValueError like `replica_directory`."""
    return root / replica_directory(root, replica).name.rsplit(".", 2)[0]


def read_record(path: Path, kind: type[Record]) -> Record | None:
    """Read a record; None when there is none, or garbage in its place."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except (OSError, msgspec.DecodeError):
        return None


def read_start(spec: PodSpec) -> PodRecord | None:
    """Read the record that the trainer was started."""
    return read_record(spec.incarnation_directory / supervise.POD_FILE, PodRecord)


def read_exit(spec: PodSpec) -> Exit | None:
    """Read the record of the pod's end. Until its supervisor is gone too, the lock may still be held."""
    return read_record(spec.incarnation_directory / supervise.EXIT_FILE, Exit)


def record_lost(spec: PodSpec, reason: Reason) -> Exit | None:
    """Record the end of a pod whose supervisor did not, and return it; None where it was never started.

    The caller holds the replica's lock: all is over, even where the record finds no room on the disk.
    """
    if (known := read_exit(spec)) is not None:
        return known
    record = read_start(spec)
    if record is None:
        return None
    ended = Exit(
        reason=reason,
        error="the supervisor was gone before it could record the end",
        started_at=record.started_at,
        ended_at=time.time(),
    )
    path = spec.incarnation_directory / supervise.EXIT_FILE
    try:
        supervise.write_json(str(path), msgspec.to_builtins(ended))
    except OSError as error:
        _log.error("%s cannot be written: %s", path, error.strerror)
    return ended


def make_checkpoint_directory(path: Path, *, directory: bool = False) -> None:
    """Make the folder that checkpoints go to, or that of the one file that is written again and again.

    A path names a file where one is there, or where it ends in a suffix with a letter (`model.pt`, not
    `lr0.1`) or in what one checkpoint is called (`last`) and nothing is there; `directory` says that it is
    none. Raises OSError.
    """
    is_file = path.exists() and not path.is_dir()
    one = any(map(str.isalpha, path.suffix)) or path.name in _ONE_CHECKPOINT
    may_be = not directory and not path.exists() and one
    (path.parent if is_file or may_be else path).mkdir(parents=True, exist_ok=True)


@contextlib.contextmanager
def lock_replica(directory: Path) -> Iterator[int]:
    """Lock a replica for a new incarnation, and give the descriptor that holds the lock.

    The lock belongs to the open file (flock(2)): it outlasts this context in those that inherited a copy of
    the descriptor, until the last of them has closed it, be it by kill -9. Raises BlockingIOError when it is
    held, OSError when the directory cannot be written.
    """
    directory.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield descriptor
    finally:
        os.close(descriptor)


def is_lock_free(directory: Path) -> bool:
    """Whether no incarnation of the replica lives."""
    try:
        with lock_replica(directory):
            return True
    except BlockingIOError:
        return False
