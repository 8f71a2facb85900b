"""Processes that a benchmark starts: pinned, ended with it, and asked what they used."""

import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import psutil

HERE = Path(__file__).parent
SAMPLES = HERE.parent / "samples" / "training"

Child = subprocess.Popen[str]


@contextlib.contextmanager
def python(
    *arguments: str,
    cpu: int | None = None,
    quiet: bool = False,
    path: Path = SAMPLES,
    log: Path | None = None,
    environment: Mapping[str, str] | None = None,
    alone: bool = False,
) -> Iterator[Child]:
    """Run this Python with the arguments; the process is killed when the block is left.

    It finds modules in the folder `path` besides its own; what it says on standard error goes to `log`.
    `alone`: in a session of its own, as a pod is. Linux may give each session the same share of processors.
    """
    errors = None if log is None else log.open("wb")
    process = subprocess.Popen(
        [*_pinned(cpu), sys.executable, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL if quiet else subprocess.PIPE,
        stderr=errors,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(path), **(environment or {})},
        start_new_session=alone,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()
        if errors is not None:
            errors.close()


def line(process: Child) -> str:
    """Return the next line that the process prints. Raises RuntimeError when it ended instead."""
    assert process.stdout is not None
    text = process.stdout.readline()
    if not text:
        raise RuntimeError(f"{process.args!r} ended early")
    return text.strip()


def tell(process: Child, text: str) -> None:
    """Write a line to the process."""
    assert process.stdin is not None
    process.stdin.write(text + "\n")
    process.stdin.flush()


def free_port() -> int:
    """Return a port of this machine that nobody listens on."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def cpu_seconds(pid: int) -> float:
    """Return the processor time that a process has used, its threads included."""
    ticks = Path(f"/proc/{pid}/schedstat").read_text().split()
    threads = [int(text.read_text().split()[0]) for text in Path(f"/proc/{pid}/task").glob("*/schedstat")]
    return max(int(ticks[0]), sum(threads)) / 1e9


def resident_mib(pid: int) -> float:
    """Return the resident memory of a process."""
    return float(psutil.Process(pid).memory_info().rss / 2**20)


def peak_resident_mib(pid: int) -> float:
    """Return the most memory that a process has had resident."""
    status = dict(text.split(":", 1) for text in Path(f"/proc/{pid}/status").read_text().splitlines())
    return int(status["VmHWM"].split()[0]) / 1024


def last_cpu() -> int:
    """Return the last CPU that this process may use."""
    return max(os.sched_getaffinity(0))


def sidecar_arguments(log: Path, port: int, *further: str) -> Sequence[str]:
    """Return the arguments of a sidecar that reports to a manager on this machine."""
    return (
        "-m",
        "specon_sidecar",
        f"--log={log}",
        f"--manager=http://127.0.0.1:{port}",
        "--replica=default/benchmark/worker/0",
        "--incarnation=0001",
        *further,
    )


def _pinned(cpu: int | None) -> Sequence[str]:
    return () if cpu is None else ("taskset", "--cpu-list", str(cpu))
