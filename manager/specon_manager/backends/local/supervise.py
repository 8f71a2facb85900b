"""The kubelet of one pod: starts its trainer and its sidecar, ends them in order, records how they ended.

Run as `python -I -S supervise.py SPEC.json` in a session of its own, with the signals of `HELD` blocked and
the replica's exclusively locked lock file open at the number that the specification names. The trainer
inherits that lock, so the kernel itself keeps a second incarnation out while any process of this one has it.

Only the standard library: one of these lives beside every trainer, so it must start fast, stay small and need
no import path. What lets it share its node (`specon_sidecar.slices`, and `share_files` beside this file) is
loaded when SIGHUP says that there is a lease.
"""

# ruff: noqa: PTH100, PTH103, PTH105, PTH112, PTH118, PTH120, PTH123, PTH208 # importing pathlib lengthens the start by a fifth

from __future__ import annotations

import contextlib
import ctypes
import errno
import json
import os
import signal
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any, NoReturn

    from specon_sidecar.slices.slicing import Slicing

SPEC_FILE = "spec.json"  # in: what to run
POD_FILE = "pod.json"  # out: the trainer runs
EXIT_FILE = "exit.json"  # out: everything has ended
EVICTION_FILE = "eviction.json"  # in, read at SIGTERM: a grace other than the specification's
MARK = "SPECON_POD"  # environment variable of every process of a pod: its incarnation's directory

# Blocked and waited for, so that none can be missed at any moment; SIGINT is dropped, and SIGHUP is news of a
# lease (`share_files`).
HELD = frozenset({signal.SIGTERM, signal.SIGCHLD, signal.SIGINT, signal.SIGHUP})
FIRST_RESTART_SECONDS = 0.2  # doubled for each restart of the sidecar...
LAST_RESTART_SECONDS = 10.0  # ...up to this; after a sidecar that lasted so long the first delay counts again
LEFTOVER_SECONDS = 5.0  # a killed process can hang in the kernel; its lock then outlives this supervisor
WAKE_SECONDS = 3600.0
ROOM_SECONDS = 1.0  # between two looks whether a full disk has room again
NEVER = float("inf")
NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT})

# <linux/prctl.h>
PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36

_libc = ctypes.CDLL(None, use_errno=True)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def write_json(path: str, record: Mapping[str, object]) -> None:
    """Write `record` so that after a crash the file is either absent or whole.

    Only its owner may read it: a pod's specification holds the environment, and that holds secrets.
    """
    temporary = f"{path}.tmp"
    with open(temporary, "w", encoding="utf-8", opener=_private) as file:
        json.dump(record, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)
    directory = os.open(os.path.dirname(path), os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def read_stat(pid: int) -> list[str]:
    """Read /proc/PID/stat from its third field (the state) on. Raises OSError for no such process."""
    with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
        # The second field, the name in parentheses, may itself contain spaces and parentheses.
        return file.read().rpartition(")")[2].split()


def start_time(pid: int) -> int:
    """Return when a process started, in clock ticks since boot: with the pid it names one for ever."""
    return int(read_stat(pid)[22 - 3])


def control(option: int, value: int) -> None:
    """Call prctl(2). Raises OSError."""
    if _libc.prctl(option, value, 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"prctl({option}, {value}): {os.strerror(number)}")


def spawn(
    command: Sequence[str], environment: Mapping[str, str], directory: str, log: str, lock: int | None
) -> int:
    """Start a child in a process group of its own that dies with this process; return its pid.

    Its output is appended to the file `log` (to `output.log` where that is a folder), and it inherits the
    descriptor `lock`. Raises OSError when it
    cannot be started, and only returns once the command has replaced the copy of this process.
    """
    parent = os.getpid()
    if os.path.isdir(log):
        log = os.path.join(log, "output.log")
    os.makedirs(os.path.dirname(log), exist_ok=True)
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    # Closed by a successful exec; until then it carries the number and the text of the error.
    failure, report = os.pipe()
    pid = os.fork()
    if pid == 0:
        _become(command, environment, directory, (output, lock, report, parent))
    os.close(output)
    os.close(report)
    with open(failure, "rb") as file:
        message = file.read().decode(errors="replace")
    if message:
        os.waitpid(pid, 0)
        number, _, text = message.partition(" ")
        raise OSError(int(number), text)
    return pid


def _become(
    command: Sequence[str],
    environment: Mapping[str, str],
    directory: str,
    descriptors: tuple[int, int | None, int, int],
) -> NoReturn:
    """Turn this forked copy of the supervisor into `command`, or report why not."""
    output, lock, report, parent = descriptors
    try:
        os.setpgid(0, 0)
        control(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it died before the line above
            os._exit(1)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(output, 1)
        os.dup2(output, 2)
        if lock is not None:
            os.set_inheritable(lock, True)  # noqa: FBT003 - the standard library's own signature
        os.chdir(directory)
        for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        os.execvpe(command[0], list(command), dict(environment))  # noqa: S606 - a shell is not wanted
    except OSError as error:
        named = f"{error.strerror}: {error.filename or command[0]!r}"
        os.write(report, f"{error.errno} {named}".encode())
    except Exception as error:  # noqa: BLE001 - nothing may escape into the supervisor's own code
        os.write(report, f"0 {error!r}".encode())
    finally:
        os._exit(127)


class Supervisor:
    """One pod from the start of its trainer to the end of its last process."""

    def __init__(self, spec: Mapping[str, Any], directory: str) -> None:
        self._spec = spec
        self._directory = directory
        self._environment = {**spec["environment"], MARK: self._directory + "/"}
        self._started_at = time.time()
        self._reason = "exited"
        self._kill_at: float | None = None
        self._trainer: int | None = None
        self._ended: os.waitid_result | None = None
        self._sidecar: int | None = None
        self._sidecar_started = 0.0
        self._sidecar_due = 0.0
        self._restart_seconds = FIRST_RESTART_SECONDS
        self._slicing: Slicing | None = None
        self._may_be_stopped = True

    def run(self) -> None:
        """Run the pod to its end and record it."""
        error = None
        try:
            self._start()
        except OSError as reason:
            self._reason = "not started"
            error = f"the trainer {list(self._spec['command'])} cannot be started: {reason}"
            if self._trainer is not None:  # started, but it could not be recorded
                _kill_group(self._trainer)
        if self._trainer is not None:
            while self._ended is None:
                self._revive_sidecar()
                self._wait(min(self._sidecar_due, self._kill_at or self._sidecar_due, self._share()))
                if self._kill_at is not None and time.monotonic() >= self._kill_at:
                    self._kill_trainer()
            self._end_sharing()
            self._end_leftovers()
            self._stop_sidecar()
            self._end_leftovers()
        self._record(error)

    def _start(self) -> None:
        """Start the trainer, unless the end was asked for already. Raises OSError."""
        # Orphans of the trainer, even those that left its session, become children of this process.
        control(PR_SET_CHILD_SUBREAPER, 1)
        orphaned = False
        if self._spec["end_with_manager"]:
            control(PR_SET_PDEATHSIG, signal.SIGTERM)
            orphaned = os.getppid() != self._spec["manager_pid"]  # it died before the line above
        if orphaned or signal.SIGTERM in signal.sigpending():
            self._reason = "evicted"
            return
        anywhere = os.sched_getaffinity(0)
        if self._spec["cpus"]:
            try:
                os.sched_setaffinity(0, self._spec["cpus"])
            except OSError as error:
                named = f"{error.strerror}: CPUs {list(self._spec['cpus'])}"
                raise OSError(error.errno, named) from error
        self._trainer = spawn(
            self._spec["command"],
            self._environment,
            self._spec["working_directory"],
            self._spec["log"],
            self._spec["lock_descriptor"],
        )
        # Each sidecar of a gang that starts on few processors would delay it: it runs wherever there is room.
        with contextlib.suppress(OSError):
            os.sched_setaffinity(0, anywhere)
        processes = {"supervisor": os.getpid(), "trainer": self._trainer}
        identities = {role: {"pid": pid, "start_time": start_time(pid)} for role, pid in processes.items()}
        write_json(os.path.join(self._directory, POD_FILE), {**identities, "started_at": self._started_at})

    def _wait(self, until: float) -> None:
        """Wait for a signal, at most until then (monotonic seconds), and act on it."""
        seconds = max(0.0, min(until - time.monotonic(), WAKE_SECONDS))
        received = signal.sigtimedwait(HELD, seconds)
        self._reap()
        if received is not None and received.si_signo == signal.SIGHUP:
            self._begin_sharing()
        # In this order: a trainer that had ended by itself was not evicted.
        if received is not None and received.si_signo == signal.SIGTERM and self._ended is None:
            self._evict()

    def _reap(self) -> None:
        while True:
            try:
                ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return
            if ended is None:
                return
            if ended.si_pid == self._trainer and self._ended is None:
                self._ended = ended
                # Before it is reaped: until then nobody else can get the number of its group.
                _kill_group(ended.si_pid)
            elif ended.si_pid == self._sidecar:
                self._sidecar = None
                self._put_off_sidecar()
            elif self._slicing is not None:
                self._slicing.note_reaped(ended.si_pid)
            os.waitpid(ended.si_pid, 0)

    def _begin_sharing(self) -> None:
        if self._slicing is not None or not self._may_be_stopped:
            return
        path = [os.path.dirname(os.path.abspath(__file__)), self._spec["import_path"]]
        sys.path += path
        try:
            self._slicing = self._make_slicing()
        except Exception as error:  # noqa: BLE001 - whatever it is, the trainer trains on
            sys.stderr.write(f"the node cannot be shared: {error!r}\n")
            self._may_be_stopped = False
        finally:
            del sys.path[-len(path) :]

    def _make_slicing(self) -> Slicing:
        """Import what it takes, once it is needed."""
        from specon_sidecar.slices.freezing import Frozen  # noqa: PLC0415 - see above
        from specon_sidecar.slices.guardian import fork_guardian  # noqa: PLC0415 - see above
        from specon_sidecar.slices.processes import children_of  # noqa: PLC0415 - see above
        from specon_sidecar.slices.slicing import Slicing  # noqa: PLC0415 - see above

        share_files = __import__("share_files")
        lease, account = (
            os.path.join(self._directory, name) for name in (share_files.LEASE_FILE, share_files.STOPPED_FILE)
        )
        frozen = Frozen(
            lambda: [pid for pid in children_of(os.getpid()) if pid != self._sidecar], fork_guardian
        )
        return Slicing(
            lambda now: share_files.read_lease(lease, now),
            lambda seconds, since: share_files.write_account(account, seconds, since),
            frozen,
        )

    def _share(self) -> float:
        """Let the trainer run, or wait for its turn; return until when, monotonic seconds."""
        if self._slicing is None:
            return NEVER
        try:
            return self._slicing.look()
        except Exception as error:  # noqa: BLE001 - whatever it is, the trainer trains on
            sys.stderr.write(f"the node is not shared any more: {error!r}\n")
            self._end_sharing()
            return NEVER

    def _end_sharing(self) -> None:
        """Let the trainer run on for good: who is told to end, or has ended, waits for no turn."""
        self._may_be_stopped = False
        if self._slicing is not None:
            self._slicing.end()
            self._slicing = None

    def _evict(self) -> None:
        assert self._trainer is not None
        self._end_sharing()
        grace = self._spec["grace_seconds"]
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            path = os.path.join(self._directory, EVICTION_FILE)
            with open(path, encoding="utf-8") as file:
                grace = float(json.load(file)["grace_seconds"])
        kill_at = time.monotonic() + max(0.0, grace)
        if self._reason == "exited":
            self._reason = "evicted"
            os.kill(self._trainer, signal.SIGTERM)
        self._kill_at = kill_at if self._kill_at is None else min(kill_at, self._kill_at)

    def _kill_trainer(self) -> None:
        assert self._trainer is not None
        self._reason = "killed after grace"
        self._kill_at = None
        _kill_group(self._trainer)

    def _put_off_sidecar(self) -> None:
        now = time.monotonic()
        if now - self._sidecar_started >= LAST_RESTART_SECONDS:
            self._restart_seconds = FIRST_RESTART_SECONDS
        self._sidecar_due = now + self._restart_seconds
        self._restart_seconds = min(2 * self._restart_seconds, LAST_RESTART_SECONDS)

    def _revive_sidecar(self) -> None:
        """Start the sidecar when it is not there and its time has come."""
        command = self._spec["sidecar_command"]
        now = time.monotonic()
        if command is None or self._sidecar is not None:
            self._sidecar_due = now + WAKE_SECONDS
            return
        if now < self._sidecar_due:
            return
        command = [part.replace("{trainer_pid}", str(self._trainer)) for part in command]
        log = os.path.join(self._directory, "sidecar.log")
        self._sidecar_started = now
        try:
            self._sidecar = spawn(command, self._environment, self._spec["working_directory"], log, None)
        except OSError as error:
            sys.stderr.write(f"the sidecar {command} cannot be started: {error}\n")
            self._put_off_sidecar()
        else:
            self._sidecar_due = now + WAKE_SECONDS

    def _stop_sidecar(self) -> None:
        if self._sidecar is None:
            return
        os.kill(self._sidecar, signal.SIGTERM)
        deadline = time.monotonic() + self._spec["sidecar_grace_seconds"]
        while self._sidecar_lives() and time.monotonic() < deadline:
            self._wait(deadline)
        # One that outlasts this is a child of this process other than the sidecar: a leftover.
        self._sidecar = None

    def _sidecar_lives(self) -> bool:
        return self._sidecar is not None

    def _end_leftovers(self) -> None:
        """End every child but the sidecar: what the trainer started and left behind."""
        deadline = time.monotonic() + LEFTOVER_SECONDS
        while time.monotonic() < deadline:
            self._reap()
            leftovers = _children(os.getpid()) - {self._sidecar}
            if not leftovers:
                return
            for pid in leftovers:
                os.kill(pid, signal.SIGKILL)  # not yet reaped, so the number is still this child's
            self._wait(time.monotonic() + 0.05)
        sys.stderr.write(f"killed, but still there: {sorted(leftovers)}\n")

    def _record(self, error: str | None) -> None:
        code = number = None
        if self._ended is not None:
            exited = self._ended.si_code == os.CLD_EXITED
            code, number = (self._ended.si_status, None) if exited else (None, self._ended.si_status)
        record = {
            "code": code,
            "signal": number,
            "reason": self._reason,
            "error": error,
            "started_at": self._started_at,
            "ended_at": time.time(),
        }
        path = os.path.join(self._directory, EXIT_FILE)
        while True:
            try:
                write_json(path, record)
            except OSError as trouble:
                # Without it a complete training would start again; an end that cannot wait is reported.
                if trouble.errno not in NO_ROOM or _is_told_to_end(ROOM_SECONDS):
                    raise
            else:
                return


def _is_told_to_end(seconds: float) -> bool:
    """Whether SIGTERM comes within so many seconds."""
    received = signal.sigtimedwait({signal.SIGTERM}, seconds)
    return received is not None


def _kill_group(leader: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)


def _children(parent: int) -> set[int]:
    found = set()
    for name in os.listdir("/proc"):
        if name.isdecimal():
            with contextlib.suppress(OSError):
                if int(read_stat(int(name))[4 - 3]) == parent:
                    found.add(int(name))
    return found


def main(path: str) -> None:
    """Supervise the pod of the specification at `path`."""
    signal.pthread_sigmask(signal.SIG_BLOCK, HELD)
    with open(path, encoding="utf-8") as file:
        spec = json.load(file)
    os.set_inheritable(spec["lock_descriptor"], False)  # noqa: FBT003 - the standard library's own signature
    Supervisor(spec, os.path.dirname(path)).run()


if __name__ == "__main__":
    main(sys.argv[1])
