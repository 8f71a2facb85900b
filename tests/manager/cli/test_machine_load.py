"""The load of the machine during a run: what it took itself, and what others took."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from specon_manager.cli.run.machine_load import Load, LoadMeter

BURN = "import time\nend = time.process_time() + float({!r})\nwhile time.process_time() < end: pass\n"


def burn(seconds):
    return subprocess.Popen([sys.executable, "-c", BURN.format(seconds)])


@pytest.mark.processes
def test_ones_own_processes_are_told_from_others():
    """A child that was seen to its end counts as ours; the child of somebody else does not."""
    cpus = os.sched_getaffinity(0)
    meter = LoadMeter(cpus)
    burn(0.5).wait()
    # A process that has left its parent is no child that we wait for.
    leave = (
        "import subprocess, sys\n"
        f"command = [sys.executable, '-c', {BURN.format(60)!r}]\n"
        "print(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).pid)"
    )
    stranger = subprocess.run([sys.executable, "-c", leave], capture_output=True, text=True, check=True)
    pid = int(stranger.stdout)
    try:
        used = time.monotonic() + 60
        while _used(pid) < 0.5:
            assert time.monotonic() < used
            time.sleep(0.05)
        load = meter.load()
    finally:
        os.kill(pid, signal.SIGKILL)
    assert 0.5 <= load.own < 5
    if load.others is None:
        pytest.skip("this system does not count the time of its CPUs: a container of another kind would")
    assert load.others >= 0.2  # the system counts in hundredths of a second, and by samples
    assert load.room == pytest.approx(len(cpus) * load.seconds)
    (_, begin), (at, left) = load.left[0], load.left[-1]
    assert begin == 0
    least = 0.02 * at  # that is said to be left even where others took all
    # What others took since then is at most all that there was; samples may be a hundredth of a second off.
    assert least <= left <= max(least, at - load.others / len(cpus) + (load.seconds - at) + 0.02)


@pytest.mark.processes
def test_a_child_counts_while_it_runs():
    """Not only once it has ended: what is left to a run is known from second to second."""
    child = burn(60)
    try:
        meter = LoadMeter(os.sched_getaffinity(0))
        deadline = time.monotonic() + 60
        while meter.load().own < 0.3:
            assert time.monotonic() < deadline
            time.sleep(0.1)
    finally:
        child.kill()
        child.wait()


def test_shares_are_of_all_that_there_was():
    """A machine of four CPUs, ten seconds: a quarter for us, a half for others, a quarter idle."""
    load = Load(cpus=4, seconds=10.0, own=10.0, others=20.0)
    assert (load.room, load.others_share, load.idle_share) == (40.0, 0.5, 0.25)
    assert Load(cpus=4, seconds=10.0, own=10.0, others=None).others_share is None
    assert Load(cpus=4, seconds=0.0, own=0.0, others=0.0).idle_share is None


def test_cpus_that_the_system_does_not_count_say_nothing():
    """Where we took more than the system saw, nothing is known of others."""
    meter = LoadMeter({10_000})
    end = time.process_time() + 0.05
    while time.process_time() < end:
        pass
    assert meter.load().others is None


def _used(pid):
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
