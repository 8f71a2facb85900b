"""What it costs to stop and continue a whole trainer so that another one has the GPU.

`python benchmarks/time_slices.py [--json FILE]`. Processor time of the sidecar for one stop and its end, over
trainers of several shapes, and how much memory the guardian takes beside it.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import figure
from figure import Figure
from specon_sidecar.slices.freezing import Frozen
from specon_sidecar.slices.guardian import spawn_guardian
from specon_sidecar.slices.processes import children_of

SHAPES = ((1, 1), (2, 1), (40, 1), (8, 200))
"""Processes, and threads of each."""
STOPS = 50

TRAINER = """
import os, sys, threading, time
processes, threads = int(sys.argv[1]), int(sys.argv[2])
for _ in range(processes - 1):
    if os.fork() == 0:
        break
for _ in range(threads - 1):
    threading.Thread(target=time.sleep, args=(3600,), daemon=True).start()
os.write(1, b".")
time.sleep(3600)
"""


@contextlib.contextmanager
def trainer(processes: int, threads: int) -> Iterator[int]:
    """Start one that sleeps; give the process id of its first process once all of it is there."""
    command = [sys.executable, "-I", "-S", "-c", TRAINER, str(processes), str(threads)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as started:
        assert started.stdout is not None
        for _ in range(processes):
            started.stdout.read(1)
        try:
            yield started.pid
        finally:
            for pid in (*children_of(started.pid), started.pid):
                os.kill(pid, signal.SIGKILL)


def measure_stops(processes: int, threads: int, stops: int) -> tuple[float, float]:
    """Return the processor time of a stop and its end, ms, and the guardian's own memory, MiB."""
    with trainer(processes, threads) as pid:
        frozen = Frozen(lambda: [pid], spawn_guardian)
        frozen.stop()  # starts the guardian
        frozen.go()
        begun = time.process_time()
        for _ in range(stops):
            frozen.stop()
            frozen.go()
        used = time.process_time() - begun
        assert frozen.guardian is not None
        guardian = frozen.guardian.pid
        status = Path(f"/proc/{guardian}/status").read_text(encoding="ascii").splitlines()
        own = next(int(line.split()[1]) for line in status if line.startswith("RssAnon:"))
        frozen.end()
        os.waitpid(guardian, 0)
    return used / stops * 1000, own / 1024


def measure(stops: int = STOPS) -> list[Figure]:
    """Return the figures."""
    figures, memory = [], 0.0
    for processes, threads in SHAPES:
        milliseconds, memory = measure_stops(processes, threads, stops)
        what = f"a stop and its end, {processes} processes of {threads} threads"
        figures.append(Figure(what=what, value=milliseconds, unit="ms"))
    return [*figures, Figure(what="memory of the guardian alone", value=memory, unit="MiB")]


def smallest() -> list[Figure]:
    """Return every figure, and measure nothing."""
    return measure(1)


if __name__ == "__main__":
    figure.main(__doc__, measure, smallest)
