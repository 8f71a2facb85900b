"""Virtual pods: starts them, ends them, waits for them, and finds those that an earlier manager started.

A pod is a supervisor (`supervise.py`) with a trainer and a sidecar. Pods outlive the manager; all that a new
manager must know is on disk (`pod_files.py`).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

import specon_sidecar
from specon_manager.backends.local import supervise
from specon_manager.backends.local.pod_files import (
    Exit,
    PodRecord,
    PodSpec,
    is_lock_free,
    lock_replica,
    read_exit,
    read_record,
    read_start,
    record_lost,
    replica_directory,
)
from specon_manager.backends.local.processes import Process, end_marked, kill_marked, poll
from specon_manager.backends.local.share_files import LEASE_FILE

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "Exit",
    "Pod",
    "PodSpec",
    "PodStuckError",
    "ReplicaBusy",
    "StartError",
    "find_pods",
    "replica_directory",
    "start",
]

_IMPORT_PATH = str(Path(specon_sidecar.__file__).parent.parent)
START_SECONDS = 10.0  # the supervisor needs some 20 ms; a machine under load needs more
KILL_SECONDS = 10.0  # a killed process can hang in the kernel, for example on a dead network volume
EVICTION_MARGIN_SECONDS = 8.0  # beyond the graces: the supervisor's own 5 s for leftovers, and some
LOCK_POLL_SECONDS = 0.2
OF_ALL = f"incarnations/*/{supervise.SPEC_FILE}"

_log = logging.getLogger(__name__)


class ReplicaBusy(Exception):  # noqa: N818 - a state of the replica to wait out, not a fault
    """An incarnation of this replica, or something it left behind, still lives."""


class StartError(Exception):
    """The supervisor of a pod did not start. Nothing of the pod runs; it may be tried again."""


class PodStuckError(Exception):
    """Processes of a pod outlived SIGKILL: they hang in the kernel. The replica stays busy meanwhile."""


class Pod:
    """One incarnation of a replica that was started, by this manager or an earlier one."""

    def __init__(self, spec: PodSpec, record: PodRecord | None) -> None:
        self.spec = spec
        self.replica = spec.replica
        self.incarnation = spec.incarnation
        self._record = record
        self._killed = False

    @property
    def trainer_pid(self) -> int | None:
        """The trainer's pid, also after its end; None if the trainer was never started."""
        return self._record.trainer.pid if self._record else None

    @property
    def started_at(self) -> float | None:
        """When the pod was started, Unix seconds, to be shown only."""
        if self._record:
            return self._record.started_at
        ended = read_exit(self.spec)
        return ended.started_at if ended else None

    @property
    def alive(self) -> bool:
        """Whether the pod still runs: from its start until all of it is gone and its end recorded."""
        return self._record is not None and self._record.supervisor.alive

    async def wait(self) -> Exit:
        """Wait until the whole pod has ended.

        If its supervisor vanished, the rest of the pod is killed, for nobody else does, and the result is
        `lost` once the replica's lock is free.
        """
        if self._record is not None:
            await self._record.supervisor.wait_until_gone()
        while (ended := read_exit(self.spec)) is None:
            if await end_marked(self.spec.mark, KILL_SECONDS):
                with contextlib.suppress(BlockingIOError), lock_replica(Path(self.spec.directory)):
                    ended = record_lost(self.spec, "killed" if self._killed else "lost")
                    if ended is not None:
                        return ended
            await asyncio.sleep(LOCK_POLL_SECONDS)
        return ended

    async def evict(self, grace_seconds: float | None = None) -> Exit:
        """End the pod in order (SIGTERM, after the grace SIGKILL; then the sidecar), wait until it is gone.

        The grace is the specification's unless given. May be repeated, also with a shorter grace. Raises
        PodStuckError when processes outlive SIGKILL.
        """
        grace = self.spec.grace_seconds if grace_seconds is None else max(0.0, grace_seconds)
        if self._record is not None and self.alive:
            path = self.spec.incarnation_directory / supervise.EVICTION_FILE
            try:
                supervise.write_json(str(path), {"grace_seconds": grace})
            except OSError as error:  # a full disk keeps nothing from being ended
                _log.error("%s cannot be written, its own grace holds: %s", path, error.strerror)
            self._record.supervisor.send(signal.SIGTERM)
        bound = grace + self.spec.sidecar_grace_seconds + EVICTION_MARGIN_SECONDS
        try:
            return await asyncio.wait_for(self.wait(), bound)
        except TimeoutError:
            _log.warning("%s %s: not evicted in %g s, killed", self.replica, self.incarnation, bound)
        self.kill()
        try:
            return await asyncio.wait_for(self.wait(), KILL_SECONDS)
        except TimeoutError:
            raise PodStuckError(
                f"{self.replica} {self.incarnation}: still there {KILL_SECONDS:g} s after SIGKILL"
            ) from None

    def share(self, lease: Mapping[str, object] | None, *, news: bool) -> None:
        """Let the trainer run in its turns only (see `share_files`), or always again; `news`: at once.

        Raises OSError where the lease cannot be written.
        """
        path = self.spec.incarnation_directory / LEASE_FILE
        if lease is None:
            path.unlink(missing_ok=True)
        else:
            # Not kept over a crash of the machine: it is over in seconds.
            temporary = path.with_suffix(".tmp")
            temporary.write_bytes(msgspec.json.encode(lease))
            temporary.replace(path)
        if news and self._record is not None:
            self._record.supervisor.send(signal.SIGHUP)

    def kill(self) -> None:
        """SIGKILL every process of the pod at once; `wait` tells when they are gone."""
        if not self.alive or self._record is None:
            return
        self._killed = True
        self._record.supervisor.send(signal.SIGKILL)
        kill_marked(self.spec.mark)


async def start(spec: PodSpec) -> Pod:
    """Start a pod; return it once its trainer runs, or could not be started (then `wait` says why).

    Idempotent by incarnation: one that was started before is returned as it is now, running or ended.
    Must be called in a thread that lives as long as the manager (the loop's own), for `end_with_manager` is
    bound to that thread by the kernel. Raises ReplicaBusy while another incarnation lives, StartError,
    PodStuckError when leftovers of a lost incarnation cannot be killed, ValueError for a bad
    specification, and OSError when the directory cannot be written.
    """
    spec.check()
    directory = Path(spec.directory)
    if (pod := await _settle(spec)) is not None:
        return pod
    with contextlib.ExitStack() as held:
        try:
            lock = held.enter_context(lock_replica(directory))
        except BlockingIOError:
            raise ReplicaBusy(f"{spec.replica}: another incarnation lives, not {spec.incarnation}") from None
        if (pod := _read_record(spec)) is not None:
            return pod
        await _end_earlier(directory)
        supervisor = _spawn(spec, lock)
    hung = not await poll(lambda: _read_record(spec) is not None or not supervisor.alive, START_SECONDS)
    if not hung and (pod := _read_record(spec)) is not None:
        if pod.trainer_pid is None:
            # Without a trainer the supervisor ends at once; its lock is free when it is gone.
            await poll(lambda: not supervisor.alive, START_SECONDS)
        return pod
    supervisor.send(signal.SIGKILL)
    kill_marked(spec.mark)
    await poll(lambda: not supervisor.alive, KILL_SECONDS)
    output = (spec.incarnation_directory / "supervisor.log").read_text(errors="replace").strip()
    what = f"is not ready after {START_SECONDS:g} s" if hung else "ended early"
    raise StartError(f"{spec.replica} {spec.incarnation}: its supervisor {what}: {output[-500:]}")


async def find_pods(root: Path) -> list[Pod]:
    """Return all pods ever started below `root` (absolute) whose records are there, running or ended.

    An incarnation that was ordered but whose supervisor never ran is none. One whose supervisor is just
    starting is waited for, at most 10 s.
    """
    pods = []
    for path in _files(root, f"*/{OF_ALL}"):
        spec = read_record(path, PodSpec)
        if spec is None or spec.incarnation_directory != path.parent:
            _log.warning("%s: not a pod's specification, or not of this place; left alone", path)
            continue
        if (pod := await _settle(spec)) is not None:
            pods.append(pod)
    return pods


def _files(directory: Path, pattern: str) -> list[Path]:
    return sorted(directory.glob(pattern))


def _read_record(spec: PodSpec) -> Pod | None:
    record = read_start(spec)
    if record is None and read_exit(spec) is None:
        return None
    return Pod(read_record(spec.incarnation_directory / supervise.SPEC_FILE, PodSpec) or spec, record)


async def _settle(spec: PodSpec) -> Pod | None:
    """Return the pod of an incarnation if it was ever started.

    A manager that died may have spawned its supervisor a moment ago: then it is waited for, at most 10 s.
    """
    specs = [read_record(path, PodSpec) for path in _files(Path(spec.directory), OF_ALL)]
    others = [other for other in specs if other and other.incarnation != spec.incarnation]

    def settled() -> bool:
        ordered = (spec.incarnation_directory / supervise.SPEC_FILE).exists()
        if _read_record(spec) is not None or not ordered or is_lock_free(Path(spec.directory)):
            return True
        return any(record.supervisor.alive for record in map(read_start, others) if record)

    await poll(settled, START_SECONDS)
    return _read_record(spec)


async def _end_earlier(directory: Path) -> None:
    """Kill what lost incarnations left behind and record their end. The caller holds the replica's lock."""
    specs = [read_record(path, PodSpec) for path in _files(directory, OF_ALL)]
    lost = [spec for spec in specs if spec and read_exit(spec) is None]
    # The supervisor of one that recorded its end has seen to it that nothing was left.
    if lost and not await end_marked(f"{directory}/incarnations/", KILL_SECONDS):
        raise PodStuckError(f"{directory}: leftovers are still there {KILL_SECONDS:g} s after SIGKILL")
    for spec in lost:
        record_lost(spec, "lost")


def _spawn(spec: PodSpec, lock: int) -> Process:
    """Start the supervisor, which gets its own copy of the lock."""
    directory = spec.incarnation_directory
    directory.mkdir(parents=True, exist_ok=True)
    path = str(directory / supervise.SPEC_FILE)
    inherited = os.dup(lock)
    try:
        orders = {"lock_descriptor": inherited, "manager_pid": os.getpid(), "import_path": _IMPORT_PATH}
        supervise.write_json(path, {**msgspec.to_builtins(spec), **orders})
        os.set_inheritable(inherited, True)  # noqa: FBT003 - the standard library's own signature
        log_flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        pid = os.posix_spawn(
            sys.executable,
            [sys.executable, "-I", "-S", supervise.__file__, path],
            {supervise.MARK: spec.mark},
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_OPEN, 1, str(directory / "supervisor.log"), log_flags, 0o644),
                (os.POSIX_SPAWN_DUP2, 1, 2),
            ],
            setsid=True,
            # An eviction may come before the supervisor is ready for it: it waits, blocked.
            setsigmask=supervise.HELD,
            setsigdef=signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP},
        )
    finally:
        os.close(inherited)
    # A child that is not yet reaped is always there.
    return Process(pid, supervise.start_time(pid))
