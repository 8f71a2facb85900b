"""How many processors a pod would keep busy is seen from its threads, however full its node is."""

import os
import subprocess
import sys
import time

import pytest

from specon_manager.backends.local.appetite import Appetite, running_threads

BURN = """
import os, sys
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
for _ in range(int(sys.argv[1]) - 1):
    if os.fork() == 0:
        os.setsid()
        break
while os.getppid() != 1: pass
"""


@pytest.mark.processes
def test_all_that_wants_to_run_counts_and_what_is_stopped_does_not():
    """Three processes on one CPU want three, one that sleeps none; what is stopped or dead is left out."""
    busy = subprocess.Popen([sys.executable, "-c", BURN, "3"])
    idle, stopped = (subprocess.Popen(["sleep", "60"]) for _ in range(2))
    os.kill(stopped.pid, 19)
    roots = [busy.pid, idle.pid, stopped.pid, 2**22 + 1]
    try:
        deadline = time.monotonic() + 30
        while running_threads(roots) != {busy.pid: 3, idle.pid: 0}:
            assert time.monotonic() < deadline, running_threads(roots)
            time.sleep(0.05)
    finally:
        for process in (busy, idle, stopped):
            process.kill()
            process.wait()


def test_an_appetite_follows_slowly_and_keeps_to_a_number():
    """Two threads with pauses are two; one that now and then has a second stays one; four become four."""
    appetite = Appetite()
    assert appetite.processors == 1
    for threads in (2, 2, 1, 2, 2, 2, 2, 1, 2, 2):
        appetite.see(threads)
    assert appetite.processors == 2
    appetite = Appetite()
    for threads in (1, 1, 2, 0, 1, 1, 1, 2, 1, 1):
        appetite.see(threads)
    assert appetite.processors == 1
    for _ in range(40):
        appetite.see(4)
    assert appetite.processors == 4
    for _ in range(60):
        appetite.see(0)
    assert appetite.processors == 1
