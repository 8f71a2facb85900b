"""Memory and processor time of a whole sidecar process that reports to a manager.

`python benchmarks/sidecar_process.py [--json FILE]`. It follows a text log to which 100 lines are written per
second, one in ten with a sample, and is told to judge each second, far more often than by default.
"""

import tempfile
import time
from io import RawIOBase
from pathlib import Path

import child
import figure
from figure import Figure
from sidecar_lines import NOISE, TEXT

BOUND_RESIDENT = 48.0
BOUND_SHARE = 0.01
SECONDS = 20
PER_SECOND = 100


def measure(seconds: float = SECONDS, begin: float = 3.0) -> list[Figure]:
    """Follow for a while; the start of the process is told apart."""
    with (
        tempfile.TemporaryDirectory() as folder,
        child.python(str(child.HERE / "stub_manager.py")) as manager,
    ):
        log = Path(folder) / "train.log"
        log.touch()
        state = f"--state-file={folder}/sidecar.json"
        arguments = child.sidecar_arguments(log, int(child.line(manager)), state, "--interval=1")
        with child.python(*arguments, quiet=True) as sidecar, log.open("ab", buffering=0) as writer:
            _write(writer, begin)
            started = child.cpu_seconds(sidecar.pid)
            began = time.perf_counter()
            _write(writer, seconds)
            used = child.cpu_seconds(sidecar.pid) - started
            passed = time.perf_counter() - began
            peak = child.peak_resident_mib(sidecar.pid)
    return [
        Figure(what="sidecar: peak resident memory", value=peak, unit="MiB", at_most=BOUND_RESIDENT),
        Figure(
            what=f"sidecar: share of a core at {PER_SECOND} lines/s",
            value=used / passed,
            unit="core",
            at_most=BOUND_SHARE,
            note=f"over {passed:.0f} s",
        ),
        Figure(what=f"sidecar: its start and first {begin:g} s, once", value=started, unit="CPU s"),
    ]


def _write(writer: RawIOBase, seconds: float) -> None:
    """Write lines one by one, each flushed."""
    write = writer.write
    began = time.perf_counter()
    for number in range(round(seconds * PER_SECOND)):
        write(TEXT % (number, number) if number % 10 == 0 else NOISE)
        time.sleep(max(0.0, began + (number + 1) / PER_SECOND - time.perf_counter()))


def smallest() -> list[Figure]:
    """Give every figure, of next to nothing."""
    return measure(seconds=0.5, begin=1.0)


if __name__ == "__main__":
    figure.main(__doc__, measure, smallest)
